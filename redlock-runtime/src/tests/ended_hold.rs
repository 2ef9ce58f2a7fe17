//! Calls that begin inside of a hold that has ended: they are told so, and take no lock of their
//! own, unless they never re-enter one.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use super::fake::{Fake, MINUTE, client_at, fake};
use crate::blocking::block_on;
use crate::call::{Spec, client, convert};
use crate::client::Redlock;
use crate::error::LockError;
use crate::guard::LockGuard;
use crate::key::{Key, display_keys, literal_key};
use crate::lease::Lease;
use crate::options::Wait;
use crate::state::LostReason;

/// A function with the attribute.
async fn locked(redlock: &Redlock, spec: Spec, key: Key) -> Result<(), LockError> {
    let body = convert(async { Ok(()) });
    body.__redlock_lock(spec.wait(Wait::Never), key, client(redlock)).await
}

/// A call of each form that re-enters what its task holds.
async fn each_call(redlock: &Redlock) -> Vec<Result<(), LockError>> {
    let one = || redlock.lock("k").wait(Wait::Never);
    let all = |keys: &[&str]| redlock.lock_all(keys).wait(Wait::Never);
    let spec = Spec::new("k");
    vec![
        one().acquire().await.map(drop),
        one().try_acquire().await.map(drop),
        one().run(async {}).await,
        one().read().acquire().await.map(drop),
        one().permits(2).acquire().await.map(drop),
        all(&["a", "k"]).acquire().await.map(drop),
        all(&["k"]).run(async {}).await,
        locked(redlock, spec, literal_key("k")).await,
        locked(redlock, spec.read(), literal_key("k")).await,
        locked(redlock, spec.permits(2), literal_key("k")).await,
        locked(redlock, spec, display_keys(["a", "k"])).await,
    ]
}

/// Lets time pass before anything can notice it, as in a process that was frozen.
async fn freeze() {
    let mut jump = pin!(tokio::time::advance(MINUTE));
    assert!(poll_fn(|cx| Poll::Ready(jump.as_mut().poll(cx).is_pending())).await);
}

#[tokio::test(start_paused = true)]
async fn a_call_inside_of_it_is_told_how_it_ended() {
    for (reason, is_noticed) in [
        (LostReason::Released, true),
        (LostReason::Stolen, true),
        (LostReason::RenewalLimit, true),
        (LostReason::RenewalLimit, false),
    ] {
        let (redlock, fake) = fake();
        let guard = redlock.lock("k").max_renew(0).acquire().await.unwrap();
        let lease = guard.lease().clone();
        fake.take_log();
        let (inside, mut guard) = (lease.clone(), Some(guard));
        inside
            .scope(async {
                match reason {
                    LostReason::Released => drop(guard.take().unwrap().release().await.unwrap()),
                    LostReason::Stolen => _ = lease.hold().lose(reason),
                    _ if is_noticed => assert_eq!(lease.lost().await, reason),
                    _ => freeze().await,
                }
                for (number, told) in each_call(&redlock).await.into_iter().enumerate() {
                    let Err(LockError::Lost { key, reason: told, .. }) = told else {
                        panic!("{reason:?}, call {number}: {told:?}")
                    };
                    assert_eq!((&*key, told), ("k", reason), "call {number}");
                }
            })
            .await;
        drop(guard);
        let log = fake.take_log();
        assert!(!log.iter().any(|line| line.starts_with("acquire")), "{reason:?}: {log:?}");
    }
}

/// It comes back after the longest hold, but had renewals left.
#[tokio::test(start_paused = true)]
async fn a_frozen_process_has_not_used_its_renewals_up() {
    let (redlock, _fake) = fake();
    let expire = MINUTE / 60;
    let guard = redlock.lock("k").expire(expire).max_renew(3).acquire().await.unwrap();
    let lease = guard.lease().clone();
    lease
        .scope(async {
            freeze().await;
            let error = redlock.lock("k").acquire().await.unwrap_err();
            let LockError::Lost { reason, .. } = error else { panic!("{error}") };
            assert_eq!(reason, LostReason::Expired);
        })
        .await;
}

/// The release that follows counts on it.
#[tokio::test(start_paused = true)]
async fn no_renewal_begins_after_it() {
    let (redlock, fake) = fake();
    let guard = redlock.lock("k").acquire().await.unwrap();
    let lease = guard.lease().clone();
    let (hold, now, mut claims) = (lease.hold(), redlock.engine().clock().now(), Vec::new());
    assert!(hold.begin_renewal(now.plus(MINUTE), &mut claims));
    drop(guard);
    let end = hold.server_end();
    assert!(end > now.plus(MINUTE) && fake.store.owner("k").is_none());
    assert!(!hold.begin_renewal(now.plus(2 * MINUTE), &mut claims));
    assert_eq!((claims.len(), hold.server_end()), (1, end));
}

/// The body blocks its thread until the lease is over: that is noticed first by the call.
#[test]
fn a_blocking_call_inside_of_it_is_told_as_well() {
    let redlock = client_at(Fake::new("fake"), 100, false);
    let body = async {
        let lease = Lease::current().unwrap();
        lease.hold().lose(LostReason::Expired);
        let called = redlock.lock("k").acquire_blocking().map(drop).unwrap_err();
        let tried = redlock.lock("k").try_acquire_blocking().map(drop).unwrap_err();
        assert!(called.is_lost() && tried.is_lost(), "{called}; {tried}");
    };
    block_on(redlock.lock("k").run(body)).unwrap();
}

#[tokio::test(start_paused = true)]
async fn other_keys_and_other_clients_have_nothing_to_do_with_it() {
    let (redlock, fake) = fake();
    let other = client_at(Arc::clone(&fake) as Arc<_>, 100, true);
    let guard = redlock.lock_all(["k", "l"]).acquire().await.unwrap();
    let lease = guard.lease().clone();
    guard.release().await.unwrap();
    let inside = lease.scope(async {
        drop(redlock.lock("m").acquire().await.unwrap());
        drop(other.lock("l").acquire().await.unwrap());
        let told = redlock.lock("l").acquire().await.unwrap_err();
        assert!(matches!(told, LockError::Lost { reason: LostReason::Released, .. }), "{told}");
    });
    inside.await;
    drop(redlock.lock("l").acquire().await.unwrap());
}

/// They would not have re-entered it while it held either.
#[tokio::test(start_paused = true)]
async fn calls_that_re_enter_nothing_take_a_lock_of_their_own() {
    let (redlock, _fake) = fake();
    let guard = redlock.lock("k").acquire().await.unwrap();
    let (lease, mut guard) = (guard.lease().clone(), Some(guard));
    let strict = || locked(&redlock, Spec::new("k").not_reentrant(), literal_key("k"));
    let strict_keys = || locked(&redlock, Spec::new("k").not_reentrant(), display_keys(["a", "k"]));
    let inside = lease.scope(async {
        let refused = strict().await.unwrap_err();
        assert!(matches!(refused, LockError::AlreadyHeld { .. }), "{refused}");
        guard.take().map(LockGuard::release).unwrap().await.unwrap();
        strict().await.unwrap();
        strict_keys().await.unwrap();
        let term = redlock.lock("k").lead(async |term: Lease| term.fencing_token());
        assert!(term.await.unwrap() > lease.fencing_token());
    });
    inside.await;
}

/// Whether or not anything has noticed that the inner one is over.
#[tokio::test(start_paused = true)]
async fn a_hold_around_it_that_goes_on_is_re_entered() {
    for is_noticed in [true, false] {
        let (redlock, fake) = fake();
        let old = redlock.lock("k").max_renew(0).acquire().await.unwrap();
        let lease = old.lease().clone();
        fake.store.remove("k");
        let request = redlock.lock("k").expire(60 * MINUTE);
        let own = request.try_acquire().await.unwrap().unwrap();
        let inside = lease.scope(async {
            if is_noticed {
                lease.lost().await;
            } else {
                freeze().await;
            }
            assert_eq!(lease.hold().is_over(), is_noticed);
            let again = redlock.lock("k").wait(Wait::Never).acquire().await.unwrap();
            assert_eq!(again.fencing_token(), own.fencing_token());
        });
        own.protect(inside).await.unwrap();
    }
}
