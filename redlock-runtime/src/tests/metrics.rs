//! What a recorder sees.

use std::collections::BTreeMap;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusBuilder;

use super::fake::{Fate, fake, fake_with};
use super::fifo_queue::{MOMENT, granted, holds, is_full, waits};
use super::restart_guard::{client, group};
use super::server::Server;
use crate::client::Redlock;
use crate::error::{LockError, NodeErrorKind};
use crate::options::Wait;

/// What a scrape of Prometheus shows after `work`, in virtual time.
fn scraped(work: impl Future<Output = ()>) -> String {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    metrics::with_local_recorder(&recorder, || runtime.block_on(work));
    handle.render()
}

/// `name{label="value",..}` to its value.
fn recorded(work: impl Future<Output = ()>) -> BTreeMap<String, f64> {
    let text = scraped(work);
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let samples = lines.filter_map(|line| line.rsplit_once(' '));
    samples.map(|(name, value)| (name.to_owned(), value.parse().unwrap())).collect()
}

fn sum(seen: &BTreeMap<String, f64>, metric: &str) -> f64 {
    seen.iter().filter(|(name, _)| name.starts_with(metric)).map(|(_, value)| value).sum()
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
    let t = "template=\"(programmatic)\"";
    let tk = "template=\"(programmatic)\",kind=\"write\"";
    for (name, expected) in [
        (format!("redlock_attempts_total{{{tk}}}"), 6.0),
        (format!("redlock_acquire_commands_total{{{t}}}"), 6.0),
        (format!("redlock_acquire_total{{{tk},result=\"acquired\"}}"), 3.0),
        (format!("redlock_acquire_total{{{tk},result=\"refused\"}}"), 1.0),
        (format!("redlock_acquire_total{{{tk},result=\"unavailable\"}}"), 1.0),
        (format!("redlock_acquire_total{{{tk},result=\"too_many_waiters\"}}"), 1.0),
        (format!("redlock_wait_seconds_count{{{tk}}}"), 3.0),
        (format!("redlock_waiting{{{tk}}}"), 0.0),
        (format!("redlock_held{{{tk}}}"), 1.0),
        (format!("redlock_hold_seconds_count{{{tk}}}"), 2.0),
        (format!("redlock_renew_total{{{t},result=\"renewed\"}}"), 1.0),
        (format!("redlock_renew_total{{{t},result=\"unconfirmed\"}}"), 1.0),
        (format!("redlock_lost_total{{{tk},reason=\"expired\"}}"), 1.0),
        (format!("redlock_unprotected_total{{{t}}}"), 1.0),
    ] {
        assert_eq!(seen.get(&name), Some(&expected), "{name} in {seen:#?}");
    }
    // The first was due at 6.667 s and had no answer for 0.833 s; it was tried again 0.2 s later.
    // The next one, which found no lock, was in time again.
    assert_eq!(seen.get("redlock_renewal_lag_seconds_count"), Some(&3.0));
    let lag = seen["redlock_renewal_lag_seconds_sum"];
    assert!((1.033..1.05).contains(&lag), "{lag}");
}

/// Otherwise a hot key whose bodies last for some milliseconds would show renewals, also of locks
/// that are never renewed.
#[test]
fn a_claim_of_what_was_handed_over_is_no_renewal() {
    let seen = recorded(async {
        let server = Server::new();
        let holder = holds(&server.client()).await;
        let waiter = waits(&server.client()).await;
        holder.release().await.unwrap();
        let guard = granted(waiter).await;
        server.next("renew", [Fate::LostReply]);
        while !is_full(&guard) {
            tokio::time::sleep(MOMENT).await;
        }
    });
    assert!(sum(&seen, "redlock_renew_total") < 1.0, "{seen:#?}");
    assert!(sum(&seen, "redlock_renewal_lag_seconds_count") >= 2.0, "{seen:#?}");
}

/// With `max_renew` terms end as planned: no lease is lost.
#[test]
fn a_leader_that_steps_down_has_lost_nothing() {
    let seen = recorded(async {
        let (redlock, _) = fake();
        let mut terms = 0;
        let leads = redlock.lock("k").max_renew(0).lead(|_| {
            terms += 1;
            let is_last = terms == 3;
            async move {
                if !is_last {
                    std::future::pending::<()>().await;
                }
            }
        });
        leads.await.unwrap();
        assert!(redlock.lock("k").max_renew(0).run(std::future::pending::<()>()).await.is_err());
    });
    let counted = |metric| sum(&seen, metric).to_string();
    assert_eq!(counted("redlock_hold_seconds_count"), "4");
    assert_eq!(counted("redlock_lost_total"), "1", "that of the body: {seen:#?}");
}

/// Also where the lock is passed on in the process without an attempt, and where callers leave.
#[test]
fn every_attempt_has_one_result() {
    let seen = recorded(async {
        let (redlock, _) = fake();
        let lock = || redlock.lock("k").label("import");
        let tasks: Vec<_> = (0..20)
            .map(|n| {
                // Every fifth leaves before its turn.
                let limit = Duration::from_millis(if n % 5 == 4 { 5 } else { 60_000 });
                let hold = lock().run(tokio::time::sleep(Duration::from_millis(10)));
                tokio::spawn(tokio::time::timeout(limit, hold))
            })
            .collect();
        tokio::task::yield_now().await;
        assert!(lock().try_acquire().await.unwrap().is_none());
        assert!(lock().wait(Duration::from_millis(1)).acquire().await.is_err());
        for task in tasks {
            let _ = task.await.unwrap();
        }
        let held = lock().acquire().await.unwrap();
        let waiter = tokio::spawn(lock().acquire());
        tokio::task::yield_now().await;
        redlock.shutdown(Duration::from_secs(60)).await;
        assert!(waiter.await.unwrap().is_err() && held.check().is_ok());
    });
    let result = |result: &str| {
        let labels = format!("template=\"import\",kind=\"write\",result=\"{result}\"");
        let name = format!("redlock_acquire_total{{{labels}}}");
        seen.get(&name).copied().unwrap_or_default().to_string()
    };
    let results = ["acquired", "refused", "timeout", "cancelled", "shutting_down"].map(result);
    assert_eq!(results, ["17", "1", "1", "4", "1"], "{seen:#?}");
    let sums = ["redlock_attempts_total", "redlock_acquire_total", "redlock_waiting"];
    assert_eq!(sums.map(|metric| sum(&seen, metric).to_string()), ["24", "24", "0"]);
    assert!(sum(&seen, "redlock_acquire_commands_total") < 22.0, "most were passed on");
}

/// The answer comes when the lease is used up: no body relied on it.
#[test]
fn a_grant_that_comes_too_late_is_no_lost_lease() {
    let seen = recorded(async {
        let (redlock, fake) = fake();
        let late = || Fate::Slow(Duration::from_millis(95));
        let expire = Duration::from_millis(100);
        for max_renew in [0, 3] {
            fake.next_acquires([late()]);
            let request = redlock.lock("k").expire(expire).max_renew(max_renew).wait(Wait::Never);
            assert!(matches!(request.acquire().await, Err(LockError::ExpireTooShort { .. })));
        }
        fake.next_acquires([late()]);
        let both = redlock.lock_all(["a", "b"]).expire(expire).wait(Wait::Never);
        assert!(both.acquire().await.is_err());
    });
    assert!(sum(&seen, "redlock_lost_total") < 0.5, "{seen:?}");
    assert!(sum(&seen, "redlock_held").abs() < 0.5, "{seen:?}");
}

/// A skip is an outcome of its own, and no refusal; a server that does not answer is no skip.
#[test]
fn skipped_calls_are_counted() {
    use crate::call::{Client, Spec, client, convert, skip_busy, skipped};

    let call = |redlock: &Redlock| {
        let client: Client = client(redlock);
        let spec = Spec::new("nightly").wait(Wait::Never).skips_busy();
        let skipped = skipped::<Result<(), LockError>>();
        let body = skip_busy(convert(async { Ok(()) }), "nightly", skipped);
        body.__redlock_lock(spec, crate::key::literal_key("k"), client)
    };
    let seen = recorded(async {
        let (redlock, fake) = fake();
        call(&redlock).await.unwrap();
        let _held = redlock.lock("k").acquire().await.unwrap();
        for _ in 0..3 {
            call(&redlock).await.unwrap();
        }
        fake.next_acquires([Fate::LostRequest]);
        assert!(call(&redlock).await.unwrap_err().is_unavailable());
    });
    let result = |result: &str| {
        let labels = format!("template=\"nightly\",kind=\"write\",result=\"{result}\"");
        let name = format!("redlock_acquire_total{{{labels}}}");
        seen.get(&name).copied().unwrap_or_default().to_string()
    };
    let results = ["acquired", "skipped", "refused", "unavailable"].map(result);
    assert_eq!(results, ["1", "3", "0", "1"], "{seen:#?}");
}

#[test]
fn every_metric_says_what_it_means() {
    let text = scraped(async {
        let redlock = Redlock::builder().memory().build().await.unwrap();
        let held = redlock.lock("a").max_renew(1).acquire().await.unwrap();
        held.lost().await;
        assert!(redlock.lock("a").run(async {}).await.is_ok());
    });
    assert!(text.contains("redlock_renew_total"), "{text}");
    for line in text.lines().filter(|line| line.starts_with("# TYPE ")) {
        let name = line.split(' ').nth(2).unwrap();
        assert!(text.contains(&format!("# HELP {name} ")), "{name} in {text}");
    }
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
    assert!(name.starts_with("redlock_node_doubts_total{node=\""), "{name}");
    assert!(name.ends_with(",cause=\"clock_differs\"}"), "{name}");
}
