package main

import (
	"context"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// Now and then a wake-up does not arrive, and nothing else ends the wait.
const longestWait = 2 * time.Second

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
			bound, end := context.WithTimeout(context.Background(), longestWait)
			defer end()
			_, cancel, err := locker.WithContext(bound, key)
			if err != nil {
				return err
			}
			body()
			cancel()
			return nil
		}
	}
}
