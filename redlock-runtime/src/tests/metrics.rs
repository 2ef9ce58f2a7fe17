//! What a recorder sees.

use std::collections::HashMap;
use std::time::Duration;

use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};

use super::fake::{Fate, fake};
use crate::options::Wait;

/// Everything recorded so far: `name{label=value,..}` to a count.
fn counts(snapshotter: &Snapshotter) -> HashMap<String, f64> {
    let entries = snapshotter.snapshot().into_vec();
    let count = |value| match value {
        DebugValue::Counter(count) => f64::from(u32::try_from(count).unwrap()),
        DebugValue::Gauge(value) => value.into_inner(),
        DebugValue::Histogram(values) => f64::from(u32::try_from(values.len()).unwrap()),
    };
    entries
        .into_iter()
        .map(|(key, _, _, value)| {
            let labels: Vec<String> =
                key.key().labels().map(|l| format!("{}={}", l.key(), l.value())).collect();
            (format!("{}{{{}}}", key.key().name(), labels.join(",")), count(value))
        })
        .collect()
}

#[test]
fn a_program_sees_what_its_locks_do() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    metrics::with_local_recorder(&recorder, || {
        runtime.block_on(async {
            let (redlock, fake) = fake();
            let held = redlock.lock("a").expire(Duration::from_secs(10)).acquire().await.unwrap();
            assert!(redlock.lock("a").wait(Wait::Never).acquire().await.is_err());
            fake.next_renews([Fate::LostReply]);
            tokio::time::sleep(Duration::from_secs(9)).await;
            fake.store.remove("a");
            held.lost().await;
            drop(held);
            let still_held = redlock.lock("b").acquire().await.unwrap();
            std::mem::forget(still_held);
        });
    });
    let seen = counts(&snapshotter);
    let t = "template=(programmatic)";
    for (name, expected) in [
        (format!("redlock_attempts_total{{{t}}}"), 3.0),
        (format!("redlock_acquire_total{{{t},result=acquired}}"), 2.0),
        (format!("redlock_acquire_total{{{t},result=timeout}}"), 1.0),
        (format!("redlock_wait_seconds{{{t}}}"), 2.0),
        (format!("redlock_held{{{t}}}"), 1.0),
        (format!("redlock_hold_seconds{{{t}}}"), 1.0),
        (format!("redlock_renew_total{{{t},result=renewed}}"), 1.0),
        (format!("redlock_renew_total{{{t},result=unconfirmed}}"), 1.0),
        (format!("redlock_lost_total{{{t},reason=expired}}"), 1.0),
    ] {
        assert_eq!(seen.get(&name), Some(&expected), "{name} in {seen:#?}");
    }
    assert!(seen["redlock_renewal_lag_seconds{}"] >= 2.0);
}
