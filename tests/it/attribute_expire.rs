//! `expire`: the time to live that stands in Redis, however it was written.

use std::time::Duration;

use redlock::{Lease, LockError, Redlock, redis_lock};

use crate::clients::{builder, client, raw};
use crate::support::{eventually, ms, secs};

/// The whole lease, as far as Redis and the lease tell.
async fn lease_here() -> Duration {
    let lease = Lease::current().unwrap();
    let pttl = raw().await.pttl(lease.redis_key()).await.expect("it stands in Redis");
    assert!(lease.remaining() <= pttl, "the body is stopped before Redis lets go");
    pttl
}

#[track_caller]
fn assert_lease(seen: Result<Duration, LockError>, expected: Duration) {
    let seen = seen.unwrap();
    // A loaded machine may need a while from the lock to the question.
    assert!(seen <= expected && seen > expected / 2, "{seen:?} of {expected:?}");
}

const NIGHT: Duration = Duration::from_secs(8 * 3600);

#[redis_lock(key = "k", expire = "10s", client = redlock)]
async fn seconds(redlock: &Redlock) -> Result<Duration, LockError> {
    Ok(lease_here().await)
}

#[redis_lock(key = "k", expire = "9500ms", client = redlock)]
async fn millis(redlock: &Redlock) -> Result<Duration, LockError> {
    Ok(lease_here().await)
}

#[redis_lock(key = "k", expire = "2m", client = redlock)]
async fn minutes(redlock: &Redlock) -> Result<Duration, LockError> {
    Ok(lease_here().await)
}

#[redis_lock(key = "k", expire = "3h", client = redlock)]
async fn hours(redlock: &Redlock) -> Result<Duration, LockError> {
    Ok(lease_here().await)
}

#[redis_lock(key = "k", expire = NIGHT, client = redlock)]
async fn constant(redlock: &Redlock) -> Result<Duration, LockError> {
    Ok(lease_here().await)
}

#[redis_lock(key = "k", expire = lease * 2, client = redlock)]
async fn argument(redlock: &Redlock, lease: Duration) -> Result<Duration, LockError> {
    Ok(lease_here().await)
}

#[redis_lock(key = "k", client = redlock)]
async fn default(redlock: &Redlock) -> Result<Duration, LockError> {
    Ok(lease_here().await)
}

struct Job {
    locks: Redlock,
    lease: Duration,
}

impl Job {
    #[redis_lock(key = "k", expire = self.lease, client = &self.locks)]
    async fn field(&self) -> Result<Duration, LockError> {
        Ok(lease_here().await)
    }
}

#[tokio::test]
async fn the_lease_stands_in_redis_as_written() {
    let redlock = client().await;
    assert_lease(seconds(&redlock).await, secs(10));
    assert_lease(millis(&redlock).await, ms(9_500));
    assert_lease(minutes(&redlock).await, secs(120));
    assert_lease(hours(&redlock).await, secs(3 * 3600));
    assert_lease(constant(&redlock).await, NIGHT);
    assert_lease(argument(&redlock, secs(50)).await, secs(100));
    let job = Job { locks: redlock, lease: secs(77) };
    assert_lease(job.field().await, secs(77));
}

#[tokio::test]
async fn the_default_is_the_clients() {
    assert_lease(default(&client().await).await, secs(30));
    let redlock = builder().await.expire(secs(90)).build().await.unwrap();
    assert_lease(default(&redlock).await, secs(90));
    assert_lease(seconds(&redlock).await, secs(10));
}

#[tokio::test]
async fn a_value_out_of_range_is_an_error_of_the_call() {
    let redlock = client().await;
    for lease in [Duration::ZERO, ms(4), secs(366 * 24 * 3600)] {
        // Also of one that re-enters, which takes no lease.
        let inside = redlock.lock("k").run(argument(&redlock, lease)).await.unwrap();
        for error in [argument(&redlock, lease).await, inside].map(Result::unwrap_err) {
            assert!(matches!(error, LockError::Config { .. }), "{error:?}");
            assert!(error.to_string().contains("`expire`"), "{error}");
        }
    }
}

#[redis_lock(key = "k", expire = "6s", client = redlock)]
async fn outlasts(redlock: &Redlock) -> Result<(), LockError> {
    let lease = Lease::current().unwrap();
    eventually(secs(30), || async { lease.renewals() >= 2 }).await;
    assert_eq!(raw().await.get(lease.redis_key()).await.as_deref(), Some(lease.owner()));
    Ok(())
}

#[tokio::test]
async fn a_body_outlasts_its_lease_because_it_is_renewed() {
    outlasts(&client().await).await.unwrap();
}
