//! Renewal, doubt, loss, and the stop of the body.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::fake::{Fate, fake};
use super::server::Server;
use crate::clock::Clock;
use crate::error::{LockError, NodeErrorKind};
use crate::lease::Lease;
use crate::state::{LeaseState, LostReason};

const EXPIRE: Duration = Duration::from_secs(10);

fn lost(error: &LockError) -> LostReason {
    let LockError::Lost { reason, .. } = error else { panic!("{error}") };
    *reason
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_for_as_long_as_its_body_runs() {
    let (redlock, _fake) = fake();
    let start = Instant::now();
    let renewals = redlock.lock("k").expire(EXPIRE).run(async {
        tokio::time::sleep(100 * EXPIRE).await;
        Lease::current().unwrap().renewals()
    });
    assert_eq!(renewals.await.unwrap(), 149);
    assert!(start.elapsed() >= 100 * EXPIRE);
    assert!(redlock.held().is_empty());
}

/// By the script that ships, in one call.
#[tokio::test(start_paused = true)]
async fn leases_that_are_due_together_are_all_renewed() {
    let server = Server::new();
    let redlock = server.client();
    let mut guards = Vec::new();
    for key in ["a", "b", "c"] {
        guards.push(redlock.lock(key).expire(EXPIRE).acquire().await.unwrap());
    }
    tokio::time::sleep(3 * EXPIRE).await;
    for guard in &guards {
        assert_eq!((guard.check(), guard.renewals()), (Ok(()), 4), "{}", guard.key());
        assert_eq!(server.owner(guard.key()).as_deref(), Some(guard.owner()));
    }
    let renewals = server.take_verbs().iter().filter(|verb| *verb == "renew").count();
    assert_eq!(renewals, 4, "calls");
}

/// The scheduler sleeps until the long one is due, and is woken for the short one.
#[tokio::test(start_paused = true)]
async fn a_short_lease_does_not_wait_for_a_long_one() {
    let (redlock, _fake) = fake();
    let _long = redlock.lock("long").expire(10 * EXPIRE).acquire().await.unwrap();
    tokio::time::sleep(EXPIRE / 10).await;
    let short = redlock.lock("short").expire(EXPIRE / 10).acquire().await.unwrap();
    tokio::time::sleep(EXPIRE).await;
    assert!(short.check().is_ok());
    assert!(short.renewals() >= 10, "{}", short.renewals());
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_is_refused_is_tried_again_soon_also_for_a_short_lease() {
    let (redlock, fake) = fake();
    let refused = Fate::Refused(NodeErrorKind::Loading, false);
    fake.next_renews([refused; 3]);
    let guard = redlock.lock("k").expire(EXPIRE / 10).acquire().await.unwrap();
    tokio::time::sleep(EXPIRE / 10).await;
    assert_eq!((guard.state(), guard.renewals()), (LeaseState::Held, 1));
}

/// Renewals that are tried again are sent late; the longest hold is the same.
#[tokio::test(start_paused = true)]
async fn late_renewals_do_not_stretch_the_longest_hold() {
    let (redlock, fake) = fake();
    fake.next_renews([Fate::LostRequest; 2]);
    let start = Instant::now();
    let request = redlock.lock("k").expire(EXPIRE).max_renew(3);
    let error = request.run(std::future::pending::<()>()).await.unwrap_err();
    assert_eq!(lost(&error), LostReason::RenewalLimit);
    let longest = 3 * 6_667 + 9_398;
    let held = start.elapsed().as_millis();
    assert!((longest - 20..=longest).contains(&held), "{held}");
}

/// Each renewal is two tries late; when the longest hold is over, one of them is left.
#[tokio::test(start_paused = true)]
async fn the_longest_hold_is_a_limit_though_not_every_renewal_was_made() {
    let (redlock, fake) = fake();
    for _ in 0..4 {
        fake.next_renews([Fate::LostRequest, Fate::LostRequest, Fate::Slow(Duration::ZERO)]);
    }
    fake.next_renews([Fate::LostRequest; 9]);
    let request = redlock.lock("k").expire(EXPIRE).max_renew(5);
    let error = request.run(std::future::pending::<()>()).await.unwrap_err();
    let LockError::Lost { reason, renewals, .. } = error else { panic!("{error}") };
    assert_eq!((reason, renewals), (LostReason::RenewalLimit, 4));
}

#[tokio::test(start_paused = true)]
async fn the_body_is_stopped_when_its_renewals_are_used_up() {
    for (max_renew, longest) in [(0, 9_398), (5, 5 * 6_667 + 9_398)] {
        let (redlock, fake) = fake();
        let start = Instant::now();
        let request = redlock.lock("k").expire(EXPIRE).max_renew(max_renew);
        let error = request.run(std::future::pending::<()>()).await.unwrap_err();
        assert_eq!(lost(&error), LostReason::RenewalLimit);
        let LockError::Lost { renewals, .. } = error else { unreachable!() };
        assert_eq!(renewals, max_renew);
        let held = start.elapsed();
        let longest = Duration::from_millis(longest);
        // The timer has a granularity of a millisecond, per renewal.
        assert!(held + Duration::from_millis(10) >= longest, "{held:?}");
        assert!(held <= longest + Duration::from_millis(10), "{held:?}");
        // The next waiter gets the lock at once, not when the lease ends on the server.
        assert_eq!(fake.store.owner("k"), None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_renewal_without_an_answer_is_doubt_and_its_retry_mends_it() {
    let (redlock, fake) = fake();
    let guard = redlock.lock("k").expire(EXPIRE).acquire().await.unwrap();
    fake.next_renews([Fate::LostReply, Fate::Refused(NodeErrorKind::Unreachable, false)]);
    tokio::time::sleep(Duration::from_millis(7_600)).await;
    assert_eq!(guard.state(), LeaseState::Uncertain);
    assert!(guard.check().is_ok());
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(guard.state(), LeaseState::Held);
    assert_eq!(guard.renewals(), 1);
}

#[tokio::test(start_paused = true)]
async fn without_any_answer_the_body_stops_before_the_lease_can_end() {
    let (redlock, fake) = fake();
    fake.next_renews([Fate::LostRequest; 50]);
    let start = Instant::now();
    let body = std::future::pending::<()>();
    let error = redlock.lock("k").expire(EXPIRE).run(body).await.unwrap_err();
    assert_eq!(lost(&error), LostReason::Unreachable);
    let held = start.elapsed();
    assert!(held < EXPIRE && held >= Duration::from_millis(9_300), "{held:?}");
}

/// Without its driver nothing but the check itself ends a lease.
#[tokio::test(start_paused = true)]
async fn the_check_fails_from_the_very_moment_at_which_nothing_remains() {
    let (redlock, _fake) = fake();
    let guard = redlock.lock("k").expire(EXPIRE).acquire().await.unwrap();
    let scheduler = redlock.engine().scheduler();
    for hold in scheduler.of_client(redlock.engine().id) {
        scheduler.forget(&hold);
    }
    let last = Duration::from_nanos(1);
    tokio::time::advance(guard.remaining().saturating_sub(last)).await;
    assert_eq!((guard.check(), guard.remaining()), (Ok(()), last));
    assert!(!guard.lease().hold().has_only_run_out());
    tokio::time::advance(last).await;
    assert_eq!(lost(&guard.check().unwrap_err()), LostReason::Expired);
    assert!(guard.lease().hold().has_only_run_out());
}

#[tokio::test(start_paused = true)]
async fn an_answer_after_the_stop_does_not_bring_the_lease_back() {
    let (redlock, fake) = fake();
    let expire = Duration::from_millis(100);
    let guard = redlock.lock("k").expire(expire).acquire().await.unwrap();
    // Within the reply window (20 ms), but the window of this lease closes first.
    fake.next_renews([Fate::LostRequest, Fate::Slow(Duration::from_millis(15))]);
    assert_eq!(guard.lost().await, LostReason::Unreachable);
    tokio::time::sleep(expire / 4).await;
    assert_eq!(lost(&guard.check().unwrap_err()), LostReason::Unreachable);
    assert_eq!((guard.state(), guard.remaining()), (LeaseState::Lost, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_gone_or_stolen_is_a_loss_at_the_next_renewal() {
    let (redlock, fake) = fake();
    for (key, owner, reason) in
        [("gone", None, LostReason::Expired), ("stolen", Some("thief"), LostReason::Stolen)]
    {
        let guard = redlock.lock(key).expire(EXPIRE).acquire().await.unwrap();
        match owner {
            None => fake.store.remove(key),
            Some(owner) => fake.store.set(key, owner, 10 * EXPIRE),
        }
        let start = Instant::now();
        assert_eq!(guard.lost().await, reason);
        assert!(start.elapsed() < Duration::from_millis(6_700));
        assert!(!guard.lease().hold().has_only_run_out(), "its renewal has found that");
        // The thief keeps what it has.
        drop(guard);
        assert_eq!(fake.store.owner(key).as_deref(), owner);
    }
}

#[tokio::test(start_paused = true)]
async fn a_frozen_process_takes_no_step_more() {
    let (redlock, fake) = fake();
    let steps = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&steps);
    // Renewals stop together with everything else: the whole process is frozen.
    fake.next_renews([Fate::LostRequest; 9]);
    let body = async move {
        loop {
            counted.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            // What SIGSTOP does: the clock goes on, nothing runs.
            if counted.load(Ordering::Relaxed) == 3 {
                tokio::time::advance(2 * EXPIRE).await;
            }
        }
    };
    let error = redlock.lock("k").expire(EXPIRE).run(body).await.unwrap_err();
    assert!(matches!(error, LockError::Lost { .. }), "{error}");
    // The third step was under way; the fourth never began.
    assert_eq!(steps.load(Ordering::Relaxed), 3);
}

/// The lock of several keys is renewed by its caller as well, before that has all of them.
#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_after_a_later_one_does_not_bring_the_stop_forward() {
    let (redlock, _fake) = fake();
    let guard = redlock.lock("k").expire(EXPIRE).acquire().await.unwrap();
    let (hold, clock) = (guard.lease().hold(), redlock.engine().clock());
    tokio::time::advance(EXPIRE / 4).await;
    let earlier = clock.now();
    tokio::time::advance(EXPIRE / 4).await;
    hold.extend(clock.now());
    let stop = hold.stop_at();
    hold.extend(earlier);
    assert_eq!(hold.stop_at(), stop);
}

#[tokio::test(start_paused = true)]
async fn when_the_driver_dies_every_lease_is_told_and_the_next_one_is_served() {
    let (redlock, fake) = fake();
    let first = redlock.lock("a").expire(EXPIRE).acquire().await.unwrap();
    let second = redlock.lock("b").expire(EXPIRE).acquire().await.unwrap();
    redlock.engine().scheduler().kill_driver();
    assert_eq!(first.lost().await, LostReason::Unreachable);
    assert_eq!(second.lost().await, LostReason::Unreachable);
    drop((first, second));
    let third = redlock.lock("a").expire(EXPIRE).acquire().await.unwrap();
    tokio::time::sleep(3 * EXPIRE).await;
    assert!(third.check().is_ok() && third.renewals() >= 4);
    drop(fake);
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_panics_is_a_renewal_without_an_answer() {
    let (redlock, fake) = fake();
    fake.next_renews([Fate::Panic]);
    let guard = redlock.lock("k").expire(EXPIRE).acquire().await.unwrap();
    assert!(matches!(guard.lost().await, LostReason::Expired | LostReason::Unreachable));
    // The others go on.
    let other = redlock.lock("other").expire(EXPIRE).acquire().await.unwrap();
    tokio::time::sleep(3 * EXPIRE).await;
    assert!(other.check().is_ok());
}

#[tokio::test(start_paused = true)]
async fn how_long_a_lock_was_held_is_counted_from_its_grant_to_its_end() {
    let (redlock, _fake) = fake();
    let start = Clock::Tokio.now();
    let guard = redlock.lock("k").expire(EXPIRE).acquire().await.unwrap();
    let hold = redlock.engine().held().pop().unwrap();
    tokio::time::sleep(3 * EXPIRE).await;
    let held_for = Clock::Tokio.now().since(start);
    assert_eq!(redlock.held()[0].held_for(), held_for);
    guard.release().await.unwrap();
    tokio::time::sleep(EXPIRE).await;
    assert_eq!(hold.held_for(), held_for);
}

#[tokio::test(start_paused = true)]
async fn a_released_lock_is_never_renewed_again() {
    let (redlock, fake) = fake();
    let guard = redlock.lock("k").expire(EXPIRE).acquire().await.unwrap();
    tokio::time::sleep(EXPIRE).await;
    guard.release().await.unwrap();
    fake.take_log();
    tokio::time::sleep(10 * EXPIRE).await;
    assert_eq!(fake.take_log(), Vec::<String>::new());
}

/// The short lease is too short for such a server. The long one is not.
#[tokio::test(start_paused = true)]
async fn a_long_lease_is_not_renewed_in_the_time_of_a_short_one() {
    let (redlock, fake) = fake();
    let long = redlock.lock("long").expire(3 * EXPIRE).acquire().await.unwrap();
    fake.always(Some(Fate::Slow(Duration::from_millis(30))));
    let grants = Arc::<AtomicU32>::default();
    let granted = Arc::clone(&grants);
    let short = tokio::spawn(async move {
        loop {
            let request = redlock.lock("short").expire(Duration::from_millis(200));
            if let Ok(guard) = request.acquire().await {
                granted.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(300)).await;
                drop(guard);
            }
        }
    });
    tokio::time::sleep(12 * EXPIRE).await;
    assert_eq!(long.state(), LeaseState::Held);
    assert!(grants.load(Ordering::Relaxed) > 9, "{grants:?}");
    short.abort();
}
