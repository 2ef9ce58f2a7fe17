//! A mutex that a panic does not poison.
//!
//! Foreign code never runs while one is locked, so that what it guards is whole whenever it is
//! locked again.

use std::sync::{MutexGuard, PoisonError};

#[derive(Debug, Default)]
pub(crate) struct Mutex<T> {
    inner: std::sync::Mutex<T>,
}

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { inner: std::sync::Mutex::new(value) }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Without locking: nobody else has a reference.
    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}
