"""Plays one part of a conversation between redis-py's Lock and redlock.

interop.py URL KEY: answers commands from standard input, one line each."""

import sys

import redis
from redis.lock import Lock

client = redis.Redis.from_url(sys.argv[1])
lock = Lock(client, sys.argv[2], timeout=60, thread_local=False)
print("redis-py", redis.__version__, flush=True)
for line in sys.stdin:
    command = line.strip()
    if command == "try":
        print(lock.acquire(blocking=False), flush=True)
    elif command == "wait":
        print(lock.acquire(blocking=True, blocking_timeout=30), flush=True)
    elif command == "locked":
        print(lock.locked(), flush=True)
    elif command == "release":
        try:
            lock.release()
            print("released", flush=True)
        except redis.exceptions.LockError as error:
            print(type(error).__name__, flush=True)
    else:
        sys.exit(f"no such command: {command}")
