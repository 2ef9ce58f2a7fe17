"""Workers on the Lock of redis-py. The protocol with the harness is described in
bench/src/plan.rs."""

import json
import os
import sys
import threading
import time

import redis

LEASE_S = 30
PLAN = json.loads(sys.argv[1])
nanos = time.monotonic_ns  # CLOCK_MONOTONIC


class Histogram:
    """The buckets of bench/src/histogram.rs."""

    def __init__(self):
        self.buckets = {}
        self.max = 0

    def count(self, value):
        value = max(value, 0)
        shift = max(value.bit_length() - 8, 0)
        bucket = shift * 128 + (value >> shift)
        self.buckets[bucket] = self.buckets.get(bucket, 0) + 1
        self.max = max(self.max, value)

    def merge(self, other):
        for bucket, count in other.buckets.items():
            self.buckets[bucket] = self.buckets.get(bucket, 0) + count
        self.max = max(self.max, other.max)


class Cell:
    """What the lock protects: three words in a file, read and then written."""

    def __init__(self, path):
        self.file = os.open(path, os.O_RDWR)

    def read(self):
        text = os.pread(self.file, 24, 0)
        return [int.from_bytes(text[at : at + 8], "little") for at in (0, 8, 16)]

    def write(self, *words):
        os.pwrite(self.file, b"".join(word.to_bytes(8, "little") for word in words), 0)


class Worker:
    def __init__(self, number, client, cell):
        self.number = number
        self.cell = cell
        key = f"{PLAN['key']}-{number}" if PLAN["is_distinct"] else PLAN["key"]
        # Its defaults: a try every 100 ms, for as long as it takes.
        self.lock = client.lock(key, timeout=LEASE_S)
        self.warm_lock = client.lock(f"warm-up-{number}", timeout=LEASE_S)
        self.tally = {"holds": 0, "hand_overs": 0, "late": 0, "errors": 0, "first_error": None}
        self.wait, self.cycle, self.passed = Histogram(), Histogram(), Histogram()

    def warm_up(self, until):
        while True:
            with self.warm_lock:
                pass
            if nanos() >= until:
                return

    def work(self, until):
        while (called := nanos()) < until:
            seen = None
            try:
                with self.lock:
                    seen = self.visit()
            except redis.RedisError as error:
                self.tally["errors"] += 1
                self.tally["first_error"] = self.tally["first_error"] or str(error)
            # A release that failed comes behind a body that ran.
            if seen:
                self.count(called, until, *seen)

    def visit(self):
        began = nanos()
        if self.cell is None:
            return began, 0, 0
        counter, last, ended = self.cell.read()
        if PLAN["body_ms"] > 0:
            time.sleep(PLAN["body_ms"] / 1e3)
        self.cell.write(counter + 1, self.number + 1, nanos())
        return began, last, ended

    def count(self, called, until, began, last, ended):
        self.wait.count(began - called)
        if began >= until:
            self.tally["late"] += 1
            return
        self.cycle.count(nanos() - called)
        self.tally["holds"] += 1
        if last == 0 or last - 1 == self.number:
            return
        self.tally["hand_overs"] += 1
        each = PLAN["tasks_per_process"]
        if each == 0 or (last - 1) // each != self.number // each:
            self.passed.count(began - ended)


def run_all(steps):
    threads = [threading.Thread(target=step) for step in steps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main():
    # Its default are 100 connections; a thread without one fails.
    client = redis.Redis.from_url(PLAN["url"], max_connections=max(100, PLAN["tasks"]))
    cell = Cell(PLAN["cell"]) if PLAN["cell"] else None
    numbers = range(PLAN["first_worker"], PLAN["first_worker"] + PLAN["tasks"])
    workers = [Worker(number, client, cell) for number in numbers]
    warm = nanos() + int(PLAN["warm_up_s"] * 1e9)
    run_all([lambda worker=worker: worker.warm_up(warm) for worker in workers])
    print("ready", flush=True)
    if not sys.stdin.readline():
        return
    until = nanos() + int(PLAN["seconds"] * 1e9)
    run_all([lambda worker=worker: worker.work(until) for worker in workers])
    answer = {"workers": [worker.tally for worker in workers]}
    for name in ("wait", "cycle", "passed"):
        merged = Histogram()
        for worker in workers:
            merged.merge(getattr(worker, name))
        answer[name] = {"buckets": merged.buckets, "max": merged.max}
    print(json.dumps(answer), flush=True)


main()
