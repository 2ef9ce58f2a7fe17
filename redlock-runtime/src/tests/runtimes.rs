//! The memory backend on several runtimes: which are blocked or not driven, and have other clocks.

use std::any::Any;
use std::cell::RefCell;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use tokio::runtime::{Builder, Handle, Runtime};

use super::fake::{SECOND, client_at};
use crate::backend::{Memory, MemoryStore};
use crate::blocking::block_on;
use crate::client::Redlock;
use crate::error::{LockError, NodeErrorKind};
use crate::options::Wait;

fn client(store: &MemoryStore) -> Redlock {
    client_at(std::sync::Arc::new(Memory::new(store.clone())), 100, true)
}

fn runtime(is_paused: bool) -> Runtime {
    Builder::new_current_thread().enable_time().start_paused(is_paused).build().unwrap()
}

#[test]
fn waiters_do_not_depend_on_a_runtime_that_nobody_drives() {
    let redlock = client(&MemoryStore::new());
    let (driven, idle) = (runtime(false), runtime(false));
    let held = driven.block_on(redlock.lock("k").acquire()).unwrap();
    let mut waiting = Box::pin(redlock.lock("k").wait(Wait::Forever).acquire());
    idle.block_on(async {
        for _ in 0..10 {
            let polled = poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx))).await;
            assert!(polled.is_pending());
            tokio::task::yield_now().await;
        }
    });
    // From here on nobody drives it, and who waits there was first.
    let next = async {
        let timely = tokio::time::timeout(30 * SECOND, async {
            redlock.lock("k").wait(SECOND / 100).acquire().await.unwrap_err();
            drop(held);
            redlock.lock("k").wait(20 * SECOND).acquire().await
        });
        timely.await.expect("the wait is kept").unwrap()
    };
    drop(driven.block_on(next));
    drop(waiting);
}

/// One has seen the lease end, the other one has not.
#[test]
fn a_lock_on_a_paused_clock_is_refused_on_another_clock() {
    let store = MemoryStore::new();
    for is_paused in [true, false] {
        let (first, second) = (runtime(true), runtime(is_paused));
        let (one, two) = (client(&store), client(&store));
        let guard = first.block_on(one.lock("k").expire(SECOND).acquire()).unwrap();
        let wanted = || two.lock("k").wait(2 * SECOND).acquire();
        for client in [&one, &two] {
            let wanted = client.lock("k").wait(2 * SECOND).acquire();
            let error = second.block_on(async {
                if is_paused {
                    tokio::time::advance(10 * SECOND).await;
                }
                wanted.await.unwrap_err()
            });
            first.block_on(async { guard.check().unwrap() });
            let LockError::Unavailable { nodes, .. } = &error else { panic!("{error}") };
            assert_eq!(nodes[0].kind(), NodeErrorKind::OtherClock);
        }
        first.block_on(guard.release()).unwrap();
        drop(second.block_on(wanted()).unwrap());
    }
}

#[test]
fn a_lease_that_is_over_on_its_own_clock_is_refused_on_no_other_one() {
    let clocks = [(true, true), (true, false), (false, true)];
    for (was_paused, is_paused) in clocks {
        let store = MemoryStore::new();
        runtime(was_paused).block_on(async {
            store.set("k", "another", SECOND / 1000);
            store.set("l", "another", SECOND / 1000);
            tokio::time::sleep(SECOND / 100).await;
        });
        let redlock = client(&store);
        runtime(is_paused).block_on(async {
            assert_eq!(store.owner("k"), None);
            drop(redlock.lock("k").acquire().await.unwrap());
            drop(redlock.lock_all(["a", "l"]).acquire().await.unwrap());
        });
    }
}

/// What is left of its `min_hold` is asked for, and counted, by the clock of the same thread.
#[test]
fn a_lock_that_another_thread_lets_go_of_stays_taken_by_its_own_clock() {
    let store = MemoryStore::new();
    let (redlock, paused) = (client(&store), runtime(true));
    let guard = paused.block_on(async {
        tokio::time::advance(3600 * SECOND).await;
        redlock.lock("k").expire(SECOND).min_hold(10 * SECOND).acquire().await.unwrap()
    });
    std::thread::spawn(move || drop(guard)).join().unwrap();
    paused.block_on(async {
        let is_retained = || store.owner("k").is_some_and(|owner| owner.contains(":retained:"));
        assert!(is_retained());
        tokio::time::advance(9 * SECOND).await;
        assert!(is_retained());
        tokio::time::advance(2 * SECOND).await;
        assert_eq!(store.owner("k"), None);
    });
}

/// Whether a local of a thread was dropped when tokio's locals were gone.
static WAS_LATE: AtomicBool = AtomicBool::new(false);

/// A local of a thread, with what it keeps.
#[derive(Default)]
struct Last(Vec<Box<dyn Any>>);

impl Drop for Last {
    fn drop(&mut self) {
        let is_gone = Handle::try_current().is_err_and(|error| error.is_thread_local_destroyed());
        WAS_LATE.store(is_gone, Ordering::Relaxed);
    }
}

/// A panic there would end the process.
#[test]
fn what_a_thread_keeps_to_its_very_end_is_released() {
    thread_local! {
        static LAST: RefCell<Last> = const { RefCell::new(Last(Vec::new())) };
    }
    let redlock = block_on(Redlock::builder().memory().build()).unwrap();
    let own = redlock.clone();
    let thread = std::thread::spawn(move || {
        // It is made before the locals of tokio, and so it is dropped after them.
        LAST.with(|_| ());
        let guard = own.lock("k").acquire_blocking().unwrap();
        let mut waits = Box::pin(own.lock("k").wait(Wait::Forever).acquire());
        assert!(waits.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        LAST.with_borrow_mut(|last| last.0 = vec![Box::new(waits), Box::new(guard)]);
    });
    thread.join().unwrap();
    assert!(WAS_LATE.load(Ordering::Relaxed), "the local of this test was dropped early");
    drop(redlock.lock("k").wait(60 * SECOND).acquire_blocking().unwrap());
    assert_eq!(block_on(redlock.shutdown(60 * SECOND)), 0);
}
