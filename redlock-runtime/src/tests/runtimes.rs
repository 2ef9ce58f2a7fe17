//! The memory backend on several runtimes: which are blocked or not driven, and have other clocks.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use super::fake::client_at;
use crate::backend::{Memory, MemoryStore};
use crate::client::Redlock;
use crate::error::{LockError, NodeErrorKind};
use crate::options::Wait;

const SECOND: Duration = Duration::from_secs(1);

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
