//! Where the output of a locked call waits for the release of its lock.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{Mutex, PoisonError};

/// Where the output waits while the release is awaited.
pub trait Slot<T>: Sized {
    /// Does the slot keep outputs at all?
    const KEEPS: bool;
    /// Keeps the output, or hands it straight back.
    fn put(value: T) -> Result<Self, T>;
    /// The output that was kept.
    fn take(self) -> T;
}

/// Keeps the output until the release is done. Boxed, so that a large output does not grow the
/// future of every caller, and opaque, so that an auto trait proof about that future does not
/// follow the types of the output either (`call/opaque.rs`).
pub struct Kept<'a, T>(Box<dyn Keep<T> + Send + Sync + UnwindSafe + RefUnwindSafe + 'a>);

impl<T> fmt::Debug for Kept<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept").finish_non_exhaustive()
    }
}

impl<'a, T: Send + 'a> Slot<T> for Kept<'a, T> {
    const KEEPS: bool = true;

    #[inline]
    fn put(value: T) -> Result<Self, T> {
        Ok(Self(Box::new(Mutex::new(value))))
    }

    #[inline]
    fn take(self) -> T {
        self.0.take()
    }
}

/// Gives the output back.
trait Keep<T> {
    fn take(self: Box<Self>) -> T;
}

/// The mutex is never locked. It makes the future `Sync` when the plain future is, even if the
/// output is not.
impl<T> Keep<T> for Mutex<T> {
    fn take(self: Box<Self>) -> T {
        self.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps nothing.
#[derive(Debug)]
pub enum Handed {}

impl<T> Slot<T> for Handed {
    const KEEPS: bool = false;

    #[inline]
    fn put(value: T) -> Result<Self, T> {
        Err(value)
    }

    fn take(self) -> T {
        match self {}
    }
}
