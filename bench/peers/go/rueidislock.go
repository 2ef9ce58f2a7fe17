package main

import (
	"context"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// rueidislock for one server: a majority of one key. Its other options are the defaults.
func connectRueidislock(url string) func() Hold {
	options, err := rueidis.ParseURL(url)
	if err != nil {
		panic(err)
	}
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{ClientOption: options, KeyMajority: 1})
	if err != nil {
		panic(err)
	}
	return func() Hold {
		return func(key string, body func()) error {
			_, cancel, err := locker.WithContext(context.Background(), key)
			if err != nil {
				return err
			}
			body()
			cancel()
			return nil
		}
	}
}
