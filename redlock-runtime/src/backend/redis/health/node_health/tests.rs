//! When an outage is reported, and when it is over.

use std::pin::pin;
use std::task::{Context, Waker};

use super::*;
use crate::clock::Clock;

fn health() -> OutageLog {
    health_of("n")
}

/// The gauge of a node shows what all logs of this name find, those of other tests, too.
fn health_of(node: &str) -> OutageLog {
    OutageLog::new(node, "web-1".into(), Arc::new(Reports::new(Clock::Boot)), true)
}

impl OutageLog {
    /// Have operators been told of the outage?
    pub(crate) fn is_told(&self) -> bool {
        self.state.lock().outage.as_ref().is_some_and(|outage| outage.is_reported)
    }

    /// What they are told of it next.
    #[cfg(feature = "cluster")]
    pub(crate) fn told(&self) -> String {
        self.state.lock().outage.as_ref().map(|outage| outage.error.clone()).unwrap_or_default()
    }
}

fn failure(kind: NodeErrorKind) -> Failure {
    Failure::not_run(NodeError::new("n", kind, "refused"))
}

#[test]
fn an_outage_is_told_once_the_background_has_seen_it_too() {
    let (health, now) = (health(), CLOCK.now());
    health.failed(failure(NodeErrorKind::Unreachable), now);
    assert!(health.is_out() && !health.is_told());
    health.heard();
    health.confirm();
    assert!(!health.is_told(), "it answered meanwhile");
    health.failed(failure(NodeErrorKind::Unreachable), now);
    health.confirm();
    assert!(health.is_told());
}

#[test]
fn silence_has_to_last() {
    let (health, now) = (health(), CLOCK.now());
    health.failed(failure(NodeErrorKind::NoReply), now);
    assert_eq!(health.state.lock().outage.as_ref().unwrap().began, now);
    health.confirm();
    assert!(health.is_out() && !health.is_told());
    health.state.lock().outage.as_mut().unwrap().began = now.minus(SILENCE);
    health.confirm();
    assert!(health.is_told());
    let failed = health.failed(failure(NodeErrorKind::NoReply), now);
    assert!(failed.error.message().starts_with("refused, for 1."), "{}", failed.error);
}

#[test]
fn an_outage_is_over_when_the_node_has_answered_for_a_while() {
    let (health, now) = (health(), CLOCK.now());
    let failed = health.failed(failure(NodeErrorKind::Unreachable), now);
    assert_eq!(failed.error.message(), "refused", "it has just begun");
    assert!(health.is_silent());
    health.heard();
    assert!(!health.is_silent() && !health.answers_again());
    health.end_if_over();
    assert!(health.is_out(), "not yet");
    health.failed(failure(NodeErrorKind::Loading), now);
    assert!(health.is_silent(), "it was too early");
    let answers = Some(CLOCK.now().minus(QUIET));
    health.state.lock().outage.as_mut().unwrap().answers = answers;
    assert!(health.answers_again());
    health.end_if_over();
    assert!(!health.is_out());
    assert_eq!(health.state.lock().answers_since, answers, "not since before the outage");
}

/// Answers that follow each other do not put its end off.
#[test]
fn an_outage_ends_a_while_after_the_first_answer() {
    let (health, now) = (health(), CLOCK.now());
    health.failed(failure(NodeErrorKind::Unreachable), now);
    let answers = Some(CLOCK.now().minus(QUIET));
    health.state.lock().outage.as_mut().unwrap().answers = answers;
    health.heard();
    assert_eq!(health.state.lock().outage.as_ref().unwrap().answers, answers);
    assert!(health.since().elapsed().is_ok_and(|ago| ago >= QUIET / 2), "it answers since then");
}

#[test]
fn an_outage_is_not_told_again_while_the_node_answers() {
    let health = health();
    health.failed(failure(NodeErrorKind::Unreachable), CLOCK.now());
    let set_due = || health.state.lock().outage.as_mut().unwrap().tell_again = Moment::ZERO;
    let is_due = || health.state.lock().outage.as_ref().unwrap().tell_again == Moment::ZERO;
    set_due();
    health.report_lasting();
    assert!(is_due(), "its beginning is told first");
    health.confirm();
    health.heard();
    set_due();
    health.report_lasting();
    assert!(is_due());
}

#[test]
fn the_pauses_between_two_reports_have_an_end() {
    let mut outage = Outage::new(Moment::ZERO);
    for _ in 0..20 {
        outage.tell_again = Moment::ZERO;
        assert!(outage.take_due_report(Moment::ZERO));
    }
    assert_eq!(
        (outage.pause, outage.tell_again),
        (LONGEST_PAUSE, Moment::ZERO.plus(LONGEST_PAUSE))
    );
}

#[test]
fn what_a_server_refuses_to_one_user_is_no_outage() {
    let health = health();
    for kind in [NodeErrorKind::NoPermission, NodeErrorKind::WrongType] {
        health.failed(failure(kind), CLOCK.now());
        assert!(!health.is_out());
    }
}

#[test]
fn an_outage_that_lasts_is_told_again_after_ever_longer_pauses() {
    let health = health();
    health.failed(failure(NodeErrorKind::Unreachable), CLOCK.now());
    health.confirm();
    let due = |health: &OutageLog, by: Duration| {
        let mut state = health.state.lock();
        let outage = state.outage.as_mut().unwrap();
        outage.tell_again = outage.tell_again.minus(by);
        outage.tell_again
    };
    let before = due(&health, TELL_AGAIN);
    health.report_lasting();
    let next = due(&health, Duration::ZERO);
    assert!(next.since(before) >= 2 * TELL_AGAIN, "{:?}", next.since(before));
    health.report_lasting();
    assert_eq!(due(&health, Duration::ZERO), next, "not yet");
}

#[test]
fn a_connection_that_broke_raises_a_suspicion_once() {
    let health = health();
    assert!(!health.take_suspicion() && !health.knows_server());
    health.broke();
    let mut nobody = Context::from_waker(Waker::noop());
    assert!(pin!(health.news()).poll(&mut nobody).is_ready(), "the background learns of it");
    assert!(health.take_suspicion() && !health.take_suspicion());
    health.meet("redis_version:7.0.0\r\n");
    assert!(!health.knows_server());
    health.meet("run_id:a\r\n");
    assert!(health.knows_server());
}

#[cfg(feature = "cluster")]
#[test]
fn of_several_servers_one_that_answers_says_little() {
    let reports = Arc::new(Reports::new(Clock::Boot));
    let health = OutageLog::new("n", "web-1".into(), reports, false);
    health.failed(failure(NodeErrorKind::Unreachable), CLOCK.now());
    health.heard();
    assert!(health.is_silent(), "another one is out");
    health.heard_all(CLOCK.now().minus(QUIET));
    assert!(health.is_silent(), "a command has failed since");
    for again in [NodeErrorKind::Unreachable, NodeErrorKind::Authentication] {
        let later = CLOCK.now();
        health.failed(failure(again), later);
        health.heard_all(later);
        assert!(health.is_silent(), "{again:?} came after it was sent");
    }
    health.heard_all(CLOCK.now().plus(QUIET));
    assert!(!health.is_silent());
    let answers_since = |ago: Duration| {
        health.state.lock().outage.as_mut().unwrap().answers = Some(CLOCK.now().minus(ago));
    };
    answers_since(QUIET_OF_MANY / 2);
    assert!(!health.answers_again());
    answers_since(QUIET_OF_MANY);
    assert!(health.answers_again());
}

/// Its client library has followed redirections, and has waited for a master.
#[test]
fn a_cluster_without_a_master_of_the_key_is_an_outage() {
    let health = |node: &str| {
        let reports = Arc::new(Reports::new(Clock::Boot));
        OutageLog::new(node, "web-1".into(), reports, !node.starts_with("cluster"))
    };
    let is_outage = |node: &str, message: &str| {
        let health = health(node);
        let error = NodeError::new(node, NodeErrorKind::Cluster, message);
        health.failed(Failure::not_run(error), CLOCK.now());
        health.is_out()
    };
    for message in ["CLUSTERDOWN The cluster is down", "MOVED 9 10.0.0.7:6379", "ASK 9 10.0.0.7:1"]
    {
        assert!(is_outage("cluster redis://10.0.0.5:6379", message), "{message}");
        assert!(!is_outage("redis://10.0.0.5:6379", message), "it is no client of a cluster");
    }
    assert!(!is_outage("cluster redis://10.0.0.5:6379", "TRYAGAIN Multiple keys request"));
}

#[test]
fn what_fails_after_the_end_of_an_outage_begins_another_one() {
    let health = health();
    health.failed(failure(NodeErrorKind::Unreachable), CLOCK.now());
    health.heard();
    health.state.lock().outage.as_mut().unwrap().answers = Some(CLOCK.now().minus(QUIET));
    let now = CLOCK.now();
    health.failed(failure(NodeErrorKind::Unreachable), now);
    let state = health.state.lock();
    let outage = state.outage.as_ref().unwrap();
    assert_eq!((outage.began, outage.failed), (now, 1));
}

#[cfg(feature = "metrics")]
#[test]
fn a_restart_that_may_have_lost_leases_is_counted_without_the_guard() {
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    let shows = |count: u32| {
        let doubts = "redlock_node_doubts_total{node=\"n\",cause=\"restarted\"}";
        let shown = recorder.handle().render();
        assert!(shown.contains(&format!("{doubts} {count}\n")), "{count} in {shown}");
    };
    let snapshot = "aof_enabled:0\r\ndb0:keys=1\r\n";
    metrics::with_local_recorder(&recorder, || {
        let health = health();
        health.heard();
        for (info, count) in [
            ("run_id:a\r\n".to_owned(), 0),
            ("run_id:b\r\naof_enabled:1\r\ndb0:keys=1\r\n".to_owned(), 0),
            ("run_id:c\r\n".to_owned(), 1),
            ("run_id:c\r\n".to_owned(), 1),
            (format!("run_id:d\r\n{snapshot}"), 2),
        ] {
            health.meet(&info);
            shows(count);
        }
    });
}

#[cfg(feature = "metrics")]
#[test]
fn a_scrape_shows_whether_the_node_is_up() {
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    metrics::with_local_recorder(&recorder, || {
        telemetry::describe();
        let (health, shown) = (health_of("scraped"), || recorder.handle().render());
        assert!(!shown().contains("redlock_node_up{"), "nothing is known");
        health.heard();
        assert!(shown().contains("redlock_node_up{node=\"scraped\"} 1\n"), "{}", shown());
        health.failed(failure(NodeErrorKind::Unreachable), CLOCK.now());
        health.confirm();
        assert!(shown().contains("redlock_node_up{node=\"scraped\"} 0\n"), "{}", shown());
        health.state.lock().outage.as_mut().unwrap().answers = Some(CLOCK.now().minus(QUIET));
        health.end_if_over();
        assert!(shown().contains("redlock_node_up{node=\"scraped\"} 1\n"), "{}", shown());
        assert!(shown().contains("# HELP redlock_node_up "), "{}", shown());
    });
}

/// As two clients with a pool each have, whose servers are both `redis pool 0`.
#[cfg(feature = "metrics")]
#[test]
fn nodes_of_one_name_are_up_while_no_client_finds_its_own_to_be_out() {
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    metrics::with_local_recorder(&recorder, || {
        let shows = |value: &str| {
            let shown = recorder.handle().render();
            assert!(shown.contains(&format!("{{node=\"shared\"}} {value}\n")), "{shown}");
        };
        let ends = |health: &OutageLog| {
            health.state.lock().outage.as_mut().unwrap().answers = Some(CLOCK.now().minus(QUIET));
            health.end_if_over();
        };
        let (one, another) = (health_of("shared"), health_of("shared"));
        one.failed(failure(NodeErrorKind::Unreachable), CLOCK.now());
        one.confirm();
        another.heard();
        shows("0");
        another.failed(failure(NodeErrorKind::Unreachable), CLOCK.now());
        ends(&another);
        shows("0");
        another.failed(failure(NodeErrorKind::Unreachable), CLOCK.now());
        another.confirm();
        ends(&one);
        shows("0");
        ends(&another);
        shows("1");
    });
}

/// Nobody would set the gauge back to 1. Another client that uses the node goes on with it.
#[cfg(feature = "metrics")]
#[test]
fn an_outage_that_nobody_follows_any_more_is_not_shown() {
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    metrics::with_local_recorder(&recorder, || {
        let shows = |value: &str| {
            let shown = recorder.handle().render();
            assert!(shown.contains(&format!("{{node=\"left\"}} {value}\n")), "{shown}");
        };
        let (one, another) = (health_of("left"), health_of("left"));
        for health in [&one, &another] {
            health.failed(failure(NodeErrorKind::Unreachable), CLOCK.now());
            health.confirm();
        }
        drop(one);
        shows("0");
        another.report_lasting();
        shows("0");
        drop(another);
        shows("NaN");

        let refused = health_of("left");
        for _ in 0..2 {
            refused.failed_at_startup(&failure(NodeErrorKind::Unreachable).error);
            shows("0");
        }
        drop(refused);
        shows("NaN");

        let (calm, refused) = (health_of("left"), health_of("left"));
        calm.heard();
        refused.failed_at_startup(&failure(NodeErrorKind::TooManyClients).error);
        shows("0");
        drop(refused);
        shows("1");
        drop(calm);
        shows("1");
    });
}

/// A lazy client has not asked by itself when the first connection breaks.
#[test]
fn a_process_that_was_met_before_any_check_is_known() {
    let health = health();
    health.assume("a");
    assert!(health.knows_server(), "another process is told");
    health.meet("run_id:b\r\n");
    assert_eq!(health.run_id().as_deref(), Some("b"));
    health.assume("a");
    assert_eq!(health.run_id().as_deref(), Some("b"), "it was met later");
}

#[test]
fn a_server_that_lets_nobody_in_is_not_back() {
    for kind in [NodeErrorKind::Tls, NodeErrorKind::Authentication] {
        let (health, now) = (health(), CLOCK.now());
        health.failed(failure(kind), now);
        assert!(!health.is_out(), "{kind:?} alone is no outage");
        assert!(health.state.lock().answers_since.is_some(), "it has answered");
        health.failed(failure(NodeErrorKind::Unreachable), now);
        health.failed(failure(kind), now);
        assert!(health.is_silent(), "{kind:?} ends none");
    }
}
