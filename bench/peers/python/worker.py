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
        self.arrivals = []
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


class Gate:
    """What all workers of an open loop share."""

    lock = threading.Lock()
    outstanding = 0
    is_closed = False


class Generator:
    """The arrivals of one worker: a thread each, which waits for none of the others."""

    def __init__(self, worker, begin, scheduled):
        self.worker, self.begin = worker, begin
        # When each was scheduled, when it called, when its body began and ended.
        worker.arrivals = [[after, 0, 0, 0] for after in scheduled]

    def work(self):
        for entry in self.worker.arrivals:
            time.sleep(max(self.begin + entry[0] - nanos(), 0) / 1e9)
            with Gate.lock:
                if Gate.outstanding >= PLAN["outstanding"]:
                    continue
                Gate.outstanding += 1
            entry[1] = nanos() - self.begin
            threading.Thread(target=self.serve, args=(entry,), daemon=True).start()

    def serve(self, entry):
        while not entry[2] and not Gate.is_closed:
            try:
                with self.worker.lock:
                    self.visit(entry)
            except redis.RedisError as error:
                with Gate.lock:
                    self.worker.tally["errors"] += 1
                    self.worker.tally["first_error"] = str(error)
        with Gate.lock:
            Gate.outstanding -= 1

    def visit(self, entry):
        if Gate.is_closed:
            return
        entry[2] = nanos() - self.begin
        counter = self.worker.cell.read()[0]
        if PLAN["body_ms"] > 0:
            time.sleep(PLAN["body_ms"] / 1e3)
        with Gate.lock:
            if not Gate.is_closed:
                self.worker.cell.write(counter + 1, self.worker.number + 1, nanos())
                entry[3] = nanos() - self.begin
                self.worker.tally["holds"] += 1


def open_loop(workers, start):
    """Ends when all were served, or when it is time to give up."""
    begin = start["begin"]
    lists = zip(workers, start["arrivals"])
    run_all([Generator(worker, begin, scheduled).work for worker, scheduled in lists])
    gives_up = begin + int(PLAN["seconds"] * 1e9)
    while Gate.outstanding and nanos() < gives_up:
        time.sleep(0.01)
    with Gate.lock:
        Gate.is_closed = True


def connect():
    # Its default are 100 connections; a thread without one fails.
    most = max(100, PLAN["tasks"], PLAN["outstanding"])
    return redis.Redis.from_url(PLAN["url"], max_connections=most)


def run_all(steps):
    threads = [threading.Thread(target=step) for step in steps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main():
    client = connect()
    cell = Cell(PLAN["cell"]) if PLAN["cell"] else None
    numbers = range(PLAN["first_worker"], PLAN["first_worker"] + PLAN["tasks"])
    workers = [
        Worker(number, connect() if PLAN["client_each"] else client, cell) for number in numbers
    ]
    warm = nanos() + int(PLAN["warm_up_s"] * 1e9)
    run_all([lambda worker=worker: worker.warm_up(warm) for worker in workers])
    print("ready", flush=True)
    line = sys.stdin.readline()
    if not line:
        return
    if PLAN["is_open"]:
        open_loop(workers, json.loads(line))
    else:
        until = nanos() + int(PLAN["seconds"] * 1e9)
        run_all([lambda worker=worker: worker.work(until) for worker in workers])
    answer = {"workers": [worker.tally for worker in workers]}
    answer["arrivals"] = [entry for worker in workers for entry in worker.arrivals]
    for name in ("wait", "cycle", "passed"):
        merged = Histogram()
        for worker in workers:
            merged.merge(getattr(worker, name))
        answer[name] = {"buckets": merged.buckets, "max": merged.max}
    print(json.dumps(answer), flush=True)
    # Threads that still wait for the lock are not waited for.
    os._exit(0)


main()
