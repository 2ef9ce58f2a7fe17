//! Calls that re-enter one hold: they take turns, and never wait for what they are inside of.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::fake::{SECOND, fake};
use crate::client::Redlock;
use crate::error::LockError;
use crate::lease::Lease;
use crate::options::Wait;
use crate::state::LostReason;

/// Polls all of them, in their order, until all are done.
async fn join_all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut futures: Vec<_> = futures.map(Box::pin).collect();
    let mut outputs: Vec<_> = futures.iter().map(|_| None).collect();
    poll_fn(|cx| {
        for (future, output) in futures.iter_mut().zip(&mut outputs) {
            if output.is_none()
                && let Poll::Ready(done) = future.as_mut().poll(cx)
            {
                *output = Some(done);
            }
        }
        if outputs.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    outputs.into_iter().flatten().collect()
}

/// A stock that is read, and written back after a while.
#[derive(Debug, Clone, Default)]
struct Stock(Arc<AtomicU32>);

impl Stock {
    async fn sell(&self, redlock: &Redlock) -> Result<(), LockError> {
        let deal = async {
            let left = self.0.load(Ordering::SeqCst);
            tokio::time::sleep(SECOND).await;
            self.0.store(left + 1, Ordering::SeqCst);
        };
        redlock.lock("k").wait(30 * SECOND).run(deal).await
    }

    fn sold(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

#[tokio::test(start_paused = true)]
async fn joined_calls_take_turns() {
    let (redlock, _fake) = fake();
    let stock = Stock::default();
    let outer = redlock.lock("k").run(async {
        let calls = join_all((0..5).map(|_| stock.sell(&redlock))).await;
        assert!(calls.iter().all(Result::is_ok), "{calls:?}");
    });
    outer.await.unwrap();
    assert_eq!(stock.sold(), 5);
}

#[tokio::test(start_paused = true)]
async fn tasks_in_the_scope_of_a_lease_take_turns() {
    let (redlock, _fake) = fake();
    let stock = Stock::default();
    let tasks = |lease: &Lease| {
        let task = |_| {
            let (stock, redlock) = (stock.clone(), redlock.clone());
            let sells = async move { stock.sell(&redlock).await };
            tokio::spawn(lease.scope(sells))
        };
        join_all((0..3).map(task).collect::<Vec<_>>().into_iter())
    };
    let inside = async {
        let lease = Lease::current().unwrap();
        let sold = tasks(&lease).await;
        assert!(sold.into_iter().all(|sold| sold.unwrap().is_ok()));
    };
    redlock.lock("k").run(inside).await.unwrap();
    assert_eq!(stock.sold(), 3);
    // The same with the lease of a guard, outside of any locked body.
    let guard = redlock.lock("k").acquire().await.unwrap();
    let sold = tasks(guard.lease()).await;
    assert!(sold.into_iter().all(|sold| sold.unwrap().is_ok()));
    assert_eq!(stock.sold(), 6);
}

#[tokio::test(start_paused = true)]
async fn bodies_side_by_side_under_one_guard_have_children_that_take_turns() {
    let (redlock, _fake) = fake();
    let stock = Stock::default();
    let guard = redlock.lock("k").acquire().await.unwrap();
    let body = || guard.protect(stock.sell(&redlock));
    let (one, two) = tokio::join!(body(), body());
    assert!(one.unwrap().is_ok() && two.unwrap().is_ok());
    assert_eq!(stock.sold(), 2);
}

/// Also below siblings, also where another lock is between, and in a task that the call spawns.
#[tokio::test(start_paused = true)]
async fn a_nested_call_does_not_wait_for_its_parents() {
    let (redlock, _fake) = fake();
    let again = || redlock.lock("k").wait(Wait::Never);
    let deep = || {
        Box::pin(again().wait(10 * SECOND).run(async {
            tokio::time::sleep(SECOND).await;
            let below = redlock.lock("other").run(async {
                again().run(async { again().run(async {}).await.unwrap() }).await.unwrap();
            });
            Box::pin(below).await.unwrap();
            let lease = Lease::current().unwrap();
            let inside = redlock.clone();
            let task = async move {
                let far = async move { inside.lock("k").wait(Wait::Never).run(async {}).await };
                lease.scope(far).await
            };
            tokio::spawn(task).await.unwrap().unwrap();
        }))
    };
    let (one, two) = redlock.lock("k").run(async { tokio::join!(deep(), deep()) }).await.unwrap();
    one.unwrap();
    two.unwrap();
}

#[tokio::test(start_paused = true)]
async fn turns_come_in_the_order_of_the_calls() {
    let (redlock, _fake) = fake();
    let order = std::sync::Mutex::new(Vec::new());
    let call = |name| {
        let (redlock, order) = (&redlock, &order);
        async move {
            let turn = async {
                order.lock().unwrap().push(name);
                tokio::time::sleep(SECOND).await;
            };
            redlock.lock("k").wait(30 * SECOND).run(turn).await.unwrap();
        }
    };
    redlock.lock("k").run(join_all((0..4).map(call))).await.unwrap();
    assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_re_entered_has_a_turn_until_it_is_dropped() {
    let (redlock, _fake) = fake();
    let request = || redlock.lock("k").wait(10 * SECOND);
    let inside = async {
        let guard = request().acquire().await.unwrap();
        assert!(request().try_acquire().await.unwrap().is_none());
        // What it calls itself does not wait for it.
        guard.protect(async { request().wait(Wait::Never).run(async {}).await }).await??;
        let started = Instant::now();
        let letting_go = async {
            tokio::time::sleep(SECOND).await;
            guard.release().await.unwrap();
        };
        let (next, ()) = tokio::join!(request().acquire(), letting_go);
        assert_eq!(started.elapsed(), SECOND);
        drop(next?);
        request().try_acquire().await.map(|guard| assert!(guard.is_some()))
    };
    redlock.lock("k").run(inside).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_scope_carries_no_other_lock_into_a_task() {
    let (redlock, _fake) = fake();
    let inside = async {
        let guard = redlock.lock("k").acquire().await.unwrap();
        let far = redlock.clone();
        let task = async move {
            let other = far.lock("other").try_acquire().await.unwrap();
            let own = far.lock("k").try_acquire().await.unwrap();
            (other.is_some(), own.is_some())
        };
        tokio::spawn(guard.lease().scope(task)).await.unwrap()
    };
    assert_eq!(redlock.lock("other").run(inside).await.unwrap(), (false, true));
}

#[tokio::test(start_paused = true)]
async fn what_a_task_holds_is_found_below_a_guard_or_a_scope_from_before() {
    let (redlock, _fake) = fake();
    let again = || redlock.lock("other").wait(Wait::Never).run(async {});
    let inside = async {
        let guard = redlock.lock("k").acquire().await.unwrap();
        redlock.lock("other").run(guard.protect(again())).await
    };
    redlock.lock("k").run(Box::pin(inside)).await.unwrap().unwrap().unwrap().unwrap();
    let guard = redlock.lock("k").acquire().await.unwrap();
    redlock.lock("other").run(guard.lease().scope(again())).await.unwrap().unwrap();
}

/// Of the call that has the lease, or of the one that polls it if that is a child.
#[tokio::test(start_paused = true)]
async fn a_call_in_a_scope_does_not_wait_for_the_call_of_the_scope() {
    let (redlock, _fake) = fake();
    let again = || {
        let redlock = redlock.clone();
        async move { redlock.lock("k").wait(Wait::Never).run(async {}).await }
    };
    let inside = async {
        let outer = Lease::current().unwrap();
        let guard = redlock.lock("k").acquire().await.unwrap();
        guard.lease().scope(again()).await.unwrap();
        tokio::spawn(guard.lease().scope(again())).await.unwrap().unwrap();
        guard.protect(outer.scope(again())).await.unwrap().unwrap();
        tokio::spawn(guard.lease().scope(outer.scope(again()))).await.unwrap().unwrap();
        // It has begun outside of the guard.
        let (door, opened) = tokio::sync::oneshot::channel();
        let mut late = Box::pin(outer.scope(async {
            opened.await.unwrap();
            again().await
        }));
        let polled = poll_fn(|cx| Poll::Ready(late.as_mut().poll(cx))).await;
        assert!(polled.is_pending());
        door.send(()).unwrap();
        guard.protect(late).await.unwrap().unwrap();
    };
    redlock.lock("k").run(inside).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lease_of_a_call_that_is_over_has_its_turn_like_any_other() {
    let (redlock, _fake) = fake();
    let inside = async {
        let over = redlock.lock("k").acquire().await.unwrap();
        let lease = over.lease().clone();
        drop(over);
        let _sibling = redlock.lock("k").acquire().await.unwrap();
        let far = redlock.clone();
        let task = async move { far.lock("k").try_acquire().await.unwrap().is_some() };
        tokio::spawn(lease.scope(task)).await.unwrap()
    };
    assert!(!redlock.lock("k").run(inside).await.unwrap(), "two siblings side by side");
}

/// Whether those inside of it have begun when it ends, wait for their turn, or begin afterwards.
#[tokio::test(start_paused = true)]
async fn the_turn_of_a_call_lasts_for_as_long_as_calls_inside_of_it() {
    for (is_cut, inside) in [(false, 1), (true, 1), (false, 2), (true, 2)] {
        let (redlock, _fake) = fake();
        let (stock, mut tasks) = (Stock::default(), Vec::new());
        let spawn = |pause| {
            let (stock, redlock) = (stock.clone(), redlock.clone());
            let sells = async move {
                tokio::time::sleep(pause).await;
                stock.sell(&redlock).await
            };
            tokio::spawn(Lease::current().unwrap().scope(sells))
        };
        let outer = async {
            let first = redlock.lock("k").run(async {
                tasks.extend((0..inside).map(|_| spawn(Duration::ZERO)));
                tasks.push(spawn(SECOND * 3 / 4));
                tokio::time::sleep(SECOND / 2).await;
                if is_cut {
                    std::future::pending::<()>().await;
                }
            });
            assert_eq!(timeout(SECOND * 2 / 3, first).await.is_err(), is_cut);
            stock.sell(&redlock).await.unwrap();
            for task in tasks {
                task.await.unwrap().unwrap();
            }
        };
        redlock.lock("k").run(Box::pin(outer)).await.unwrap();
        assert_eq!(stock.sold(), inside + 2, "{inside} inside, cut: {is_cut}");
    }
}

/// It has the turn of that call; what it calls itself does not wait for it.
#[tokio::test(start_paused = true)]
async fn a_guard_may_outlive_the_call_that_it_is_inside_of() {
    let (redlock, _fake) = fake();
    let again = || redlock.lock("k").wait(Wait::Never);
    let inside = async {
        let guard = again().run(again().acquire()).await.unwrap().unwrap();
        assert!(again().try_acquire().await.unwrap().is_none());
        guard.protect(again().run(async {})).await.unwrap().unwrap();
        let far = again();
        let task = async move { far.run(async {}).await };
        tokio::spawn(guard.lease().scope(task)).await.unwrap().unwrap();
        drop(guard);
        assert!(again().try_acquire().await.unwrap().is_some());
    };
    redlock.lock("k").run(Box::pin(inside)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_sibling_that_is_not_polled_costs_its_brother_the_wait() {
    let (redlock, _fake) = fake();
    let inside = async {
        let mut stalled = pin!(redlock.lock("k").run(std::future::pending::<()>()));
        let polled = poll_fn(|cx| Poll::Ready(stalled.as_mut().poll(cx))).await;
        assert!(polled.is_pending());
        let started = Instant::now();
        let error = redlock.lock("k").wait(3 * SECOND).run(async {}).await.unwrap_err();
        assert_eq!(started.elapsed(), 3 * SECOND);
        let LockError::TurnTaken { key, waited } = &error else { panic!("{error}") };
        assert_eq!((key.as_str(), *waited), ("k", 3 * SECOND));
        assert!(error.to_string().contains("still polled"), "{error}");
    };
    redlock.lock("k").run(inside).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_sibling_that_is_cancelled_or_panics_ends_its_turn() {
    let (redlock, _fake) = fake();
    let call = || redlock.lock("k").wait(Wait::Forever);
    let inside = async {
        let cut = tokio::time::timeout(SECOND, call().run(std::future::pending::<()>()));
        let bad = async {
            let lease = Lease::current().unwrap();
            let redlock = redlock.clone();
            let bad = async move { redlock.lock("k").run(async { panic!("on purpose") }).await };
            tokio::spawn(lease.scope(bad)).await
        };
        // One that gives up in the queue.
        let gone = tokio::time::timeout(SECOND / 2, call().run(async {}));
        let (cut, gone, bad, last) = tokio::join!(cut, gone, bad, call().run(async {}));
        assert!(cut.is_err() && gone.is_err() && bad.is_err() && last.is_ok());
    };
    redlock.lock("k").run(Box::pin(inside)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_turn_is_told_at_once_that_the_lease_is_lost() {
    let (redlock, fake) = fake();
    let guard = redlock.lock("k").expire(10 * SECOND).acquire().await.unwrap();
    let lease = guard.lease().clone();
    let holds = lease.scope(async {
        let _first = redlock.lock("k").acquire().await.unwrap();
        redlock.lock("k").wait(Wait::Forever).acquire().await.map(drop)
    });
    let theft = async {
        tokio::time::sleep(SECOND).await;
        fake.store.remove("k");
    };
    let (told, ()) = tokio::join!(holds, theft);
    match told.unwrap_err() {
        LockError::Lost { reason, .. } => assert_ne!(reason, LostReason::RenewalLimit),
        other => panic!("{other}"),
    }
}

/// What it has done by then stays done: the error does not say that nothing was.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_stopped_by_the_end_of_the_call_around_it_has_done_a_part_of_its_work() {
    let (redlock, _fake) = fake();
    let stock = Stock::default();
    for is_cancelled in [false, true] {
        let (spawned, sale) = tokio::sync::oneshot::channel();
        let order = redlock.lock("k").run(async {
            let (redlock, stock) = (redlock.clone(), stock.clone());
            let lease = Lease::current().unwrap();
            let sell = async move { stock.sell(&redlock).await };
            spawned.send(tokio::spawn(lease.scope(Box::pin(sell)))).unwrap();
            tokio::time::sleep(if is_cancelled { 60 * SECOND } else { SECOND / 2 }).await;
        });
        assert_eq!(timeout(SECOND / 2, order).await.is_err(), is_cancelled);
        let error = sale.await.unwrap().await.unwrap().unwrap_err();
        assert!(error.is_lost() && !error.is_caller_error(), "{error}");
        assert!(error.to_string().contains("the call around this one"), "{error}");
        // One that had not begun has done nothing.
        let late = redlock.lock("k").run(async { Lease::current().unwrap() }).await.unwrap();
        let never = late.check().unwrap_err();
        assert!(!never.is_lost() && never.is_caller_error(), "{never}");
    }
    assert_eq!(stock.sold(), 0);
}
