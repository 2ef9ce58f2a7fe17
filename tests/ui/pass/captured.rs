// What the body uses is dropped while the lock is held, whatever the handler calls its own variables.
// What the handler does read is left behind, but for the parts that the body takes.
use std::sync::Mutex;

use redlock::{LockError, Redlock, redis_lock};

static HELD: Mutex<Vec<usize>> = Mutex::new(Vec::new());

struct Event {
    id: u64,
    count: u64,
    locks: Redlock,
}

impl Event {
    fn new(locks: &Redlock) -> Event {
        Event { id: 1, count: 2, locks: locks.clone() }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        HELD.lock().unwrap().push(self.locks.held().len());
    }
}

#[redis_lock(key = "parameter", client = r, on_error = |e| Err(e))]
async fn named_like_a_parameter(r: &Redlock, e: Event) -> Result<u64, LockError> {
    tokio::task::yield_now().await;
    Ok(e.id)
}

#[redis_lock(key = "module", client = r, on_error = event::failed)]
async fn named_like_a_module(r: &Redlock, event: Event) -> Result<u64, LockError> {
    tokio::task::yield_now().await;
    Ok(event.id)
}

mod event {
    pub fn failed(error: redlock::LockError) -> Result<u64, redlock::LockError> {
        Err(error)
    }
}

#[redis_lock(key = "read", client = r, on_error = |_| e.count)]
async fn read_by_the_handler(r: &Redlock, e: Event) -> u64 {
    tokio::task::yield_now().await;
    e.id
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), LockError> {
    let locks = Redlock::builder().memory().build().await?;
    named_like_a_parameter(&locks, Event::new(&locks)).await?;
    named_like_a_module(&locks, Event::new(&locks)).await?;
    read_by_the_handler(&locks, Event::new(&locks)).await;
    assert_eq!(*HELD.lock().unwrap(), [1, 1, 0]);
    Ok(())
}
