//! Testing your own code: locks in memory on a clock that the test pauses.
//!
//! Nothing here needs a server or waits for real time. `cargo test --example testing` runs the
//! tests; `cargo run --example testing` shows a lease of 10 s run out in a few milliseconds.
#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use std::time::{Duration, Instant};

use redlock::{LockError, MemoryStore, Redlock, redis_lock};

/// The code under test. `client = ..` takes the lock from a field, so that each test brings its own
/// client and tests may run at the same time; the global one exists once in a process.
struct Billing {
    locks: Redlock,
}

impl Billing {
    /// Bills a customer; only one process does so at a time.
    #[redis_lock(
        key = "billing-<customer>",
        client = &self.locks,
        expire = "10s",
        wait = "1m",
        max_renew = 1
    )]
    async fn bill(&self, customer: u32, takes: Duration) -> Result<u32, LockError> {
        tokio::time::sleep(takes).await;
        Ok(customer)
    }
}

/// A client whose locks stand in `store`. Two clients of one store behave as two processes.
async fn billing(store: &MemoryStore) -> Result<Billing, LockError> {
    let locks = Redlock::builder().memory_store(store.clone()).build().await?;
    Ok(Billing { locks })
}

/// With a paused clock, tokio jumps to the next timer as soon as all tasks wait.
#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), LockError> {
    let store = MemoryStore::new();
    let (crashed, other) = (billing(&store).await?, billing(&store).await?);

    // A holder that died: its lease is not renewed and nobody releases it.
    let dead = crashed.locks.lock("billing-7").expire(Duration::from_secs(10)).max_renew(0);
    std::mem::forget(dead.acquire().await?);

    let (real, virtual_time) = (Instant::now(), tokio::time::Instant::now());
    other.bill(7, Duration::ZERO).await?;
    println!(
        "the next one waited {:.1?} on the paused clock, {:.1?} in truth",
        virtual_time.elapsed(),
        real.elapsed()
    );
    println!("more in the tests: cargo test --example testing");
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use redlock::{LeaseState, LostReason};

    use super::*;

    const KEY: &str = "lock:billing-7";

    #[tokio::test(start_paused = true)]
    async fn a_slow_bill_makes_the_next_one_wait() {
        let store = MemoryStore::new();
        let (first, second) = (billing(&store).await.unwrap(), billing(&store).await.unwrap());
        let began = tokio::time::Instant::now();
        let slow = tokio::spawn(async move { first.bill(7, Duration::from_secs(12)).await });
        tokio::time::sleep(Duration::from_secs(1)).await;
        second.bill(7, Duration::ZERO).await.unwrap();
        assert!(began.elapsed() >= Duration::from_secs(12));
        assert_eq!(slow.await.unwrap(), Ok(7), "one renewal carries it over 10 s");
    }

    #[tokio::test(start_paused = true)]
    async fn customers_do_not_wait_for_each_other() {
        let billing = billing(&MemoryStore::new()).await.unwrap();
        let began = tokio::time::Instant::now();
        let second = Duration::from_secs(1);
        let (one, two) = tokio::join!(billing.bill(1, second), billing.bill(2, second));
        assert_eq!((one, two), (Ok(1), Ok(2)));
        assert!(began.elapsed() < Duration::from_secs(2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_bill_that_hangs_is_stopped_at_its_renewal_limit() {
        let billing = billing(&MemoryStore::new()).await.unwrap();
        let error = billing.bill(7, Duration::from_secs(3600)).await.unwrap_err();
        let LockError::Lost { reason, held_for, renewals, .. } = error else { panic!("{error}") };
        assert_eq!((reason, renewals), (LostReason::RenewalLimit, 1));
        assert!(held_for < Duration::from_secs(17), "{held_for:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_loses_its_data_stops_the_bill() {
        let store = MemoryStore::new();
        let billing = billing(&store).await.unwrap();
        let running = tokio::spawn(async move { billing.bill(7, Duration::from_secs(9)).await });
        tokio::time::sleep(Duration::from_secs(1)).await;
        store.remove(KEY);
        let error = running.await.unwrap().unwrap_err();
        assert!(matches!(error, LockError::Lost { reason: LostReason::Expired, .. }), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_holder_is_noticed_at_the_next_renewal() {
        let store = MemoryStore::new();
        let billing = billing(&store).await.unwrap();
        let expire = Duration::from_secs(10);
        let guard = billing.locks.lock("billing-7").expire(expire).acquire().await.unwrap();
        store.set(KEY, "somebody else", Duration::from_secs(60));
        assert_eq!(guard.state(), LeaseState::Held, "nobody has asked yet");
        assert_eq!(guard.lost().await, LostReason::Stolen);
        drop(guard);
        assert_eq!(store.owner(KEY).as_deref(), Some("somebody else"), "left alone");
    }

    #[tokio::test(start_paused = true)]
    async fn an_impatient_caller_learns_who_holds_the_lock() {
        let store = MemoryStore::new();
        store.set(KEY, "web-3:4121", Duration::from_secs(600));
        let billing = billing(&store).await.unwrap();
        let error = billing.bill(7, Duration::ZERO).await.unwrap_err();
        let LockError::Timeout { holder, .. } = error else { panic!("{error}") };
        assert_eq!(holder.as_deref(), Some("web-3:4121"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_gives_up_leaves_no_lock_behind() {
        let store = MemoryStore::new();
        let billing = billing(&store).await.unwrap();
        let slow = billing.bill(7, Duration::from_secs(5));
        assert!(tokio::time::timeout(Duration::from_secs(1), slow).await.is_err());
        assert_eq!(billing.locks.shutdown(Duration::from_secs(1)).await, 0);
        assert_eq!(store.owner(KEY), None);
    }
}
