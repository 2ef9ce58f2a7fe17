package main

import (
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// redsync on go-redis, both with their defaults; so many tries that whoever polls goes on polling.
func connectRedsync(url string) func() Hold {
	options, err := redis.ParseURL(url)
	if err != nil {
		panic(err)
	}
	locks := redsync.New(goredis.NewPool(redis.NewClient(options)))
	return func() Hold {
		return func(key string, body func()) error {
			mutex := locks.NewMutex(key, redsync.WithExpiry(30*time.Second), redsync.WithTries(1000))
			if err := mutex.Lock(); err != nil {
				return err
			}
			body()
			_, err := mutex.Unlock()
			return err
		}
	}
}
