// What the body uses is dropped while the lock is held, whatever the handler calls its own
// variables.
// What the handler does read is left behind, but for the parts that the body takes.
#![expect(clippy::redundant_closure, reason = "the parameter is named like an argument")]
use std::fmt::{self, Display, Formatter};
use std::marker::PhantomData;
use std::sync::Mutex;

use async_trait::async_trait;
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

/// A unit struct is not a variable, whose type would be known.
#[redis_lock(key = "unit-<n>", client = r)]
async fn unit<T>(r: &Redlock, n: u8, PhantomData: PhantomData<T>) -> Result<u8, LockError> {
    let _: PhantomData<T> = PhantomData;
    Ok(n)
}

/// async-trait moves `self` into a variable, which a string cannot name.
#[async_trait]
trait Shop {
    async fn sell(&mut self, pair: (u8, u8)) -> Result<u64, LockError>;
    async fn close(self) -> Result<u64, LockError>;
}

#[async_trait]
impl Shop for Store {
    #[redis_lock(key = format!("{self}-{a}-{}", self.id), client = &self.locks.clone())]
    async fn sell(&mut self, (a, _): (u8, u8)) -> Result<u64, LockError> {
        self.id += u64::from(a);
        Ok(self.id)
    }

    #[redis_lock(key = format!("{self}"), client = &self.locks.clone())]
    async fn close(self) -> Result<u64, LockError> {
        Ok(self.id)
    }
}

struct Store {
    id: u64,
    locks: Redlock,
}

impl Display for Store {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "store {}", self.id)
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), LockError> {
    let locks = Redlock::builder().memory().build().await?;
    named_like_a_parameter(&locks, Event::new(&locks)).await?;
    named_like_a_module(&locks, Event::new(&locks)).await?;
    read_by_the_handler(&locks, Event::new(&locks)).await;
    assert_eq!(*HELD.lock().unwrap(), [1, 1, 0]);
    unit(&locks, 1, PhantomData::<String>).await?;
    let mut store = Store { id: 1, locks };
    store.sell((2, 3)).await?;
    assert_eq!(store.close().await?, 3);
    Ok(())
}
