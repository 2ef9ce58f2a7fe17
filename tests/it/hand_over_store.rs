//! What bodies of the crash test work on: one counter for each lock, that sees who uses it when.

use std::time::Duration;

use redlock::Lease;

use crate::support::process::emit;
use crate::support::{Raw, lines_of, ms, time_passes};

/// A claim below the last one, or equal to it, is refused. Otherwise it tells the value, and
/// whether the work is over. By the server's clock it notes how long nobody came.
const CLAIM: &str = "
local function field(name) return tonumber(redis.call('HGET', KEYS[1], name) or '0') end
local function most(name, number)
  if number > field(name) then redis.call('HSET', KEYS[1], name, number) end
end
if tonumber(ARGV[1]) <= field('fence') then return {-1, 0} end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if field('moved') > 0 then
  most('longest gap', now - field('moved'))
  local gap = now - math.max(field('moved'), field('disturbed'))
  most('longest undisturbed gap', gap)
  if gap > tonumber(ARGV[4]) then redis.call('HINCRBY', KEYS[1], 'slow', 1) end
end
most('longest wait', tonumber(ARGV[5]))
redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'moved', now, 'busy', ARGV[3])
redis.call('HINCRBY', KEYS[1], 'begun ' .. ARGV[2], 1)
return {field('over'), field('value')}";

/// Writes a value that was made from the one of the claim; refused once there is another claim.
const WRITE: &str = "
if redis.call('HGET', KEYS[1], 'fence') ~= ARGV[1] then return 0 end
local time = redis.call('TIME')
redis.call('HSET', KEYS[1], 'moved', time[1] * 1000 + math.floor(time[2] / 1000))
redis.call('HSET', KEYS[1], 'value', ARGV[3], 'busy', '')
redis.call('HINCRBY', KEYS[1], 'written ' .. ARGV[2], 1)
return 1";

const DISTURB: &str = "
local time = redis.call('TIME')
redis.call('HSET', KEYS[1], 'disturbed', time[1] * 1000 + math.floor(time[2] / 1000))";

/// Every so many values one body lasts long, and says so.
const LONG_EVERY: u64 = 16;
/// After a disturbance somebody has the lock within its lease, a claim window and the time after
/// which the first in the queue looks.
const SOON: &str = "3000";

/// The counter of one lock.
#[derive(Debug)]
pub struct Store {
    raw: Raw,
    name: String,
    key: String,
}

impl Store {
    pub fn new(raw: Raw, prefix: &str, key: &str) -> Store {
        Store { raw, name: format!("store-{prefix}{key}"), key: key.to_owned() }
    }

    /// The body: claim, read, compute for a while, write. `true`: it was the last.
    pub async fn step(&self, worker: &str) -> bool {
        let lease = Lease::current().expect("inside of a body");
        let fencing_token = lease.fencing_token().to_string();
        let waited = lease.waited().as_millis().to_string();
        let claim = [&fencing_token, worker, lease.owner(), SOON, &waited];
        let found = lines_of(self.run(CLAIM, &claim).await);
        let value: u64 = found[1].parse().expect("a number");
        if found[0] == "-1" {
            self.refused(&lease).await;
            return false;
        }
        if value % LONG_EVERY == 1 {
            emit(&format!("holds {} {}", self.key, lease.owner()));
            time_passes(ms(150)).await;
        }
        time_passes(ms(2)).await;
        let next = (value + 1).to_string();
        if lines_of(self.run(WRITE, &[&fencing_token, worker, &next]).await) == ["0"] {
            self.refused(&lease).await;
        }
        found[0] == "1"
    }

    /// Another one has claimed it. If the lease of this body lasts until now, both have the lock.
    async fn refused(&self, lease: &Lease) {
        if lease.check().is_ok() {
            self.note("violations").await;
        }
    }

    /// Counts something that must not be.
    pub async fn note(&self, what: &str) {
        self.raw.cmd(&["HINCRBY", &self.name, what, "1"]).await;
    }

    /// Somebody was killed, frozen or thawed just now.
    pub async fn disturb(&self) {
        self.run(DISTURB, &[]).await;
    }

    /// Who claimed it and has not written yet.
    pub async fn busy(&self) -> String {
        self.text("busy").await.unwrap_or_default()
    }

    /// Every worker is to stop after its next body.
    pub async fn end(&self) {
        self.raw.cmd(&["HSET", &self.name, "over", "1"]).await;
    }

    pub async fn number(&self, field: &str) -> u64 {
        self.text(field).await.map_or(0, |text| text.parse().expect("a number"))
    }

    /// One holder at a time, and nobody forgotten.
    pub async fn assert_sound(&self, stuck: Duration) {
        let mut told = Vec::new();
        for what in ["value", "longest gap", "longest undisturbed gap", "longest wait", "slow"] {
            told.push(format!("{what} {}", self.number(what).await));
        }
        eprintln!("{}: {}", self.key, told.join(", "));
        assert_eq!(self.number("violations").await, 0, "two holders at once");
        assert_eq!(self.number("starved").await, 0);
        // A machine that stands still for a second may cause one. A defect causes many.
        let slow = self.number("slow").await;
        assert!(slow <= 2, "{slow} times nobody moved for more than {SOON} ms");
        let gap = Duration::from_millis(self.number("longest gap").await);
        assert!(gap < stuck, "nobody moved for {gap:?}");
    }

    /// Bodies of this worker that have written. The others were cut short: noted, or the last ones
    /// of as many tasks that were killed.
    pub async fn written_by(&self, worker: &str, killed: u64) -> u64 {
        let number = async |what| self.number(&format!("{what} {worker}")).await;
        let (begun, written, cut) =
            (number("begun").await, number("written").await, number("cut").await);
        let possible = written..=written + cut + killed;
        assert!(possible.contains(&begun), "{worker} began {begun} of {possible:?}");
        written
    }

    async fn text(&self, field: &str) -> Option<String> {
        let value = self.raw.cmd(&["HGET", &self.name, field]).await;
        lines_of(value).into_iter().next()
    }

    async fn run(&self, text: &str, args: &[&str]) -> deadpool_redis::redis::Value {
        let words = [&["EVAL", text, "1", &self.name][..], args].concat();
        self.raw.cmd(&words).await
    }
}
