//! Many leases: few calls, spread over time, and none of them late.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::fake::{Fake, Fate, fake, fake_with};
use crate::client::Redlock;
use crate::guard::LockGuard;

const EXPIRE: Duration = Duration::from_secs(12);
/// When a renewal is due.
const DUE: Duration = Duration::from_secs(8);
/// What the timers and the answers of many take.
const MOMENT: Duration = Duration::from_millis(5);

async fn take(redlock: &Redlock, count: usize) -> Vec<LockGuard> {
    let mut guards = Vec::new();
    for _ in 0..count {
        let key = format!("k-{}", fastrand::u128(..));
        guards.push(redlock.lock(key).expire(EXPIRE).acquire().await.unwrap());
    }
    guards
}

fn sizes(fake: &Arc<Fake>) -> Vec<usize> {
    fake.take_batches().into_iter().map(|(_, size)| size).collect()
}

#[tokio::test(start_paused = true)]
async fn leases_that_are_due_at_once_share_calls_of_a_hundred() {
    let (redlock, fake) = fake();
    let _guards = take(&redlock, 250).await;
    sleep(DUE + MOMENT).await;
    assert_eq!(sizes(&fake), [100, 100, 50]);
}

/// They are due at 8, 8.05, 8.1 .. s; the call of the first takes along what is due within 0.2 s.
#[tokio::test(start_paused = true)]
async fn a_call_takes_along_the_leases_that_are_due_next() {
    let (redlock, fake) = fake();
    let mut guards = Vec::new();
    for _ in 0..10 {
        guards.extend(take(&redlock, 1).await);
        sleep(Duration::from_millis(50)).await;
    }
    sleep(DUE).await;
    let sizes = sizes(&fake);
    assert_eq!(sizes, [5, 5]);
    // From now on they are due together.
    sleep(10 * DUE).await;
    assert_eq!(fake.take_batches().len(), 20);
}

/// One that is early would shorten the longest hold.
#[tokio::test(start_paused = true)]
async fn a_lease_whose_renewals_are_counted_is_never_early() {
    let (redlock, fake) = fake();
    let _first = take(&redlock, 1).await;
    sleep(Duration::from_millis(50)).await;
    let start = Instant::now();
    let request = redlock.lock("counted").expire(EXPIRE).max_renew(3);
    assert!(request.run(std::future::pending::<()>()).await.is_err());
    let longest = 3 * DUE + EXPIRE * 94 / 100;
    assert!(start.elapsed() + MOMENT > longest, "{:?}", start.elapsed());
    drop(fake);
}

/// Leases of one moment are not renewed in one moment for ever: each round they come a little
/// earlier, by chance. No renewal is late, and none earlier than by a tenth.
#[tokio::test(start_paused = true)]
async fn a_crowd_dissolves() {
    let (redlock, fake) = fake();
    let guards = take(&redlock, 1_000).await;
    let start = Instant::now();
    sleep(DUE + MOMENT).await;
    let first = fake.take_batches();
    assert_eq!((first.len(), first.last().unwrap().0 - first[0].0), (10, Duration::ZERO));

    let rounds = 100;
    sleep(rounds * DUE).await;
    let earliest = start + (rounds - 1) * DUE;
    let last = fake.take_batches().into_iter().filter(|(at, _)| *at > earliest);
    let moments: HashSet<u128> = last.map(|(at, _)| (at - start).as_millis() / 100).collect();
    assert!(moments.len() >= 8, "{moments:?}");
    for guard in &guards {
        guard.check().unwrap();
        let renewals = guard.renewals();
        assert!((rounds..rounds * 10 / 9 + 2).contains(&renewals), "{renewals}");
    }
}

/// Twenty calls are due, sixteen of them may be on their way at once.
#[tokio::test(start_paused = true)]
async fn calls_take_turns_when_very_many_are_due() {
    let (redlock, fake) = fake();
    let guards = take(&redlock, 2_000).await;
    let answer = Duration::from_millis(100);
    fake.next_renews([Fate::Slow(answer); 20]);
    sleep(DUE + answer / 2).await;
    assert_eq!(sizes(&fake), [100; 16]);
    sleep(answer).await;
    assert_eq!(sizes(&fake), [100; 4]);
    sleep(answer).await;
    assert!(guards.iter().all(|guard| guard.renewals() == 1));
}

/// A holder lets go while its renewal waits for its turn: it is not sent any more.
#[tokio::test(start_paused = true)]
async fn a_lease_that_is_released_while_its_renewal_waits_is_not_renewed() {
    let (redlock, fake) = fake();
    let _guards = take(&redlock, 1_600).await;
    sleep(Duration::from_millis(1)).await;
    let released = redlock.lock("released").expire(EXPIRE).acquire().await.unwrap();
    fake.next_renews([Fate::Slow(Duration::from_millis(100)); 16]);
    sleep(DUE + MOMENT).await;
    released.release().await.unwrap();
    fake.take_log();
    sleep(DUE / 2).await;
    assert_eq!(fake.take_log(), Vec::<String>::new());
    assert_eq!(sizes(&fake), [100; 16]);
}

/// Each reader that waits without a queue on the server polls by itself, beside the renewals.
#[tokio::test(start_paused = true)]
async fn thousands_of_readers_that_poll_are_no_flood() {
    const READERS: usize = 3_000;
    let (redlock, fake) = fake_with(READERS);
    let writer = redlock.lock("k").expire(EXPIRE).acquire().await.unwrap();
    let readers: Vec<_> = (0..READERS)
        .map(|_| tokio::spawn(redlock.lock("k").read().wait(EXPIRE).acquire()))
        .collect();
    sleep(EXPIRE / 4).await;
    fake.take_log();
    sleep(EXPIRE / 4).await;
    let attempts = fake.take_log().iter().filter(|line| line.starts_with("acquire")).count();
    assert!((READERS..READERS * 10).contains(&attempts), "{attempts} in 3 s");
    drop(writer);
    for reader in readers {
        drop(reader.await.unwrap().unwrap());
    }
}
