//! Every reply that a healthy server does not give, to acquire, renew and release.

use std::sync::Arc;
use std::time::Instant;

use redlock::{LeaseState, LockError, LostReason, NodeErrorKind as Kind, Redlock, Released, Wait};

use crate::fault_kit::{
    LONG, NOISE, Steps, assert_unavailable, client, each, node_error, nothing_left,
};
use crate::support::proxy::{Then, command, contains};
use crate::support::scripted::{self as says, Reply, Scripted};
use crate::support::{Raw, Server, capture, eventually, ms, secs};

const SCRIPTS: &[&str] = &["EVALSHA", "EVAL"];

/// What the library makes of a command that failed once and would succeed if repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Once {
    /// It is repeated, within the time the caller gave.
    Retried,
    /// It is repeated at once, inside of the same attempt.
    Repaired,
    /// Nothing but a person can help.
    Final,
    /// The same for an acquire; but nobody knows whether it was carried out, so that it is cleaned
    /// up, and a release is repeated.
    Doubtful,
}
use Once::{Doubtful, Final, Repaired, Retried};

#[derive(Clone)]
struct Case {
    then: Then,
    kind: Kind,
    once: Once,
    /// Whether the connection goes on being used.
    keeps: bool,
}

/// What a server may reply besides an answer, and the faults that are no replies.
fn table() -> Vec<(&'static str, Case)> {
    let of = |reply: Reply, kind, once, keeps| {
        (reply.name, Case { then: reply.into(), kind, once, keeps })
    };
    let wire = |name, then, kind, once| (name, Case { then, kind, once, keeps: false });
    vec![
        of(says::LOADING, Kind::Loading, Retried, true),
        of(says::BUSY, Kind::Busy, Retried, true),
        of(says::OOM, Kind::OutOfMemory, Final, true),
        of(says::MISCONF, Kind::CannotPersist, Retried, true),
        of(says::NOREPLICAS, Kind::NoReplicas, Retried, true),
        of(says::READONLY, Kind::ReadOnly, Retried, false),
        of(says::MASTERDOWN, Kind::ReadOnly, Retried, false),
        of(says::MOVED, Kind::Cluster, Final, true),
        of(says::ASK, Kind::Cluster, Final, true),
        of(says::CROSSSLOT, Kind::Cluster, Final, true),
        of(says::TRYAGAIN, Kind::Cluster, Retried, true),
        of(says::CLUSTERDOWN, Kind::Cluster, Retried, true),
        of(says::NOAUTH, Kind::Authentication, Final, false),
        of(says::WRONGPASS, Kind::Authentication, Final, false),
        of(says::NOPERM, Kind::NoPermission, Final, true),
        of(says::WRONGTYPE, Kind::WrongType, Final, true),
        of(says::EXECABORT, Kind::Refused, Final, true),
        of(says::PLAIN_ERR, Kind::Refused, Doubtful, true),
        of(says::UPSTREAM_FAILURE, Kind::Refused, Doubtful, true),
        of(says::UNKNOWN_COMMAND, Kind::Refused, Final, true),
        of(says::MAX_CLIENTS, Kind::TooManyClients, Retried, false),
        of(says::GARBAGE, Kind::Protocol, Repaired, false),
        of(says::WRONG_SHAPE, Kind::Protocol, Retried, false),
        of(says::NIL, Kind::Protocol, Retried, false),
        wire("reply lost", Then::LoseReply, Kind::NoReply, Retried),
        wire("request lost", Then::LoseRequest, Kind::NoReply, Retried),
        wire("closed before", Then::CutRequest, Kind::Unreachable, Repaired),
        wire("closed after", Then::CutReply, Kind::Unreachable, Repaired),
        wire("reset after", Then::ResetReply, Kind::Unreachable, Repaired),
    ]
}

/// A client behind a proxy, and a look at its server.
struct Site {
    scripted: Scripted,
    redlock: Redlock,
    prefix: String,
    raw: Raw,
}

impl Site {
    async fn new() -> Site {
        let server = Server::shared().await;
        let scripted = Scripted::start(server);
        let (redlock, prefix) = client(&scripted.url()).await;
        // What it asked while it connected does not count.
        scripted.proxy.forget();
        Site { scripted, redlock, prefix, raw: server.raw() }
    }

    fn key(&self) -> String {
        format!("{}k", self.prefix)
    }

    #[track_caller]
    fn assert_named(&self, error: &LockError, kind: Kind) {
        let node = node_error(error);
        // Garbage breaks the connection under the clean-up of the attempt before, or the other way
        // round: only the first of the two commands sees why.
        let is_bystander = kind == Kind::Protocol && node.message().contains("broken pipe");
        assert!(is_bystander || node.kind() == kind, "{error}");
        assert_eq!(node.node(), self.scripted.url());
        let text = error.to_string();
        assert!(text.contains(node.node()) && text.contains('('), "no address or advice: {text}");
    }
}

#[tokio::test]
async fn acquire_survives_what_passes_and_reports_what_does_not() {
    each(table(), |case| async move {
        let site = Site::new().await;
        let before = site.scripted.proxy.connections();
        let hits = site.scripted.proxy.when(command(SCRIPTS), case.then.clone());
        let wait = if case.once == Repaired { Wait::Never } else { Wait::AtMost(LONG) };
        let outcome = site.redlock.lock("k").wait(wait).acquire().await;
        assert_eq!(hits.count(), 1);
        let is_final = matches!(case.once, Final | Doubtful);
        if is_final {
            let error = outcome.map(drop).unwrap_err();
            site.assert_named(&error, case.kind);
            if case.once == Doubtful {
                let has_cleaned_up = || async { site.scripted.proxy.count("EVALSHA") > 1 };
                eventually(secs(10), has_cleaned_up).await;
            } else {
                assert_eq!(site.scripted.proxy.count("EVALSHA"), 1, "it was tried again");
            }
        } else {
            let guard = outcome.unwrap();
            assert_eq!(site.raw.get(&site.key()).await.as_deref(), Some(guard.owner()));
            assert_eq!(guard.release().await, Ok(Released::Released));
        }
        // Renewals have a connection of their own, which is not made before one is due.
        let made = site.scripted.proxy.connections() - before;
        let is_replaced = !case.keeps && !is_final;
        // On a busy machine a second attempt to connect joins the first one.
        let expected = if is_replaced { 1..=2 } else { 0..=0 };
        assert!(expected.contains(&made), "{made} connections made");
        nothing_left(&site.raw, &site.prefix, secs(10)).await;
    })
    .await;
}

/// What every command that asks for a lock of `give_up` has in it, and none of a clean-up: for how
/// long.
const ASKS: &str = "$5\r\n60000\r\n";

/// An acquire that must fail in time.
async fn give_up(site: &Site) -> LockError {
    let start = Instant::now();
    let outcome = site.redlock.lock("k").expire(secs(60)).wait(ms(1500)).acquire().await;
    assert!(start.elapsed() < ms(1500) + NOISE, "{:?}", start.elapsed());
    outcome.map(drop).unwrap_err()
}

#[tokio::test]
async fn acquire_gives_up_when_its_wait_is_over() {
    each(table(), |case| async move {
        let site = Site::new().await;
        // The first rule that fits acts: it counts acquires, and the other one is for the rest.
        let asked = site.scripted.proxy.always(contains(ASKS), case.then.clone());
        site.scripted.proxy.always(command(SCRIPTS), case.then.clone());
        let is_said = |error: &LockError| node_error(error).kind() == case.kind;
        let mut before = 0;
        let mut error = give_up(&site).await;
        // On a machine that stalls, the last attempt may go unanswered instead.
        for _ in 0..2 {
            if !is_said(&error) {
                site.scripted.proxy.forget();
                before = asked.count();
                error = give_up(&site).await;
            }
        }
        site.assert_named(&error, case.kind);
        let tries = site.scripted.proxy.count("EVALSHA");
        let is_expected = match case.once {
            Final => tries == 1,
            // Its clean-up is sent, too, and again.
            Doubtful => asked.count() - before == 1,
            Retried | Repaired => tries >= 2,
        };
        assert!(is_expected, "{tries} tries");
        site.scripted.proxy.pass();
        nothing_left(&site.raw, &site.prefix, secs(10)).await;
        assert!(site.redlock.held().is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_connection_that_refuses_the_login_is_not_used_again() {
    let site = Site::new().await;
    for reply in [says::NOAUTH, says::WRONGPASS] {
        let before = site.scripted.proxy.connections();
        site.scripted.answer_next(SCRIPTS, reply);
        let refused = site.redlock.lock("k").wait(Wait::Never).acquire().await.map(drop);
        assert_unavailable(&refused.unwrap_err(), Kind::Authentication);
        let guard = site.redlock.lock("k").acquire().await.unwrap();
        assert_eq!(guard.release().await, Ok(Released::Released));
        assert_eq!(site.scripted.proxy.connections(), before + 1);
    }
}

#[tokio::test]
async fn a_renewal_that_failed_once_is_tried_again_in_time() {
    each(table(), |case| async move {
        let site = Site::new().await;
        let guard = site.redlock.lock("k").expire(secs(6)).acquire().await.unwrap();
        let hits = site.scripted.proxy.when(command(SCRIPTS), case.then.clone());
        hits.fired().await;
        eventually(secs(10), || async { guard.renewals() > 0 || guard.check().is_err() }).await;
        assert_eq!(guard.check(), Ok(()));
        assert_eq!(guard.state(), LeaseState::Held);
        assert_eq!(guard.release().await, Ok(Released::Released));
    })
    .await;
}

#[tokio::test]
async fn renewals_that_keep_failing_stop_the_body_while_the_key_still_stands() {
    each(table(), |case| async move {
        let site = Site::new().await;
        let rival = Server::shared().await;
        let rival = Redlock::builder().url(rival.url()).prefix(site.prefix.clone());
        let rival = rival.build().await.unwrap();
        let guard = site.redlock.lock("k").expire(secs(4)).acquire().await.unwrap();
        site.scripted.proxy.always(command(SCRIPTS), case.then.clone());
        let steps = Steps::new();
        let rival = tokio::spawn(async move {
            let guard = rival.lock("k").wait(LONG).acquire().await.unwrap();
            (Instant::now(), guard)
        });
        let error = guard.protect(steps.clone().take()).await.unwrap_err();
        let LockError::Lost { reason, .. } = error else { panic!("{error}") };
        // A renewal of which only the reply is lost is carried out; the holder cannot know.
        assert_eq!(reason, LostReason::Unreachable);
        let (entered, second) = rival.await.unwrap();
        assert!(steps.last() < entered, "two holders at once");
        assert!(second.fencing_token() > guard.fencing_token());
    })
    .await;
}

#[tokio::test]
async fn a_release_that_failed_once_goes_on_in_the_background() {
    each(table(), |case| async move {
        let site = Site::new().await;
        let guard = site.redlock.lock("k").acquire().await.unwrap();
        site.scripted.proxy.when(command(SCRIPTS), case.then.clone());
        let outcome = guard.release().await;
        match case.once {
            // Where only the reply was lost, the second try finds nothing.
            Repaired => {
                assert!(
                    matches!(outcome, Ok(Released::Released | Released::Unknown)),
                    "{outcome:?}"
                );
            }
            Retried | Doubtful => site.assert_named(&outcome.unwrap_err(), case.kind),
            Final => {
                site.assert_named(&outcome.unwrap_err(), case.kind);
                assert_eq!(site.redlock.shutdown(NOISE).await, 0);
                assert!(site.raw.pttl(&site.key()).await.is_some(), "the lease frees it");
                return;
            }
        }
        nothing_left(&site.raw, &site.prefix, secs(10)).await;
        assert_eq!(site.redlock.shutdown(secs(5)).await, 0);
    })
    .await;
}

#[tokio::test]
async fn a_release_that_keeps_failing_is_reported_and_left_to_the_lease() {
    let events = Arc::new(capture());
    let cases = table().into_iter().map(|(name, case)| (name, (case, events.clone())));
    each(cases, |(case, events)| async move {
        let site = Site::new().await;
        let guard = site.redlock.lock("k").expire(secs(2)).acquire().await.unwrap();
        site.scripted.proxy.always(command(SCRIPTS), case.then.clone());
        let error = guard.release().await.unwrap_err();
        site.assert_named(&error, case.kind);
        assert_eq!(site.redlock.shutdown(secs(2) + NOISE).await, 0, "it ends with the lease");
        let address = site.scripted.proxy.addr().to_string();
        // An outage is told by itself, once for all locks.
        let (what, level) = match case.kind {
            Kind::Loading
            | Kind::Busy
            | Kind::TooManyClients
            | Kind::NoReply
            | Kind::Unreachable => ("was not released", tracing::Level::DEBUG),
            _ => ("could not be released", tracing::Level::WARN),
        };
        let told = events.wait_for(NOISE, &address, what).await;
        assert_eq!(told.level, level);
        nothing_left(&site.raw, &site.prefix, secs(2) + NOISE).await;
    })
    .await;
}

/// As Envoy and twemproxy do when the connection to their server broke, or a limit passed.
#[tokio::test]
async fn what_ran_behind_the_error_of_a_proxy_is_cleaned_up() {
    for reply in [says::UPSTREAM_FAILURE, says::PLAIN_ERR] {
        let site = Site::new().await;
        let lock = || site.redlock.lock("k").wait(Wait::Never).expire(secs(60));
        let hits = site.scripted.replace_next(&["EVALSHA"], reply);
        let error = lock().acquire().await.map(drop).unwrap_err();
        assert_eq!(hits.count(), 1);
        site.assert_named(&error, Kind::Refused);
        nothing_left(&site.raw, &site.prefix, secs(10)).await;
        // The release has freed the lock, and the second one finds nothing.
        let guard = lock().acquire().await.unwrap();
        // Releases of the locks before may be repeated meanwhile.
        let replaced = Then::Replace(reply.wire.as_bytes().to_vec());
        site.scripted.proxy.when(contains(guard.owner()), replaced);
        site.assert_named(&guard.release().await.unwrap_err(), Kind::Refused);
        nothing_left(&site.raw, &site.prefix, secs(10)).await;
        // One that the proxy has not passed on is sent again.
        let guard = lock().acquire().await.unwrap();
        site.scripted.proxy.when(contains(guard.owner()), reply.into());
        site.assert_named(&guard.release().await.unwrap_err(), Kind::Refused);
        nothing_left(&site.raw, &site.prefix, secs(10)).await;
        assert_eq!(site.redlock.shutdown(secs(5)).await, 0);
    }
}

/// The entry that stays would have the lock for a second in which no process holds it.
#[tokio::test]
async fn an_entry_behind_the_error_of_a_proxy_leaves_the_queue() {
    let site = Site::new().await;
    let rival = Redlock::builder().url(Server::shared().await.url()).prefix(site.prefix.clone());
    let guard = rival.build().await.unwrap().lock("k").acquire().await.unwrap();
    // From then on the server knows the scripts.
    let refused = site.redlock.lock("k").wait(ms(300)).acquire().await;
    assert!(matches!(refused, Err(LockError::Timeout { .. })));
    let queue = format!("{{{}}}:queue", site.key());
    eventually(secs(10), || async { site.raw.pttl(&queue).await.is_none() }).await;
    let failed = Then::Replace(says::UPSTREAM_FAILURE.wire.as_bytes().to_vec());
    let hits = site.scripted.proxy.when(contains(&queue), failed);
    let call = site.redlock.lock("k").wait(LONG);
    let waiter = tokio::spawn(async move { call.acquire().await.map(drop) });
    hits.fired().await;
    let enqueued = Instant::now();
    eventually(secs(10), || async { site.raw.pttl(&queue).await.is_none() }).await;
    assert!(enqueued.elapsed() < secs(50), "the entry stayed until the queue ended by itself");
    assert!(!waiter.is_finished());
    assert_eq!(guard.release().await, Ok(Released::Released));
    assert_eq!(waiter.await.unwrap(), Ok(()));
}

#[tokio::test]
async fn scripts_that_the_server_forgot_are_sent_again() {
    let site = Site::new().await;
    let hits = site.scripted.answer_next(&["EVALSHA"], says::NOSCRIPT);
    let guard = site.redlock.lock("k").wait(Wait::Never).expire(secs(6)).acquire().await.unwrap();
    assert_eq!(hits.count(), 1);
    let hits = site.scripted.answer_next(&["EVALSHA"], says::NOSCRIPT);
    hits.fired().await;
    eventually(secs(10), || async { guard.renewals() > 0 }).await;
    let hits = site.scripted.answer_next(&["EVALSHA"], says::NOSCRIPT);
    assert_eq!(guard.release().await, Ok(Released::Released));
    assert_eq!(hits.count(), 1);
}

#[tokio::test]
async fn replies_in_single_bytes_are_replies() {
    let site = Site::new().await;
    site.scripted.proxy.split_writes();
    for _ in 0..20 {
        let guard = site.redlock.lock("k").wait(Wait::Never).acquire().await.unwrap();
        assert_eq!(guard.release().await, Ok(Released::Released));
    }
}
