//! A resource that checks fencing tokens, and a worker that uses it under a lock. A holder that is
//! refused has to have lost the lock: otherwise two hold it.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use redlock::{Lease, LockError, LockGuard};

use crate::support::{Raw, ms, time_passes};

/// Claims before reading. Two holders with one token would be the library's mistake: counted.
const CLAIM: &str = "
local fence = tonumber(redis.call('HGET', KEYS[1], 'fence') or '0')
local claimed = tonumber(ARGV[1])
if claimed < fence then return -1 end
if claimed == fence and redis.call('HGET', KEYS[1], 'owner') ~= ARGV[2] then
  redis.call('HINCRBY', KEYS[1], 'shared', 1)
end
redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'owner', ARGV[2])
return tonumber(redis.call('HGET', KEYS[1], 'value') or '0')";

/// Writes under the claim, and counts what it accepts.
const WRITE: &str = "
if redis.call('HGET', KEYS[1], 'fence') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'value', ARGV[2])
return redis.call('HINCRBY', KEYS[1], 'writes', 1)";

/// A counter in Redis, apart from the locks.
#[derive(Debug)]
pub struct Store {
    raw: Raw,
    name: String,
}

impl Store {
    pub fn new(raw: Raw, name: &str) -> Store {
        Store { raw, name: name.to_owned() }
    }

    /// Claim, read, compute for a while, write. False: the store refused.
    pub async fn increment(&self, lease: &Lease) -> bool {
        let (token, owner) = (lease.fencing_token().to_string(), lease.owner());
        let value = self.raw.int(&["EVAL", CLAIM, "1", &self.name, &token, owner]).await;
        if value < 0 {
            return refused(lease);
        }
        for _ in 0..10 {
            time_passes(ms(3)).await;
        }
        let next = (value + 1).to_string();
        let is_written = self.raw.int(&["EVAL", WRITE, "1", &self.name, &token, &next]).await > 0;
        is_written || refused(lease)
    }

    /// Every accepted write is in the value, and no token was given twice.
    pub async fn assert_sound(&self, at_least: i64) {
        let (value, writes) = (self.field("value").await, self.field("writes").await);
        assert_eq!(value, writes, "two holders at once: a write was lost");
        assert!(writes >= at_least, "{writes} writes");
        assert_eq!(self.field("shared").await, 0, "two holders had one token");
    }

    pub async fn writes(&self) -> i64 {
        self.field("writes").await
    }

    async fn field(&self, name: &str) -> i64 {
        let set = self.raw.int(&["HEXISTS", &self.name, name]).await == 1;
        if set { self.raw.int(&["HINCRBY", &self.name, name, "0"]).await } else { 0 }
    }
}

/// A later holder has claimed the store. If this lease lasts until now, both have the lock.
fn refused(lease: &Lease) -> bool {
    assert!(lease.check().is_err(), "two holders at once: the store refused {lease:?}");
    false
}

/// What became of one turn of a worker.
#[derive(Debug)]
pub struct Turn {
    pub outcome: Result<bool, LockError>,
    /// Steps of the body that began when the lease was over for certain.
    pub late: usize,
}

/// One increment under a lock that is held.
pub async fn turn(guard: LockGuard, store: &Store, expire: Duration) -> Turn {
    let late = AtomicUsize::new(0);
    let body = watched(store.increment(guard.lease()), expire, &late);
    let outcome = guard.protect(body).await;
    let late = late.into_inner();
    drop(guard);
    // The others poll: without a pause the lock would hardly ever be free when they do.
    time_passes(ms(20)).await;
    Turn { outcome, late }
}

/// Counts the steps of a body that begin longer than a lease after the one before, and those after
/// them: the process was frozen in between, and nobody has renewed meanwhile.
pub fn watched<F: Future>(
    body: F,
    expire: Duration,
    late: &AtomicUsize,
) -> impl Future<Output = F::Output> {
    Watched { body: Box::pin(body), expire, last: None, late, is_late: false }
}

struct Watched<'a, F> {
    body: Pin<Box<F>>,
    expire: Duration,
    last: Option<(Instant, u32)>,
    late: &'a AtomicUsize,
    is_late: bool,
}

impl<F: Future> Future for Watched<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let now = Instant::now();
        let renewals = Lease::current().expect("inside of a body").renewals();
        let is_over = self.last.is_some_and(|(last, renewed)| {
            renewed == renewals && now.duration_since(last) > self.expire
        });
        self.is_late |= is_over;
        self.late.fetch_add(usize::from(self.is_late), Ordering::Relaxed);
        self.last = Some((now, renewals));
        self.body.as_mut().poll(cx)
    }
}
