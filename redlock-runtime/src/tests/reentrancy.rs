//! Nested calls, and what they must not take for the lock that they hold.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::task::LocalSet;
use tokio::time::timeout;

use super::fake::{Fake, client, client_at, fake};
use crate::client::{LockRequest, Redlock};
use crate::error::{AlreadyHeldReason, LockError};
use crate::guard::LockGuard;
use crate::lease::Lease;
use crate::options::Wait;
use crate::state::{LostReason, Released};

const MOMENT: Duration = Duration::from_millis(1);

#[tokio::test(start_paused = true)]
async fn a_nested_call_re_enters_what_its_task_holds_however_deep() {
    let (redlock, fake) = fake();
    let nested = async {
        let outer = Lease::current().unwrap().fencing_token();
        let inner = redlock.lock("b").run(async {
            let again = redlock.lock("a").try_acquire().await.unwrap().unwrap();
            (again.key().to_owned(), again.fencing_token())
        });
        assert_eq!(inner.await.unwrap(), ("a".to_owned(), outer));
    };
    redlock.lock("a").run(nested).await.unwrap();
    let log = fake.take_log();
    let verbs: Vec<_> = log.iter().map(|line| line.rsplit_once(' ').unwrap().0).collect();
    assert_eq!(verbs, ["acquire a", "acquire b", "release b", "release a"]);
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_another_client_holds_is_not_re_entered() {
    let (redlock, fake) = fake();
    let other = client(Arc::clone(&fake) as Arc<_>, 100);
    let nested = async { other.lock("a").try_acquire().await.unwrap().is_none() };
    assert!(redlock.lock("a").run(nested).await.unwrap());
}

/// Polls other tasks on the thread of a body.
#[test]
fn a_task_that_a_body_polls_does_not_have_the_lock_of_the_body() {
    let redlock = client_at(Fake::new("fake"), 100, false);
    let other = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let tries = async |redlock: Redlock| {
        let (held, current) = (redlock.lock("k").try_acquire().await, Lease::current());
        (held.unwrap().is_some(), current.is_some())
    };
    let local = LocalSet::new();
    let body = async {
        let task = local.spawn_local(tries(redlock.clone()));
        let of_local_set = local.run_until(task).await.unwrap();
        let own = local.run_until(tries(redlock.clone())).await;
        let task = other.spawn(tries(redlock.clone()));
        let nested =
            || other.block_on(async { (task.await.unwrap(), tries(redlock.clone()).await) });
        let (of_runtime, inside) = tokio::task::block_in_place(nested);
        (of_local_set, of_runtime, own, inside)
    };
    let multi = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let seen = multi.block_on(redlock.lock("k").run(body)).unwrap();
    let (without, with) = ((false, false), (true, true));
    assert_eq!(seen, (without, without, with, with));
}

/// Tells which lock its destructor finds.
struct Found(mpsc::Sender<Option<String>>);

impl Drop for Found {
    fn drop(&mut self) {
        self.0.send(Lease::current().map(|lease| lease.key().to_owned())).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_cancelled_body_drops_sees_the_lease_of_the_body() {
    let (redlock, _fake) = fake();
    let inner = redlock.lock("inner").acquire().await.unwrap();
    let (sender, found) = mpsc::channel();
    let body = |found: Found| async move {
        std::future::pending::<()>().await;
        drop(found);
    };
    let cancelled = async {
        let protected = inner.protect(body(Found(sender.clone())));
        assert!(timeout(MOMENT, protected).await.is_err());
        let scoped = inner.lease().scope(body(Found(sender.clone())));
        assert!(timeout(MOMENT, scoped).await.is_err());
        let stopped = inner.protect(body(Found(sender.clone())));
        inner.lease().hold().lose_key(0, LostReason::Expired);
        assert!(stopped.await.unwrap_err().is_lost());
    };
    redlock.lock("outer").run(cancelled).await.unwrap();
    let inner = || Some("inner".to_owned());
    assert_eq!(found.try_iter().collect::<Vec<_>>(), [inner(), inner(), inner()]);
}

/// Takes a step under a lock when the locals of its thread are dropped.
struct AtThreadEnd(LockGuard, mpsc::Sender<bool>);

impl Drop for AtThreadEnd {
    fn drop(&mut self) {
        self.1.send(takes_a_step(&self.0)).unwrap();
    }
}

fn takes_a_step(guard: &LockGuard) -> bool {
    let body = pin!(guard.protect(async {}));
    body.poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(Ok(()))
}

/// A panic there would end the process.
#[test]
fn a_body_may_be_polled_while_the_locals_of_its_thread_are_dropped() {
    thread_local! {
        static END: RefCell<Option<AtThreadEnd>> = const { RefCell::new(None) };
    }
    let redlock = client_at(Fake::new("fake"), 100, false);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let guard = runtime.block_on(redlock.lock("k").acquire()).unwrap();
    let (sender, told) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        // What is used first is dropped last.
        END.with(|end| assert!(end.borrow().is_none()));
        assert!(takes_a_step(&guard));
        END.set(Some(AtThreadEnd(guard, sender)));
    });
    assert!(told.recv().unwrap());
    thread.join().unwrap();
}

/// It is told what is known of the outer hold, and does not release.
#[tokio::test(start_paused = true)]
async fn a_guard_that_re_entered_says_whether_the_lock_was_lost() {
    let (redlock, fake) = fake();
    let reentered = async |outer: &LockGuard| {
        outer.protect(redlock.lock("k").acquire()).await.unwrap().unwrap()
    };
    let acquire = || redlock.lock("k").expire(1000 * MOMENT).acquire();

    let outer = acquire().await.unwrap();
    assert_eq!(reentered(&outer).await.release().await.unwrap(), Released::Released);
    outer.check().unwrap();
    let inner = reentered(&outer).await;
    assert_eq!(outer.release().await.unwrap(), Released::Released);
    assert_eq!(inner.release().await.unwrap(), Released::Released);

    let outer = acquire().await.unwrap();
    let inner = reentered(&outer).await;
    fake.store.set("k", "thief", 60_000 * MOMENT);
    assert_eq!(outer.lost().await, LostReason::Stolen);
    assert_eq!(inner.release().await.unwrap(), Released::Stolen);
    fake.store.remove("k");
    drop(outer);

    let outer = acquire().await.unwrap();
    let inner = reentered(&outer).await;
    fake.store.remove("k");
    assert_eq!(outer.lost().await, LostReason::Expired);
    assert_eq!(inner.release().await.unwrap(), Released::Expired);

    let outer = redlock.lock("k").max_renew(0).acquire().await.unwrap();
    let inner = reentered(&outer).await;
    assert_eq!(outer.lost().await, LostReason::RenewalLimit);
    assert_eq!(inner.release().await.unwrap(), Released::Expired);
}

/// As in a process that was frozen past its lease, before anything else has run.
#[tokio::test(start_paused = true)]
async fn a_lease_that_is_over_by_the_clock_is_not_re_entered() {
    for wait in [Wait::Never, Wait::Forever] {
        let (redlock, _fake) = fake();
        let outer = redlock.lock("k").max_renew(0).run(async {
            let mut jump = pin!(tokio::time::advance(60_000 * MOMENT));
            let polled = poll_fn(|cx| Poll::Ready(jump.as_mut().poll(cx))).await;
            assert!(polled.is_pending());
            let again = redlock.lock("k").wait(wait).acquire().await;
            assert!(again.unwrap_err().is_lost());
        });
        outer.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn the_scope_of_an_old_lease_does_not_hide_what_the_task_holds() {
    let (redlock, _fake) = fake();
    let old = redlock.lock("k").run(async { Lease::current().unwrap() }).await.unwrap();
    let inside = old.scope(async {
        let current = redlock.lock("k").wait(Wait::Never).acquire().await.unwrap();
        assert!(current.fencing_token() > old.fencing_token());
        drop(current);
        redlock.lock("k").lead(async |_| {}).await.unwrap_err()
    });
    let refused = redlock.lock("k").run(Box::pin(inside)).await.unwrap();
    assert!(matches!(refused, LockError::AlreadyHeld { .. }), "{refused}");
}

/// The error says which of the ways out is the one for these two calls, and that way works.
#[tokio::test(start_paused = true)]
async fn the_advice_for_a_call_that_cannot_run_inside_of_another_works() {
    let redlock = Redlock::builder().memory().build().await.unwrap();
    let plain = || redlock.lock("k").wait(Wait::Never);
    let forms: [(&str, &dyn Fn() -> LockRequest); 4] = [
        ("plain", &plain),
        ("read", &|| plain().read()),
        ("2 permits", &|| plain().permits(2)),
        ("3 permits", &|| plain().permits(3)),
    ];
    let nested = async |outer: &dyn Fn() -> LockRequest, inner: &dyn Fn() -> LockRequest| {
        let inside = Box::pin(async { inner().acquire().await.map(drop) });
        outer().run(inside).await.unwrap()
    };
    let is_permit = |form: &str| form.ends_with("permits");
    let mut stronger = Vec::new();
    for (outside, outer) in forms {
        for (inside, inner) in forms {
            let Err(error) = nested(outer, inner).await else { continue };
            let LockError::AlreadyHeld { reason, .. } = error else { panic!("{error}") };
            let works_turned = nested(inner, outer).await.is_ok();
            if is_permit(outside) == is_permit(inside) {
                stronger.push((outside, inside));
                assert_eq!((reason, works_turned), (AlreadyHeldReason::Stronger, true), "{error}");
            } else {
                assert_eq!(
                    (reason, works_turned),
                    (AlreadyHeldReason::OtherKind, false),
                    "{error}"
                );
            }
        }
    }
    assert_eq!(stronger, [("read", "plain"), ("3 permits", "2 permits")]);
}
