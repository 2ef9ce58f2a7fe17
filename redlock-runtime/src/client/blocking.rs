//! Locks for threads without asynchronous code.

use super::builder::RedlockBuilder;
use super::redlock::Redlock;
use super::request::LockRequest;
use crate::blocking::{block_on, is_in_task};
use crate::error::LockError;
use crate::guard::LockGuard;
use crate::state::Released;

impl RedlockBuilder {
    /// As [`build`](Self::build), for a program without asynchronous code: blocks the thread until
    /// the servers have answered. It needs no runtime; the connections belong to the background
    /// thread of the library. [`init_blocking`](crate::init_blocking) makes the client global.
    ///
    /// # Errors
    /// As [`build`](Self::build), and [`LockError::InTask`] in a task of tokio, whose thread must
    /// not be blocked.
    ///
    /// ```no_run
    /// use redlock::{LockError, Redlock};
    ///
    /// fn main() -> Result<(), LockError> {
    ///     let redlock = Redlock::builder().url("redis://127.0.0.1:6379").build_blocking()?;
    ///     let guard = redlock.lock("stock-42").acquire_blocking()?;
    ///     guard.check()?; // before a step that must not happen without the lock
    ///     guard.release_blocking()?;
    ///     Ok(())
    /// }
    /// ```
    pub fn build_blocking(self) -> Result<Redlock, LockError> {
        check_may_block("")?;
        block_on(self.build())
    }
}

impl LockRequest {
    /// As [`acquire`](Self::acquire), for a thread without asynchronous code: blocks it until the
    /// lock is there, for at most `wait`. The thread needs no runtime; the background thread of the
    /// library asks Redis, and renews the lease.
    ///
    /// Nothing stops the thread when the lease is lost: call [`check`](crate::Lease::check) before
    /// each step that must not happen without the lock. A second call for the same key on the same
    /// thread waits for the first guard, as a call on any other thread would. This goes for
    /// [`read`](Self::read) locks as well, whenever a writer waits: the writer waits for the first
    /// guard, and the second call waits behind the writer. Inside of
    /// [`Lease::within`](crate::Lease::within), and of a body that a caller without tokio polls, a
    /// call re-enters as [`acquire`](Self::acquire) does.
    ///
    /// The guard may be sent to other threads and into asynchronous code. Its drop, also at the end
    /// of the thread, releases the lock in the background; the end of the thread waits until that
    /// has left. Join the thread: where it still runs when `main` returns, nothing is dropped, and
    /// the lock stays until its lease ends.
    ///
    /// In a task of tokio, whose thread must not be blocked, this is an error; inside of
    /// `spawn_blocking` and `block_in_place` it is not. (A future in `tokio::task::unconstrained`
    /// looks like a thread of its own, and so does the root task of a runtime after a
    /// `block_in_place`, until its next `.await`.) With a paused clock time stands still while the
    /// thread waits.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), and [`LockError::InTask`] in a task of tokio. A
    /// [`shutdown`](crate::Redlock::shutdown) ends the wait, unless the call is made inside of a
    /// hold ([`Lease::within`](crate::Lease::within)).
    ///
    /// ```
    /// # fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build_blocking()?;
    /// let worker = std::thread::spawn(move || {
    ///     let guard = redlock.lock("stock-42").acquire_blocking()?;
    ///     guard.check()?; // before a step that must not happen without the lock
    ///     guard.release_blocking()
    /// });
    /// assert_eq!(worker.join().unwrap()?, redlock::Released::Released);
    /// # Ok(()) }
    /// ```
    pub fn acquire_blocking(self) -> Result<LockGuard, LockError> {
        self.check()?;
        check_may_block(self.name())?;
        block_on(self.acquire())
    }

    /// As [`try_acquire`](Self::try_acquire), for a thread without asynchronous code: blocks it for
    /// the answers to its attempts, usually one. `None`: somebody else holds the lock.
    ///
    /// # Errors
    /// As [`try_acquire`](Self::try_acquire), and [`LockError::InTask`] in a task of tokio.
    ///
    /// ```
    /// # fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build_blocking()?;
    /// let held = redlock.lock("nightly").acquire_blocking()?;
    /// assert!(redlock.lock("nightly").try_acquire_blocking()?.is_none());
    /// drop(held);
    /// assert!(redlock.lock("nightly").try_acquire_blocking()?.is_some());
    /// # Ok(()) }
    /// ```
    pub fn try_acquire_blocking(self) -> Result<Option<LockGuard>, LockError> {
        self.check()?;
        check_may_block(self.name())?;
        block_on(self.try_acquire())
    }
}

impl LockGuard {
    /// As [`release`](Self::release), for a thread without asynchronous code: blocks it until Redis
    /// has answered, for at most `reply_timeout`.
    ///
    /// # Errors
    /// As [`release`](Self::release), and [`LockError::InTask`] in a task of tokio: the lock is
    /// released in the background then.
    ///
    /// ```
    /// # fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build_blocking()?;
    /// let guard = redlock.lock("stock-42").acquire_blocking()?;
    /// if guard.release_blocking()? != redlock::Released::Released {
    ///     println!("somebody else may have worked at the same time: check the stock");
    /// }
    /// # Ok(()) }
    /// ```
    pub fn release_blocking(self) -> Result<Released, LockError> {
        check_may_block(self.key())?;
        block_on(self.release())
    }
}

/// Fails in a task, whose thread must not be blocked; `key` is empty where it is about no lock.
pub(crate) fn check_may_block(key: &str) -> Result<(), LockError> {
    if is_in_task() { Err(LockError::InTask { key: key.to_owned() }) } else { Ok(()) }
}
