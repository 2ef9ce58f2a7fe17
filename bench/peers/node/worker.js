// Workers on node-redlock. The protocol with the harness is described in bench/src/plan.rs.
import fs from "node:fs";
import readline from "node:readline";
import { createRequire } from "node:module";
import Redis from "ioredis";

// Its package.json has no types condition for modules that Node would follow.
const { default: Redlock } = createRequire(import.meta.url)("redlock");

const LEASE_MS = 30_000;
const plan = JSON.parse(process.argv[2]);

// CLOCK_MONOTONIC; exact to 2^53 ns, 104 days of uptime.
const nanos = () => Number(process.hrtime.bigint());
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// The buckets of bench/src/histogram.rs.
class Histogram {
  buckets = {};
  max = 0;

  count(value) {
    const nanos = Math.max(value, 0);
    const shift = nanos < 256 ? 0 : Math.floor(Math.log2(nanos)) - 7;
    const bucket = shift * 128 + Math.floor(nanos / 2 ** shift);
    this.buckets[bucket] = (this.buckets[bucket] ?? 0) + 1;
    this.max = Math.max(this.max, nanos);
  }
}

// What the lock protects: three words in a file, read and then written.
class Cell {
  bytes = Buffer.alloc(24);

  constructor(path) {
    this.file = fs.openSync(path, "r+");
  }

  read() {
    fs.readSync(this.file, this.bytes, 0, 24, 0);
    return [0, 8, 16].map((at) => Number(this.bytes.readBigUInt64LE(at)));
  }

  write(words) {
    words.forEach((word, n) => this.bytes.writeBigUInt64LE(BigInt(word), 8 * n));
    fs.writeSync(this.file, this.bytes, 0, 24, 0);
  }
}

const cell = plan.cell ? new Cell(plan.cell) : null;
const answer = {
  workers: [],
  wait: new Histogram(),
  cycle: new Histogram(),
  passed: new Histogram(),
};

// Defaults (200 ms and a jitter of 200 ms between tries), but as many tries as it takes.
const connect = () => new Redlock([new Redis(plan.url)], { retryCount: -1 });
const shared = connect();

async function hold(key, body, locks = shared) {
  const lock = await locks.acquire([key], LEASE_MS);
  const seen = await body();
  await lock.release();
  return seen;
}

async function warmUp(worker, until) {
  do {
    await hold(`warm-up-${worker}`, async () => {});
  } while (nanos() < until);
}

async function visit(worker) {
  const began = nanos();
  if (!cell) return [began, 0, 0];
  const [counter, last, ended] = cell.read();
  if (plan.body_ms > 0) await pause(plan.body_ms);
  cell.write([counter + 1, worker + 1, nanos()]);
  return [began, last, ended];
}

function count(tally, worker, called, until, [began, last, ended]) {
  answer.wait.count(began - called);
  if (began >= until) {
    tally.late += 1;
    return;
  }
  answer.cycle.count(nanos() - called);
  tally.holds += 1;
  if (last === 0 || last - 1 === worker) return;
  tally.hand_overs += 1;
  const process = (number) => Math.floor(number / plan.tasks_per_process);
  if (plan.tasks_per_process === 0 || process(last - 1) !== process(worker)) {
    answer.passed.count(began - ended);
  }
}

async function work(worker, until) {
  const tally = { holds: 0, hand_overs: 0, late: 0, errors: 0, first_error: null };
  answer.workers.push(tally);
  const key = plan.is_distinct ? `${plan.key}-${worker}` : plan.key;
  for (let called = nanos(); called < until; called = nanos()) {
    let seen = null;
    try {
      await hold(key, async () => (seen = await visit(worker)));
    } catch (error) {
      tally.errors += 1;
      tally.first_error ??= String(error);
    }
    // A release that failed comes behind a body that ran.
    if (seen) count(tally, worker, called, until, seen);
  }
}

// An open loop: each arrival is a call of its own, which waits for none of the others.
let isClosed = false;
let outstanding = 0;

async function serve(worker, locks, tally, begin, entry) {
  while (entry[2] === 0 && !isClosed) {
    try {
      await hold(plan.key, () => visitOpen(worker, begin, entry), locks);
    } catch (error) {
      tally.errors += 1;
      tally.first_error ??= String(error);
    }
  }
  if (entry[3] > 0) tally.holds += 1;
  outstanding -= 1;
}

async function visitOpen(worker, begin, entry) {
  if (isClosed) return;
  entry[2] = nanos() - begin;
  const [counter] = cell.read();
  if (plan.body_ms > 0) await pause(plan.body_ms);
  if (isClosed) return;
  cell.write([counter + 1, worker + 1, nanos()]);
  entry[3] = nanos() - begin;
}

async function generate(worker, locks, begin, scheduled) {
  const tally = { holds: 0, hand_overs: 0, late: 0, errors: 0, first_error: null };
  answer.workers.push(tally);
  for (const after of scheduled) {
    // When it was scheduled, when it called, when its body began and ended.
    const entry = [after, 0, 0, 0];
    answer.arrivals.push(entry);
    while (nanos() < begin + after) await pause((begin + after - nanos()) / 1e6);
    if (outstanding >= plan.outstanding) continue;
    outstanding += 1;
    entry[1] = nanos() - begin;
    serve(worker, locks, tally, begin, entry);
  }
}

async function openLoop({ begin, arrivals }) {
  const each = plan.client_each ? workers.map(connect) : workers.map(() => shared);
  answer.arrivals = [];
  await Promise.all(
    workers.map((worker, n) => generate(worker, each[n], begin, arrivals[n])),
  );
  const givesUp = begin + plan.seconds * 1e9;
  while (outstanding > 0 && nanos() < givesUp) await pause(5);
  isClosed = true;
}

const workers = Array.from({ length: plan.tasks }, (_, n) => plan.first_worker + n);
const warm = nanos() + plan.warm_up_s * 1e9;
await Promise.all(workers.map((worker) => warmUp(worker, warm)));
console.log("ready");
const lines = readline.createInterface({ input: process.stdin });
const line = await new Promise((resolve) => lines.once("line", resolve));
if (plan.is_open) {
  await openLoop(JSON.parse(line));
} else {
  const until = nanos() + plan.seconds * 1e9;
  await Promise.all(workers.map((worker) => work(worker, until)));
}
// A pipe takes a long line in parts.
process.stdout.write(`${JSON.stringify(answer)}\n`, () => process.exit(0));
