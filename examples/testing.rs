//! Testing your own code: locks in memory that play faults, on a clock that the test pauses.
//!
//! Nothing here needs a server or waits for real time. `cargo test --example testing` runs the
//! tests, which `docs/testing.md` explains; `cargo run --example testing` shows an outage of two
//! minutes in a few milliseconds.
#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use std::time::Duration;

use redlock::{LockError, redis_lock};

/// The code under test, on the global client: bills a customer, which one process does at a time.
#[redis_lock(key = "billing-<customer>", expire = "10s", wait = "5s")]
async fn bill(customer: u32) -> Result<u32, LockError> {
    tokio::time::sleep(Duration::from_secs(20)).await; // the bank takes its time
    Ok(customer)
}

/// With a paused clock, tokio jumps to the next timer as soon as all tasks wait.
#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), LockError> {
    let store = redlock::testing::FaultyStore::new();
    let redlock = store.client().await?;
    let (real, virtual_time) = (std::time::Instant::now(), tokio::time::Instant::now());

    store.down();
    let customer = loop {
        match redlock.scope(bill(7)).await {
            Ok(customer) => break customer,
            Err(error) => println!("{:?}: {error}", virtual_time.elapsed()),
        }
        if virtual_time.elapsed() > Duration::from_secs(120) {
            store.up();
        }
    };
    println!(
        "billed {customer} after {:.1?} on the paused clock, {:.1?} in truth",
        virtual_time.elapsed(),
        real.elapsed()
    );
    println!("more in the tests: cargo test --example testing");
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use redlock::testing::{Command, FaultyStore, assert_held, assert_not_held};
    use redlock::{LostReason, NodeErrorKind, Redlock};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Busy: another process bills this customer, and is not done within `wait`.
    #[tokio::test(start_paused = true)]
    async fn a_customer_who_is_being_billed_is_busy() {
        let store = FaultyStore::new();
        let (redlock, other) = (store.client().await.unwrap(), store.client().await.unwrap());
        let _held = other.lock("billing-7").acquire().await.unwrap();
        let error = redlock.scope(bill(7)).await.unwrap_err();
        assert!(error.is_busy(), "{error}");
    }

    /// Busy for a moment: the call waits for its turn.
    #[tokio::test(start_paused = true)]
    async fn two_processes_bill_one_customer_one_after_the_other() {
        let store = FaultyStore::new();
        let (one, two) = (store.client().await.unwrap(), store.client().await.unwrap());
        let began = tokio::time::Instant::now();
        let first = tokio::spawn(one.scope(bill(7)));
        tokio::time::sleep(18 * SECOND).await;
        assert_eq!(two.scope(bill(7)).await, Ok(7));
        assert_eq!((first.await.unwrap(), began.elapsed()), (Ok(7), 40 * SECOND));
    }

    /// Lost in the middle: the body is stopped, and the call says so.
    #[tokio::test(start_paused = true)]
    async fn a_bill_whose_lock_was_stolen_is_stopped() {
        let store = FaultyStore::new();
        let redlock = store.client().await.unwrap();
        let running = tokio::spawn(redlock.scope(bill(7)));
        tokio::time::sleep(SECOND).await;
        store.steal("lock:billing-7");
        let error = running.await.unwrap().unwrap_err();
        assert!(matches!(error, LockError::Lost { reason: LostReason::Stolen, .. }), "{error}");
    }

    /// Expired: the lease ended on the server, as if its clock had jumped.
    #[tokio::test(start_paused = true)]
    async fn a_bill_whose_lease_is_over_is_stopped() {
        let store = FaultyStore::new();
        let redlock = store.client().await.unwrap();
        let running = tokio::spawn(redlock.scope(bill(7)));
        tokio::time::sleep(SECOND).await;
        store.expire("lock:billing-7");
        let error = running.await.unwrap().unwrap_err();
        assert!(matches!(error, LockError::Lost { reason: LostReason::Expired, .. }), "{error}");
    }

    /// Renewals fail: the body is stopped before the lease of 10 s can end.
    #[tokio::test(start_paused = true)]
    async fn a_bill_that_cannot_be_renewed_is_stopped_in_time() {
        let store = FaultyStore::new();
        let redlock = store.client().await.unwrap();
        store.every(Command::Renew).refuse(NodeErrorKind::ReadOnly);
        let began = tokio::time::Instant::now();
        assert!(redlock.scope(bill(7)).await.unwrap_err().is_lost());
        assert!(began.elapsed() < 10 * SECOND);
    }

    /// Unreachable: nobody can tell who has the lock, and the body does not run.
    #[tokio::test(start_paused = true)]
    async fn nobody_is_billed_while_redis_is_down() {
        let store = FaultyStore::new();
        let redlock = store.client().await.unwrap();
        store.down();
        let error = redlock.scope(bill(7)).await.unwrap_err();
        assert!(error.is_unavailable(), "{error}");
        assert_eq!(error.retry_after(), Some(SECOND)); // for the header of a 503
    }

    /// Down for a moment, in the middle: renewals are tried again.
    #[tokio::test(start_paused = true)]
    async fn a_bill_survives_a_short_outage() {
        let store = FaultyStore::new();
        let redlock = store.client().await.unwrap();
        let running = tokio::spawn(redlock.scope(bill(7)));
        tokio::time::sleep(6 * SECOND).await; // the first renewal is due after 6.7 s
        store.down();
        tokio::time::sleep(2 * SECOND).await;
        store.up();
        assert_eq!(running.await.unwrap(), Ok(7));
    }

    /// Slow: what takes less than `reply_timeout` (1 s) only takes time.
    #[tokio::test(start_paused = true)]
    async fn a_slow_redis_makes_bills_slow() {
        let store = FaultyStore::new();
        let redlock = store.client().await.unwrap();
        store.every(Command::Any).delay(SECOND / 2);
        let began = tokio::time::Instant::now();
        assert_eq!(redlock.scope(bill(7)).await, Ok(7));
        assert_eq!(began.elapsed(), 41 * SECOND / 2); // half a second for the acquire
    }

    /// Too slow: a reply that comes too late is a lost one.
    #[tokio::test(start_paused = true)]
    async fn nobody_is_billed_while_redis_hangs() {
        let store = FaultyStore::new();
        let redlock = store.client().await.unwrap();
        store.every(Command::Any).delay(3 * SECOND);
        let error = redlock.scope(bill(7)).await.unwrap_err();
        assert!(error.is_unavailable(), "{error}");
    }

    /// A lost reply: the lock was granted, but the call did not hear of it, and asked again.
    #[tokio::test(start_paused = true)]
    async fn a_lost_reply_costs_time_and_nothing_else() {
        let store = FaultyStore::new();
        let redlock = store.client().await.unwrap();
        store.next(Command::Acquire).lose_reply();
        assert_eq!(redlock.scope(bill(7)).await, Ok(7));
        assert_eq!(store.owner("lock:billing-7"), None);
    }

    /// N masters: two of three are down, which is no majority.
    #[tokio::test(start_paused = true)]
    async fn one_master_of_three_may_be_down() {
        let [a, b, c] = FaultyStore::masters();
        let redlock = Redlock::builder().faulty_stores([&a, &b, &c]).build().await.unwrap();
        a.down();
        assert_eq!(redlock.scope(bill(7)).await, Ok(7));
        b.down();
        let error = redlock.scope(bill(7)).await.unwrap_err();
        assert!(error.is_unavailable(), "{error}");
    }

    /// What a function holds while it runs, and that nothing is left when its caller gives up.
    #[tokio::test(start_paused = true)]
    async fn a_caller_that_gives_up_leaves_no_lock_behind() {
        let store = FaultyStore::new();
        let redlock = store.client().await.unwrap();
        let running = tokio::spawn(redlock.scope(bill(7)));
        tokio::time::sleep(SECOND).await;
        assert_held!(redlock, "billing-7");
        running.abort();
        assert!(running.await.unwrap_err().is_cancelled());
        assert_not_held!(redlock, "billing-7");
    }
}
