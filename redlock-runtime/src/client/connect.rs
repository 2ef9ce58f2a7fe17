//! How a program gets a client.

use super::builder::RedlockBuilder;
use super::redlock::Redlock;
use crate::error::LockError;

impl Redlock {
    /// A client for the server at `url`, with default options; not the global one.
    ///
    /// # Errors
    /// [`LockError::Config`] for a URL that cannot work, [`LockError::Unavailable`] when the server
    /// cannot be reached, refuses the login, or is unfit for locks (too old, a replica, a sentinel,
    /// a part of a cluster), [`LockError::BackgroundThread`] when that thread cannot be started.
    ///
    /// # Cancel safety
    /// Dropping the future gives the client up; nothing is left behind.
    ///
    /// ```no_run
    /// # async fn demo() -> Result<(), redlock::LockError> {
    /// let redlock = redlock::Redlock::connect("redis://127.0.0.1:6379").await?;
    /// # Ok(()) }
    /// ```
    pub async fn connect(url: impl Into<String>) -> Result<Self, LockError> {
        Self::builder().url(url).build().await
    }

    /// Begins a client with options of its own.
    ///
    /// ```
    /// let builder = redlock::Redlock::builder().url("redis://127.0.0.1:6379").prefix("shop:");
    /// ```
    pub fn builder() -> RedlockBuilder {
        RedlockBuilder::new()
    }
}
