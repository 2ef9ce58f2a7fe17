//! `min_hold`: a job that several processes start runs once, whatever becomes of them.

use std::time::{Duration, Instant};

use redlock::{LockError, Redlock, redis_lock};

use crate::clients::{client, raw};
use crate::support::process::{Args, Process, block_on, emit};
use crate::support::{Server, eventually, ms, secs, time_passes, unique_prefix};

/// Longer than the lease: a process that dies does not renew it.
const MIN_HOLD: Duration = secs(2);
const EXPIRE: Duration = ms(500);

#[redis_lock(key = "nightly", wait = "0s", on_busy = "skip", min_hold = "2s", client = redlock)]
async fn nightly(redlock: &Redlock) -> Result<Option<u32>, LockError> {
    Ok(Some(17))
}

#[tokio::test]
async fn an_attribute_keeps_its_lock_and_skips() {
    let redlock = client().await;
    let before = Instant::now();
    assert_eq!(nightly(&redlock).await.unwrap(), Some(17));
    let key = redlock.lock("nightly").wait(secs(60)).acquire();
    let (skipped, guard) = tokio::join!(nightly(&redlock), key);
    if before.elapsed() < MIN_HOLD {
        assert_eq!(skipped.unwrap(), None);
    }
    assert!(before.elapsed() >= MIN_HOLD);
    guard.unwrap().release().await.unwrap();
}

/// What Redis shows of a lock that nobody holds.
#[tokio::test]
async fn an_operator_sees_who_has_let_go() {
    let redlock = client().await;
    let guard = redlock.lock("k").min_hold(secs(60)).acquire().await.unwrap();
    let (key, owner) = (guard.redis_key().to_owned(), guard.owner().to_owned());
    let left = async || raw().await.pttl(&key).await.expect("it has an expiry");
    assert!(left().await > secs(31), "longer than its lease, from the first command on");
    guard.release().await.unwrap();
    let (name, random) = owner.rsplit_once(':').unwrap();
    let shown = format!("{name}:retained:{random}");
    assert_eq!(raw().await.get(&key).await, Some(shown.clone()));
    assert!(left().await > secs(31) && left().await <= secs(60));
    let error = redlock.lock("k").wait(ms(1)).acquire().await.unwrap_err();
    assert!(error.to_string().contains(&shown), "{error}");
    raw().await.del(&key).await;
}

/// Runs a job whenever the lock is free: url, prefix, and "hang" to stay in the first one.
pub fn run_jobs(args: &Args) {
    block_on(async {
        let builder = Redlock::builder().url(args.get(0)).prefix(args.get(1));
        let redlock = builder.build().await.expect("the server is there");
        loop {
            let job = redlock.lock("job").expire(EXPIRE).min_hold(MIN_HOLD);
            // On a machine that stands still the answer may come too late for the lease.
            if let Ok(Some(guard)) = job.try_acquire().await {
                emit(&format!("runs {}", guard.fencing_token()));
                time_passes(if args.get(2) == "hang" { secs(120) } else { ms(10) }).await;
                let _ = guard.release().await;
            }
            time_passes(ms(20)).await;
        }
    });
}

/// The token of a grant is the time of the server, so that no stall of this machine blurs it.
#[tokio::test]
async fn a_job_whose_process_is_killed_runs_again_when_min_hold_is_over() {
    let (url, prefix) = (Server::shared().await.url(), unique_prefix());
    let mut runs: Vec<u64> = Vec::new();
    for _ in 0..2 {
        let mut dies = Process::spawn("run-a-job", &[&url, &prefix, "hang"]);
        runs.push(dies.event("runs").await.parse().unwrap());
        dies.sigkill();
    }
    let mut rivals = ["a", "b"].map(|name| Process::spawn("run-a-job", &[&url, &prefix, name]));
    let seen = |runs: &mut Vec<u64>, rivals: &mut [Process; 2]| {
        let events = rivals.iter_mut().flat_map(Process::events);
        runs.extend(events.filter_map(|event| event.strip_prefix("runs ")?.parse::<u64>().ok()));
        runs.len()
    };
    let begun = Instant::now();
    while seen(&mut runs, &mut rivals) < 6 {
        assert!(begun.elapsed() < secs(120), "{runs:?}");
        time_passes(ms(50)).await;
    }
    drop(rivals);
    runs.sort_unstable();
    let gaps: Vec<_> =
        runs.windows(2).map(|pair| Duration::from_micros(pair[1] - pair[0])).collect();
    assert!(gaps.iter().all(|gap| *gap >= MIN_HOLD), "{gaps:?}");
}

/// Whoever waits is served in time, though the process is gone that let go and would hand over.
#[tokio::test]
async fn a_waiter_is_served_though_the_last_holder_has_ended() {
    let (url, prefix) = (Server::shared().await.url(), unique_prefix());
    let mut holder = Process::spawn("run-a-job", &[&url, &prefix, "once"]);
    holder.event("runs").await;
    let redlock = Redlock::builder().url(&url).prefix(&prefix).build().await.unwrap();
    let waiter = tokio::spawn(redlock.lock("job").wait(secs(60)).acquire());
    let raw = Server::shared().await.raw();
    let key = format!("{prefix}job");
    let (raw, key) = (&raw, key.as_str());
    let is_retained =
        || async move { raw.get(key).await.is_some_and(|owner| owner.contains(":retained:")) };
    eventually(secs(20), is_retained).await;
    holder.sigkill();
    drop(waiter.await.unwrap().expect("it is free when min_hold is over"));
}
