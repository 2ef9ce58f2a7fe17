//! A caller that has no tokio runtime: any executor will do.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use redlock::{LockError, Redlock, redis_lock};

use crate::support::process::block_on;
use crate::support::{Server, unique_prefix};

/// Wakes the thread that parks.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The smallest executor: polls, and parks the thread in between.
pub fn park_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        std::thread::park();
    }
}

#[redis_lock(key = "k", client = redlock)]
async fn answer(redlock: &Redlock) -> Result<u32, LockError> {
    Ok(42)
}

#[test]
fn a_caller_without_a_runtime_is_served() {
    let url = block_on(async { Server::shared().await.url() });
    let client = Redlock::builder().url(url).prefix(unique_prefix()).build();
    let redlock = park_on(client).expect("the server is up");
    assert_eq!(park_on(answer(&redlock)), Ok(42));
    let guard = park_on(redlock.lock("k").acquire()).expect("it is free again");
    assert!(park_on(redlock.lock("k").try_acquire()).expect("it is asked").is_none());
    park_on(guard.release()).expect("it is released");
}
