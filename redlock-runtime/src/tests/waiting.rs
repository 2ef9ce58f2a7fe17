//! Whoever waits is served as soon as the lock is free: callers that pause, that are not polled,
//! and those behind a holder that lost its lock.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::time::Instant;

use super::fake::{Fate, SECOND};
use super::fifo_queue::{EXPIRE, MOMENT, granted, holds, waits};
use super::server::Server;
use crate::backend::CLAIM_WINDOW;
use crate::client::Redlock;
use crate::error::{LockError, NodeErrorKind};
use crate::options::Wait;
use crate::state::LostReason;

/// What a hand-over may take here, where commands and messages take no time: timers have a tick.
const AT_ONCE: Duration = Duration::from_millis(5);
/// How long the attempt of a caller keeps others from asking.
const DIRECT_ATTEMPT: Duration = Duration::from_millis(10);

/// Callers that do something else between two calls. Returns the longest wait.
async fn callers(redlock: Redlock, think: Duration, calls: u32) -> Duration {
    let mut longest = Duration::ZERO;
    for _ in 0..calls {
        let called = Instant::now();
        let guard = redlock.lock("k").wait(Wait::Forever).acquire().await.unwrap();
        longest = longest.max(called.elapsed());
        guard.release().await.unwrap();
        tokio::time::sleep(think.mul_f64(0.5 + fastrand::f64())).await;
    }
    longest
}

#[tokio::test(start_paused = true)]
async fn callers_that_pause_between_calls_never_wait_for_a_free_lock() {
    for (processes, tasks) in [(1, 2), (1, 8), (2, 2), (2, 8)] {
        for think in [1, 3, 20, 400].map(Duration::from_millis) {
            let server = Server::new();
            let answer = || vec![Fate::Slow(Duration::from_micros(100)); 20_000];
            for verb in ["acquire", "join", "release", "give_back", "rotate"] {
                server.next(verb, answer());
            }
            let mut running = tokio::task::JoinSet::new();
            for _ in 0..processes {
                let redlock = server.client();
                (0..tasks).for_each(|_| drop(running.spawn(callers(redlock.clone(), think, 100))));
            }
            let longest = running.join_all().await.into_iter().max().unwrap();
            let most = 4 * MOMENT * processes * tasks;
            assert!(longest <= most, "{processes} x {tasks}, {think:?}: {longest:?}");
        }
    }
}

/// The arm of a `select!` that takes long, a stalled stream, a blocked runtime.
#[tokio::test(start_paused = true)]
async fn a_caller_that_asked_and_is_not_polled_keeps_nobody_out() {
    let server = Server::new();
    let redlock = server.client();
    let taken = server.set("k", EXPIRE);
    server.next("acquire", [Fate::Slow(MOMENT)]);
    let mut stalled = pin!(redlock.lock("k").wait(20 * SECOND).acquire());
    assert!(stalled.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    tokio::time::sleep(2 * MOMENT).await;
    server.free(&taken);
    let start = Instant::now();
    let guard = redlock.lock("k").wait(20 * SECOND).acquire().await.unwrap();
    assert!(start.elapsed() <= DIRECT_ATTEMPT + AT_ONCE, "{:?}", start.elapsed());
    drop(guard);
    drop(stalled.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_its_caller_never_takes_is_not_renewed_and_goes_to_others() {
    let server = Server::new();
    let redlock = server.client();
    let holder = holds(&server.client()).await;
    let mut stalled = pin!(redlock.lock("k").expire(EXPIRE).wait(Wait::Forever).acquire());
    let patience = tokio::time::timeout(MOMENT, &mut stalled).await;
    assert!(patience.is_err() && server.waiting() == 1);
    let others = [waits(&redlock).await, waits(&server.client()).await];
    server.take_log();
    holder.release().await.unwrap();
    let start = Instant::now();
    let turns = others.map(|other| tokio::spawn(async { drop(granted(other).await) }));
    for turn in turns {
        let ended = tokio::time::timeout(EXPIRE, turn).await;
        ended.expect("the lock goes to others").unwrap();
    }
    assert!(start.elapsed() <= CLAIM_WINDOW + AT_ONCE, "{:?}", start.elapsed());
    assert!(!server.take_verbs().contains(&"renew".to_owned()));
    // Polled again, it waits as before, and is served.
    let guard = stalled.await.unwrap();
    assert_eq!(server.owner("k").as_deref(), Some(guard.owner()));
}

/// The lease of its caller is a full one, though a renewal was put off.
#[tokio::test(start_paused = true)]
async fn a_lock_that_is_taken_late_is_held_and_renewed() {
    let server = Server::new();
    let redlock = server.client();
    let holder = holds(&server.client()).await;
    let mut late = pin!(redlock.lock("k").expire(EXPIRE).wait(Wait::Forever).acquire());
    assert!(tokio::time::timeout(MOMENT, &mut late).await.is_err());
    holder.release().await.unwrap();
    tokio::time::sleep(100 * MOMENT).await;
    let guard = late.await.unwrap();
    tokio::time::sleep(2 * EXPIRE).await;
    guard.check().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_ends_under_its_holder_is_news_for_those_who_wait_here() {
    let server = Server::new();
    let redlock = server.client();
    let start = Instant::now();
    let request = redlock.lock("k").expire(EXPIRE).max_renew(0);
    let kept = request.acquire().await.unwrap();
    let waiter = waits(&redlock).await;
    drop(granted(waiter).await);
    assert!(start.elapsed() <= EXPIRE + AT_ONCE, "{:?}", start.elapsed());
    assert_eq!(kept.lost().await, LostReason::RenewalLimit);
}

#[tokio::test(start_paused = true)]
async fn who_waits_behind_a_holder_of_its_process_looks_whether_the_lock_is_still_there() {
    for is_stolen in [false, true] {
        let server = Server::new();
        let redlock = server.client();
        let holder = holds(&redlock).await;
        let waiter = waits(&redlock).await;
        tokio::time::sleep(SECOND / 3).await;
        server.remove("k");
        let thief = is_stolen.then(|| server.set("k", EXPIRE));
        let start = Instant::now();
        let expected = if is_stolen { LostReason::Stolen } else { LostReason::Expired };
        assert_eq!(holder.lost().await, expected);
        assert!(start.elapsed() <= SECOND + AT_ONCE, "{:?}", start.elapsed());
        if let Some(thief) = &thief {
            server.free(thief);
        }
        let next = granted(waiter).await;
        assert!(start.elapsed() <= SECOND + 2 * AT_ONCE, "{:?}", start.elapsed());
        assert_eq!(redlock.held().len(), 1, "a lock that is lost is not listed for long");
        drop(next);
    }
}

/// Five processes that died while they waited, and their holder with them: nobody is left to hand
/// the lock on.
#[tokio::test(start_paused = true)]
async fn who_waits_behind_the_dead_of_a_crash_is_served_when_the_lease_is_over() {
    let server = Server::new();
    let lease = 3 * SECOND;
    for _ in 0..6 {
        server.set("k", lease);
    }
    let start = Instant::now();
    let guard = granted(waits(&server.client()).await).await;
    let apart = 5 * Duration::from_millis(50);
    assert!(start.elapsed() <= lease + apart + AT_ONCE, "{:?}", start.elapsed());
    drop(guard);
}

/// The last in a long queue behind a long lease: it finds out that it is the first by now.
#[tokio::test(start_paused = true)]
async fn a_place_far_back_is_looked_after_while_the_line_moves() {
    let server = Server::new();
    let holder = server.set("k", 30 * SECOND);
    let ahead: Vec<_> = (0..9).map(|_| server.set("k", SECOND)).collect();
    let waiter = waits(&server.client()).await;
    // Everybody but the last one is served and gone, and the one before it dies with the lock.
    server.free(&holder);
    ahead[..8].iter().for_each(|claim| server.free(claim));
    let start = Instant::now();
    drop(granted(waiter).await);
    assert!(start.elapsed() <= 2 * SECOND, "{:?}", start.elapsed());
}

/// Shares are by callers: the eight of one process have eight holds for each one of another's.
#[tokio::test(start_paused = true)]
async fn a_turn_serves_as_many_callers_as_waited_when_it_began() {
    // Leases that stay fresh for all of them, and leases that have to be claimed in between.
    for expire in [100 * SECOND, SECOND] {
        let server = Server::new();
        let holder = server.set("k", EXPIRE);
        let (crowd, single) = (server.client(), server.client());
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut calls = Vec::new();
        let mut call = async |redlock: &Redlock, name: &'static str| {
            let (request, order) = (redlock.lock("k").expire(expire), Arc::clone(&order));
            calls.push(tokio::spawn(async move {
                let guard = request.wait(Wait::Forever).acquire().await.unwrap();
                order.lock().unwrap().push(name);
                tokio::time::sleep(100 * MOMENT).await;
                guard.release().await.unwrap();
            }));
            tokio::time::sleep(MOMENT).await;
        };
        for _ in 0..4 {
            call(&crowd, "crowd").await;
        }
        call(&single, "single").await;
        server.free(&holder);
        tokio::time::sleep(MOMENT).await;
        call(&crowd, "late").await;
        for call in calls {
            call.await.unwrap();
        }
        let expected = ["crowd", "crowd", "crowd", "crowd", "single", "late"];
        assert_eq!(*order.lock().unwrap(), expected, "{expire:?}");
        assert_eq!((server.owner("k"), server.waiting()), (None, 0));
    }
}

/// Its wait ends while the attempt of a caller before it is not answered.
#[tokio::test(start_paused = true)]
async fn a_wait_in_which_nothing_was_answered_does_not_end_as_if_the_lock_were_taken() {
    let server = Server::new();
    let redlock = server.client();
    // That of the first caller, and that of the poller.
    server.next("acquire", [Fate::LostRequest; 2]);
    let patient = || tokio::spawn(redlock.lock("k").wait(5 * SECOND).acquire());
    let first = patient();
    tokio::time::sleep(MOMENT).await;
    let second = patient();
    tokio::time::sleep(2 * DIRECT_ATTEMPT).await;
    let error = redlock.lock("k").wait(SECOND / 10).acquire().await.map(drop).unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("no reply"), "{error}");
    for call in [first, second] {
        call.await.unwrap().unwrap().release().await.unwrap();
    }
}

/// A server on which answers take a while, and whose signals this client does not receive yet.
fn slow_and_unconnected() -> Arc<Server> {
    let server = Server::new();
    server.set_unconnected(true);
    server.next("acquire", vec![Fate::Slow(3 * MOMENT); 9]);
    server
}

/// To make the connection would take longer than the hold lasts.
#[tokio::test(start_paused = true)]
async fn a_caller_without_signals_asks_again_for_a_lock_that_is_held_briefly() {
    let server = slow_and_unconnected();
    let (holder, redlock) = (server.set("k", EXPIRE), server.client());
    let waiter = waits(&redlock).await;
    // Before the first answer.
    server.free(&holder);
    let guard = granted(waiter).await;
    assert_eq!(server.take_verbs(), ["acquire", "acquire"]);
    guard.release().await.unwrap();
    server.take_log();
    // The refusal is no reason to enqueue the next time.
    drop(holds(&redlock).await);
    assert_eq!(server.take_verbs()[0], "acquire");
}

#[tokio::test(start_paused = true)]
async fn a_caller_without_signals_enqueues_after_three_attempts_and_any_other_after_one() {
    let server = slow_and_unconnected();
    let (holder, redlock) = (server.set("k", EXPIRE), server.client());
    // It comes while the first one asks, and stands behind it.
    let waiters = [waits(&redlock).await, waits(&redlock).await];
    tokio::time::sleep(50 * MOMENT).await;
    assert_eq!(server.take_verbs(), ["acquire", "acquire", "acquire", "join"]);
    server.set_unconnected(false);
    let another = waits(&server.client()).await;
    tokio::time::sleep(50 * MOMENT).await;
    assert_eq!(server.take_verbs(), ["acquire", "join"]);
    server.free(&holder);
    for waiter in waiters {
        drop(granted(waiter).await);
    }
    drop(granted(another).await);
}

/// Others of its process do not wait for more than one question.
#[tokio::test(start_paused = true)]
async fn a_caller_without_signals_asks_again_only_while_others_wait_for_it() {
    let server = slow_and_unconnected();
    server.recovers("acquire");
    server.next("acquire", [Fate::Slow(DIRECT_ATTEMPT / 2)]);
    let holder = server.set("k", EXPIRE);
    let waiter = waits(&server.client()).await;
    tokio::time::sleep(50 * MOMENT).await;
    assert_eq!(server.take_verbs(), ["acquire", "join"]);
    server.free(&holder);
    drop(granted(waiter).await);
}

#[tokio::test(start_paused = true)]
async fn a_caller_without_signals_asks_no_more_once_its_wait_is_over() {
    let server = slow_and_unconnected();
    let (_holder, redlock) = (server.set("k", EXPIRE), server.client());
    let refused = redlock.lock("k").wait(Wait::AtMost(5 * MOMENT)).acquire().await;
    assert!(matches!(refused, Err(LockError::Timeout { attempts: 2, .. })), "{refused:?}");
    assert_eq!(server.take_verbs(), ["acquire", "acquire"]);
}

#[tokio::test(start_paused = true)]
async fn a_caller_without_signals_asks_no_more_once_a_shutdown_has_begun() {
    let server = slow_and_unconnected();
    let (_holder, redlock) = (server.set("k", EXPIRE), server.client());
    let waiter = waits(&redlock).await;
    redlock.shutdown(SECOND).await;
    let refused = waiter.await.unwrap();
    assert!(matches!(refused, Err(LockError::ShuttingDown { .. })), "{refused:?}");
    assert_eq!(server.take_verbs(), ["acquire"]);
}

/// What fails is tried once by the caller, once by the poller, and then after pauses.
#[tokio::test(start_paused = true)]
async fn a_caller_without_signals_asks_again_only_where_the_lock_is_held() {
    let server = slow_and_unconnected();
    server.recovers("acquire");
    server.next("acquire", vec![Fate::Refused(NodeErrorKind::Loading, false); 9]);
    let waiter = waits(&server.client()).await;
    assert_eq!(server.take_verbs(), ["acquire", "acquire"]);
    drop(granted(waiter).await);
}

/// Others would find it taken, as if another process had it.
#[tokio::test(start_paused = true)]
async fn a_lock_that_is_taken_back_is_released_before_others_ask_for_it() {
    let server = Server::new();
    let redlock = server.client();
    let holder = holds(&server.client()).await;
    let mut stalled = pin!(redlock.lock("k").expire(EXPIRE).wait(Wait::Forever).acquire());
    assert!(tokio::time::timeout(MOMENT, &mut stalled).await.is_err());
    let other = waits(&redlock).await;
    holder.release().await.unwrap();
    server.take_log();
    let guard = granted(other).await;
    assert_eq!(server.take_verbs(), ["release", "join"]);
    drop(guard);
    drop(stalled.await.unwrap());
}
