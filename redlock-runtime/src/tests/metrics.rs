//! What a recorder sees.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};

use super::fake::{Fate, fake, fake_with};
use super::restart_guard::{client, group};
use crate::error::NodeErrorKind;
use crate::options::Wait;

/// `name{label=value,..}` to a sum of counts, a level, or the number of values.
type Sums = Arc<Mutex<HashMap<String, f64>>>;

struct Sum {
    name: String,
    sums: Sums,
}

impl Sum {
    fn add(&self, value: f64) {
        *self.sums.lock().unwrap().entry(self.name.clone()).or_default() += value;
    }
}

impl CounterFn for Sum {
    fn increment(&self, value: u64) {
        self.add(f64::from(u32::try_from(value).unwrap()));
    }

    fn absolute(&self, _: u64) {
        unreachable!("counters only grow here")
    }
}

impl GaugeFn for Sum {
    fn increment(&self, value: f64) {
        self.add(value);
    }

    fn decrement(&self, value: f64) {
        self.add(-value);
    }

    fn set(&self, _: f64) {
        unreachable!("gauges only move here")
    }
}

/// How many values, and beside it what they add up to.
impl HistogramFn for Sum {
    fn record(&self, value: f64) {
        self.add(1.0);
        let sum = format!("{} sum", self.name);
        *self.sums.lock().unwrap().entry(sum).or_default() += value;
    }
}

#[derive(Default)]
struct Sheet(Sums);

impl Sheet {
    fn sum(&self, key: &Key) -> Arc<Sum> {
        let labels: Vec<String> =
            key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        let name = format!("{}{{{}}}", key.name(), labels.join(","));
        Arc::new(Sum { name, sums: Arc::clone(&self.0) })
    }
}

impl Recorder for Sheet {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.sum(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.sum(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.sum(key))
    }
}

/// What is recorded while `work` runs, in virtual time.
fn recorded(work: impl Future<Output = ()>) -> HashMap<String, f64> {
    let recorder = Sheet::default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    metrics::with_local_recorder(&recorder, || runtime.block_on(work));
    let sums = recorder.0.lock().unwrap();
    sums.clone()
}

#[test]
fn a_program_sees_what_its_locks_do() {
    let seen = recorded(async {
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

        fake.next_acquires([Fate::Refused(NodeErrorKind::NoPermission, true)]);
        assert!(redlock.lock("c").acquire().await.is_err());
        let forgetful = async || fake.store.remove("c");
        redlock.lock("c").run(forgetful()).await.unwrap();

        let (nobody_waits, fake) = fake_with(0);
        fake.store.set("d", "somebody", Duration::from_secs(60));
        assert!(nobody_waits.lock("d").acquire().await.is_err());
    });
    let t = "template=(programmatic)";
    for (name, expected) in [
        (format!("redlock_attempts_total{{{t}}}"), 6.0),
        (format!("redlock_acquire_total{{{t},result=acquired}}"), 3.0),
        (format!("redlock_acquire_total{{{t},result=timeout}}"), 1.0),
        (format!("redlock_acquire_total{{{t},result=unavailable}}"), 1.0),
        (format!("redlock_acquire_total{{{t},result=too_many_waiters}}"), 1.0),
        (format!("redlock_wait_seconds{{{t}}}"), 3.0),
        (format!("redlock_held{{{t}}}"), 1.0),
        (format!("redlock_hold_seconds{{{t}}}"), 2.0),
        (format!("redlock_renew_total{{{t},result=renewed}}"), 1.0),
        (format!("redlock_renew_total{{{t},result=unconfirmed}}"), 1.0),
        (format!("redlock_lost_total{{{t},reason=expired}}"), 1.0),
        (format!("redlock_unprotected_total{{{t}}}"), 1.0),
    ] {
        assert_eq!(seen.get(&name), Some(&expected), "{name} in {seen:#?}");
    }
    // The first was due at 6.667 s and had no answer for 0.833 s; it was tried again 0.2 s later.
    // The next one, which found no lock, was in time again.
    assert_eq!(seen.get("redlock_renewal_lag_seconds{}"), Some(&3.0));
    let lag = seen["redlock_renewal_lag_seconds{} sum"];
    assert!((1.033..1.05).contains(&lag), "{lag}");
}

#[test]
fn a_program_sees_which_nodes_are_in_doubt() {
    let seen = recorded(async {
        let nodes = group(3).await;
        for (node, offset) in nodes.iter().zip([5, 60_000_000, -5]) {
            node.clock_offset(offset);
        }
        drop(client(&nodes).lock("k").acquire().await.unwrap());
    });
    let doubts: Vec<_> = seen.iter().filter(|(name, _)| name.contains("doubts")).collect();
    let (name, count) = doubts[0];
    assert_eq!((doubts.len(), *count), (1, 1.0), "{doubts:?}");
    assert!(name.starts_with("redlock_node_doubts_total{node="), "{name}");
    assert!(name.ends_with(",cause=clock_differs}"), "{name}");
}
