//! Waiting, unknown outcomes, and callers that go away.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use super::fake::{Fate, SECOND, fake, fake_with};
use crate::error::{LockError, NodeErrorKind};
use crate::options::Wait;
use crate::state::LostReason;

#[tokio::test(start_paused = true)]
async fn wait_is_kept_and_ends_with_one_last_attempt() {
    let (redlock, fake) = fake();
    fake.store.set("k", "somebody", 60 * SECOND);
    let start = Instant::now();
    let error = redlock.lock("k").wait(5 * SECOND).acquire().await.unwrap_err();
    let LockError::Timeout { waited, holder, attempts, .. } = error else { panic!("{error}") };
    assert_eq!(holder.as_deref(), Some("somebody"));
    assert!(waited >= 5 * SECOND && start.elapsed() < 5 * SECOND + SECOND / 4, "{waited:?}");
    assert!(attempts > 4, "{attempts}");
}

#[tokio::test(start_paused = true)]
async fn a_lock_freed_at_the_last_moment_is_taken() {
    let (redlock, fake) = fake();
    // The lease ends 1 ms before the wait does: only the last attempt can see it.
    fake.store.set("k", "somebody", Duration::from_millis(4_999));
    let guard = redlock.lock("k").wait(5 * SECOND).acquire().await.unwrap();
    assert!(guard.check().is_ok());
}

#[tokio::test(start_paused = true)]
async fn no_wait_is_exactly_one_attempt() {
    let (redlock, fake) = fake();
    fake.store.set("k", "somebody", SECOND);
    assert!(redlock.lock("k").try_acquire().await.unwrap().is_none());
    assert_eq!(fake.take_log().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn forever_outlasts_every_lease() {
    let (redlock, fake) = fake();
    fake.store.set("k", "somebody", 3600 * SECOND);
    let start = Instant::now();
    let guard = redlock.lock("k").wait(Wait::Forever).acquire().await.unwrap();
    assert!(start.elapsed() >= 3600 * SECOND);
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_is_cleaned_up_and_its_owner_never_used_again() {
    let (redlock, fake) = fake();
    fake.next_acquires([Fate::LostReply]);
    let guard = redlock.lock("k").acquire().await.unwrap();
    let log = fake.take_log();
    let first = log[0].strip_prefix("acquire k ").unwrap();
    assert!(log.contains(&format!("release k {first}")), "{log:#?}");
    assert_ne!(guard.owner(), first);
    // The repeats of the clean-up must not touch the new holder's lock.
    tokio::time::sleep(5 * SECOND).await;
    assert_eq!(fake.store.owner("k").as_deref(), Some(guard.owner()));
    assert!(guard.check().is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_wait_leaves_no_lock_though_its_reply_was_lost() {
    let (redlock, fake) = fake();
    fake.next_acquires([Fate::LostReply]);
    let error = redlock.lock("k").wait(Wait::Never).acquire().await.unwrap_err();
    let LockError::Unavailable { nodes, .. } = &error else { panic!("{error}") };
    assert_eq!(nodes[0].kind(), NodeErrorKind::NoReply);
    assert_eq!(redlock.shutdown(SECOND).await, 0);
    assert_eq!(fake.store.owner("k"), None);
}

#[tokio::test(start_paused = true)]
async fn a_reader_behind_readers_is_told_that_another_call_came_before() {
    let (redlock, fake) = fake();
    fake.gives_notice();
    let request = || redlock.lock("k").wait(SECOND);
    let reader = request().read().acquire().await.unwrap();
    let error = request().acquire().await.unwrap_err().to_string();
    assert!(error.contains("held by 1 reader") && !error.contains("came before"), "{error}");
    let writer = tokio::spawn(request().wait(60 * SECOND).acquire());
    tokio::time::sleep(SECOND / 10).await;
    let error = request().read().acquire().await.unwrap_err().to_string();
    assert!(error.contains("held by 1 reader") && error.contains("came before"), "{error}");
    drop(reader);
    drop(writer.await.unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_fails_is_asked_again_until_the_wait_is_over() {
    let (redlock, fake) = fake();
    fake.next_acquires([Fate::Refused(NodeErrorKind::Loading, false); 3]);
    assert!(redlock.lock("k").acquire().await.is_ok());

    fake.next_acquires(vec![Fate::Refused(NodeErrorKind::Loading, false); 1000]);
    let start = Instant::now();
    let error = redlock.lock("other").wait(2 * SECOND).acquire().await.unwrap_err();
    assert!(matches!(error, LockError::Unavailable { .. }), "{error}");
    assert!(start.elapsed() <= 2 * SECOND + Duration::from_millis(10), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_time_cannot_mend_is_told_at_once() {
    let (redlock, fake) = fake();
    fake.next_acquires([Fate::Refused(NodeErrorKind::NoPermission, true)]);
    let start = Instant::now();
    let error = redlock.lock("k").acquire().await.unwrap_err();
    assert!(matches!(error, LockError::Unavailable { .. }), "{error}");
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn failures_are_followed_by_longer_and_longer_pauses() {
    let (redlock, fake) = fake();
    fake.always(Some(Fate::Refused(NodeErrorKind::Loading, false)));
    let error = redlock.lock("k").wait(5 * SECOND).acquire().await.unwrap_err();
    assert!(matches!(error, LockError::Unavailable { .. }), "{error}");
    // Up to 320 ms each, and half of that by chance.
    let asked = fake.take_log().len();
    assert!((15..=40).contains(&asked), "{asked}");
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_taken_in_the_moment_in_which_its_lease_ends() {
    let (redlock, fake) = fake();
    for key in ["a", "b", "c", "d", "e"] {
        let lease = 10 * SECOND;
        fake.store.set(key, "somebody", lease);
        let start = Instant::now();
        let guard = redlock.lock(key).wait(60 * SECOND).acquire().await.unwrap();
        let late = start.elapsed().saturating_sub(lease);
        assert!(late <= Duration::from_millis(2), "{late:?}");
        assert!(guard.waited() >= lease && guard.waited() <= start.elapsed());
        assert_eq!(guard.lease().waited(), guard.waited());
    }
}

/// What is known here may be wrong. The holder learns what the waiter finds.
#[tokio::test(start_paused = true)]
async fn a_waiter_asks_now_and_then_though_the_holder_is_in_its_own_process() {
    let (redlock, fake) = fake();
    let held = redlock.lock("k").acquire().await.unwrap();
    let waiting = tokio::spawn(redlock.lock("k").wait(Wait::Forever).acquire());
    tokio::time::sleep(SECOND).await;
    fake.store.remove("k");
    let start = Instant::now();
    drop(waiting.await.unwrap().unwrap());
    assert!(start.elapsed() < SECOND / 4, "{:?}", start.elapsed());
    assert_eq!(held.lease().lost().await, LostReason::Expired);
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_comes_too_late_is_given_back() {
    let (redlock, fake) = fake();
    fake.next_acquires([Fate::Slow(Duration::from_millis(95))]);
    let request = redlock.lock("k").expire(Duration::from_millis(100)).wait(Wait::Never);
    let error = request.acquire().await.unwrap_err();
    assert!(matches!(error, LockError::ExpireTooShort { .. }), "{error}");
    assert_eq!(fake.store.owner("k"), None);
}

/// A thread that stood still is no reason for an error, and a wait with an end goes on until then.
#[tokio::test(start_paused = true)]
async fn who_waits_for_ever_is_told_of_an_expire_that_is_always_too_short() {
    let (expire, slow) = (Duration::from_millis(100), Fate::Slow(Duration::from_millis(95)));
    let forever = Wait::Forever;
    // One attempt of the caller, and those of its poller.
    let calls = [(forever, 3, true), (forever, 40, false), (Wait::AtMost(30 * SECOND), 40, true)];
    for (wait, late, is_granted) in calls {
        let (redlock, fake) = fake();
        fake.next_acquires(vec![slow; late]);
        match redlock.lock("k").expire(expire).wait(wait).acquire().await {
            Ok(guard) => {
                assert!(is_granted && guard.check().is_ok(), "{wait:?}, {late}");
                guard.release().await.unwrap();
            }
            Err(LockError::ExpireTooShort { took, .. }) => {
                assert!(!is_granted && took < expire, "{wait:?}, {late}: {took:?}");
            }
            Err(error) => panic!("{error}"),
        }
        assert_eq!(fake.store.owner("k"), None);
    }
}

#[tokio::test(start_paused = true)]
async fn waiters_of_one_process_are_served_in_the_order_of_coming() {
    let (redlock, fake) = fake();
    let first = redlock.lock("k").acquire().await.unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut waiters = Vec::new();
    for n in 0..8 {
        let (redlock, order) = (redlock.clone(), Arc::clone(&order));
        waiters.push(tokio::spawn(async move {
            let guard = redlock.lock("k").wait(Wait::Forever).acquire().await.unwrap();
            order.lock().unwrap().push(n);
            tokio::time::sleep(Duration::from_millis(3)).await;
            guard.release().await.unwrap();
        }));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    fake.take_log();
    first.release().await.unwrap();
    for waiter in waiters {
        waiter.await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), (0..8).collect::<Vec<_>>());
    // One acquire and one release a hand-over: nobody polled while the lock was held here.
    let log = fake.take_log();
    assert!(log.len() <= 2 * 8 + 1, "{log:#?}");
}

#[tokio::test(start_paused = true)]
async fn waiters_are_bounded() {
    let (redlock, _fake) = fake_with(2);
    let _held = redlock.lock("k").acquire().await.unwrap();
    let wait = || {
        let request = redlock.lock("k").wait(60 * SECOND);
        tokio::spawn(request.acquire())
    };
    let (first, second) = (wait(), wait());
    tokio::time::sleep(SECOND).await;
    let error = redlock.lock("k").wait(SECOND).acquire().await.unwrap_err();
    assert_eq!(error, LockError::TooManyWaiters { key: "k".to_owned() });
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    tokio::time::sleep(SECOND).await;
    let error = redlock.lock("k").wait(SECOND).acquire().await.unwrap_err();
    assert!(matches!(error, LockError::Timeout { .. }), "{error}");
    second.abort();
}

#[tokio::test(start_paused = true)]
async fn dropping_an_acquire_at_any_time_leaves_nothing_behind() {
    for millis in 0..40 {
        let (redlock, fake) = fake();
        fake.next_acquires([
            Fate::Slow(Duration::from_millis(10)),
            Fate::Slow(Duration::from_millis(10)),
        ]);
        if millis % 2 == 0 {
            fake.store.set("k", "somebody", Duration::from_millis(15));
        }
        {
            let mut acquire = pin!(redlock.lock("k").acquire());
            let patience = Duration::from_millis(millis);
            let _ = tokio::time::timeout(patience, &mut acquire).await;
        }
        tokio::time::sleep(SECOND).await;
        assert_eq!(fake.store.owner("k"), None, "dropped after {millis} ms");
        assert!(redlock.held().is_empty());
    }
}
