//! Subscribers of events and recorders of metrics that panic: no lock stays behind.

use super::fake::{SECOND, fake};
use super::hear::hear;
use crate::state::LostReason;

/// Everything that is told: a grant, a wait, a release, a drop, a loss.
async fn life_of_a_lock() {
    let (redlock, fake) = fake();
    for _ in 0..2 {
        let guard = redlock.lock("k").acquire().await.unwrap();
        let waiter = tokio::spawn(redlock.lock("k").wait(60 * SECOND).acquire());
        tokio::task::yield_now().await;
        drop(guard);
        let guard = waiter.await.unwrap().unwrap();
        guard.release().await.unwrap();
    }
    assert_eq!(redlock.lock("k").run(async { 17 }).await.unwrap(), 17);
    let lost = redlock.lock("k").expire(SECOND).acquire().await.unwrap();
    fake.store.remove("k");
    assert_eq!(lost.lost().await, LostReason::Expired);
    drop(lost);
    let dies = redlock.lock("k").run(async { panic!("a body panics on purpose") });
    tokio::spawn(dies).await.unwrap_err();
    assert!(redlock.lock("k").try_acquire().await.unwrap().is_some());
    assert_eq!(redlock.shutdown(60 * SECOND).await, 0);
    assert!(redlock.held().is_empty());
}

fn run(work: impl Future<Output = ()>) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().start_paused(true).build().unwrap().block_on(work);
}

#[test]
fn a_subscriber_that_panics_takes_no_lock_along() {
    let _hears = hear(|_| panic!("a subscriber panics on purpose"));
    run(life_of_a_lock());
}

#[cfg(feature = "metrics")]
#[test]
fn a_recorder_that_panics_takes_no_lock_along() {
    use metrics::{Counter, Gauge, Histogram, Key, KeyName, Recorder, SharedString, Unit};

    /// Panics as well.
    struct NoRecords;

    impl Recorder for NoRecords {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn register_counter(&self, _: &Key, _: &metrics::Metadata<'_>) -> Counter {
            panic!("a recorder panics on purpose");
        }

        fn register_gauge(&self, _: &Key, _: &metrics::Metadata<'_>) -> Gauge {
            panic!("a recorder panics on purpose");
        }

        fn register_histogram(&self, _: &Key, _: &metrics::Metadata<'_>) -> Histogram {
            panic!("a recorder panics on purpose");
        }
    }

    metrics::with_local_recorder(&NoRecords, || run(life_of_a_lock()));
}
