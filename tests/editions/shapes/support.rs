use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::UnwindSafe;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use redlock::LockError;

pub type Locked<T> = Result<T, AppError>;

pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
pub type LocalBoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

#[derive(Debug)]
pub enum AppError {
    Lock(LockError),
    Parse(std::num::ParseIntError),
    Empty,
}

impl From<LockError> for AppError {
    fn from(error: LockError) -> AppError {
        AppError::Lock(error)
    }
}

impl From<std::num::ParseIntError> for AppError {
    fn from(error: std::num::ParseIntError) -> AppError {
        AppError::Parse(error)
    }
}

#[derive(Clone, Debug, Default)]
pub struct Order {
    pub id: u64,
    pub items: Vec<String>,
    pub pair: (u32, u32),
}

impl Order {
    pub fn name(&self) -> &str {
        &self.items[0]
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.id)
    }
}

/// `Send`, not `Sync`.
pub type NotSync = Cell<u32>;
/// Neither.
pub type NotSend = Rc<u32>;

pub async fn pause() {
    std::future::ready(()).await;
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Blocks until the future is done, without a runtime.
pub fn run<F: Future>(future: F) -> F::Output {
    let mut future = Box::pin(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// Any value; never called.
pub fn any<T>() -> T {
    unreachable!()
}

/// Tells at run time what was known of the type at compile time.
pub struct Probe<T>(PhantomData<T>);

pub fn probe<T, F: FnOnce() -> T>(_: F) -> Probe<T> {
    Probe(PhantomData)
}

impl<T: Send> Probe<T> {
    #[must_use]
    pub fn is_send(&self) -> bool {
        true
    }
}

impl<T: Sync> Probe<T> {
    #[must_use]
    pub fn is_sync(&self) -> bool {
        true
    }
}

impl<T: UnwindSafe> Probe<T> {
    #[must_use]
    pub fn is_unwind_safe(&self) -> bool {
        true
    }
}

/// Found only where the inherent methods do not apply.
pub trait Otherwise {
    fn is_send(&self) -> bool {
        false
    }

    fn is_sync(&self) -> bool {
        false
    }

    fn is_unwind_safe(&self) -> bool {
        false
    }
}

impl<T> Otherwise for Probe<T> {}
