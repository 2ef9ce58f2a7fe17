//! What the end of a program waits for behind a call that has ended.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use super::fake::client_at;
use super::fifo_queue::holds;
use super::server::Server;
use crate::engine::Engine;
use crate::key::LockKey;
use crate::kind::Kind;
use crate::local_queue::QueueHandle;

fn queue(engine: &Arc<Engine>) -> QueueHandle {
    engine.local_queue(&LockKey::new("", "k").unwrap(), Kind::Exclusive)
}

/// Looks at the local queue whenever the caller is woken.
struct Looks {
    engine: Arc<Engine>,
    caller: Waker,
    has_to_undo: AtomicBool,
}

impl Wake for Looks {
    fn wake(self: Arc<Self>) {
        self.has_to_undo.fetch_or(queue(&self.engine).state().left.is_some(), Ordering::Relaxed);
        self.caller.wake_by_ref();
    }
}

/// The program may end as soon as the caller has its answer.
#[tokio::test]
async fn the_end_of_a_thread_waits_for_the_entry_of_a_caller_that_has_timed_out() {
    let server = Server::new();
    let holder = holds(&server.client()).await;
    let redlock = client_at(Arc::clone(&server) as _, 100, false);
    let caller = poll_fn(|cx| std::task::Poll::Ready(cx.waker().clone())).await;
    let engine = Arc::clone(redlock.engine());
    let looks = Arc::new(Looks { engine, caller, has_to_undo: AtomicBool::new(false) });
    let waker = Waker::from(Arc::clone(&looks));
    // On a busy machine a short wait may be over before there is an entry.
    for millis in [20, 200, 2_000, 20_000] {
        let mut waiter = pin!(redlock.lock("k").wait(Duration::from_millis(millis)).acquire());
        let ended = poll_fn(|_| waiter.as_mut().poll(&mut Context::from_waker(&waker))).await;
        assert!(ended.is_err_and(|error| error.is_busy()));
        if looks.has_to_undo.load(Ordering::Relaxed) {
            break;
        }
    }
    assert!(looks.has_to_undo.load(Ordering::Relaxed));
    drop(holder);
}
