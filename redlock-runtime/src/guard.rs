//! `LockGuard`: a held lock. Dropping it releases it.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use super::lease::Lease;
use super::state::{LostReason, Released};
use crate::acquire;
use crate::background_thread::stopped;
use crate::body::{Protect, Reentry, span};
use crate::error::{AlreadyHeldReason, LockError};
use crate::handoff::Ownership;
use crate::kind::Kind;
use crate::release;

/// A held lock. It is renewed in the background until it is released, dropped, lost, or used up
/// after `max_renew` renewals.
///
/// Dropping the guard releases the lock in the background, from any place: on an early return, in a
/// panic, in a cancelled task, without a runtime. [`release`](Self::release) does the same and says
/// what it found.
///
/// A guard that re-entered a lock of its task has a turn among the other calls inside of that hold:
/// they wait until it is dropped. What is called under it belongs into [`protect`](Self::protect),
/// or it would wait for it, too.
///
/// The guard itself stops nobody: code that runs beside it must ask [`check`](Lease::check), wait
/// for [`lost`](Lease::lost), or run inside of [`protect`](Self::protect). These and all that a
/// [`Lease`] tells (key, owner, fencing token, time left) the guard tells, too.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlock::LockError> {
/// # let redlock = redlock::Redlock::builder().memory().build().await?;
/// let guard = redlock.lock("stock-42").acquire().await?;
///
/// let qty = guard.protect(async { 10 }).await?; // stopped, should the lease be lost
/// guard.check()?; // before a step that must not happen without the lock
///
/// assert_eq!(guard.release().await?, redlock::Released::Released);
/// # assert_eq!(qty, 10);
/// # Ok(()) }
/// ```
#[must_use = "a lock is released as soon as its guard is dropped; name the guard, as `_guard`"]
#[derive(Debug)]
pub struct LockGuard {
    lease: Lease,
    role: Role,
    /// It was asked for with `lock_all`, whatever the number of its keys.
    is_of_lock_all: bool,
}

/// What a guard has of the lock.
#[derive(Debug)]
enum Role {
    Owns(Ownership),
    /// The outer call owns the lock. The guard has a turn inside of it, and a template of its own.
    Reenters {
        _turn: Reentry,
        template: &'static str,
    },
    /// It has let go.
    Over,
}

impl LockGuard {
    pub(crate) fn new(ownership: Ownership, is_of_lock_all: bool) -> Self {
        let lease = Lease::new(Arc::clone(ownership.hold()));
        Self { lease, role: Role::Owns(ownership), is_of_lock_all }
    }

    pub(crate) fn reentered(reentry: Reentry, template: &'static str) -> Self {
        let lease = Lease::of_call(Arc::clone(reentry.link()));
        Self { lease, role: Role::Reenters { _turn: reentry, template }, is_of_lock_all: false }
    }

    /// `None`: the outer call owns the lock.
    fn take_ownership(&mut self) -> Option<Ownership> {
        match std::mem::replace(&mut self.role, Role::Over) {
            Role::Owns(ownership) => Some(ownership),
            role => {
                self.role = role;
                None
            }
        }
    }

    /// The lease of the lock, to be cloned and passed around. The guard has all its methods, too.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// let guard = redlock.lock("stock-42").acquire().await?;
    /// let lease: redlock::Lease = guard.lease().clone();
    /// guard.release().await?;
    /// assert!(lease.check().is_err());
    /// # Ok(()) }
    /// ```
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Runs `future` while the lease holds. It is not polled once more after that: it is dropped,
    /// and the loss returned. Inside of it [`Lease::current`] finds this lease, and events are in
    /// a span `redlock` that names the lock.
    ///
    /// Code that does not reach an `.await` is not stopped; fencing tokens are for that.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// let guard = redlock.lock("stock-42").acquire().await?;
    /// let left = guard.protect(async { 10 - 1 }).await?;
    /// assert_eq!(left, 9);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`LockError::Lost`] when the lease was lost before `future` was done,
    /// [`LockError::ForkedProcess`] in a child of the process that holds the lock.
    ///
    /// # Cancel safety
    /// Dropping it drops `future`; the lock stays held.
    pub async fn protect<F: Future>(&self, future: F) -> Result<F::Output, LockError> {
        let hold = self.lease.hold();
        let (template, waited) = match self.role {
            Role::Reenters { template, .. } => (template, Duration::ZERO),
            Role::Owns(_) | Role::Over => (hold.terms.template, hold.waited()),
        };
        let span = span(hold, template, waited);
        Protect::new(self.lease.nested(), span, future).await
    }

    /// Releases the lock, and says what was found.
    ///
    /// A re-entered lock stays with its outer guard or call; releasing it here only ends this
    /// guard, and its turn among the calls inside of that one. Redis is not asked then, and the
    /// answer says what is known of the outer hold: [`Released::Stolen`] if another owner was found
    /// to have the key, [`Released::Expired`] if the lease was lost in another way, and
    /// [`Released::Released`] if it holds, or was released.
    ///
    /// ```
    /// use redlock::Released;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// let guard = redlock.lock("stock-42").acquire().await?;
    /// if guard.release().await? != Released::Released {
    ///     println!("somebody else may have worked at the same time: check the stock");
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`LockError::Unavailable`] when Redis did not answer within `reply_timeout`, or within twice
    /// that time if the first command left over a connection of the caller's runtime: the release
    /// goes on in the background for as long as the lease would last.
    /// [`LockError::ForkedProcess`] in a child of the process that holds the lock: it stays held
    /// there. [`LockError::BackgroundThread`] when that thread died during the release: the lock is
    /// free when its lease ends at the latest.
    ///
    /// # Cancel safety
    /// Safe: once called, the release goes on without the future.
    pub async fn release(mut self) -> Result<Released, LockError> {
        self.lease.hold().check_process()?;
        let Some(ownership) = self.take_ownership() else { return Ok(self.found_within()) };
        match ownership.release().await {
            // A renewal had met another owner before the release was sent. (`Expired` proves
            // nothing here: it may have been our own clock that said so.)
            Some(Ok(Released::Unknown)) => Ok(match self.lease.hold().lost() {
                Some(LostReason::Stolen) => Released::Stolen,
                _ => Released::Unknown,
            }),
            Some(Ok(released)) => Ok(released),
            Some(Err(fault)) => {
                Err(LockError::Unavailable { key: self.key().to_owned(), nodes: fault.nodes })
            }
            None => Err(stopped("a release")),
        }
    }

    /// What a guard that re-entered knows of the outer hold.
    fn found_within(&self) -> Released {
        match self.lease.hold().lost() {
            None => Released::Released,
            Some(LostReason::Stolen) => Released::Stolen,
            Some(_) => Released::Expired,
        }
    }

    /// Turns the lock into a [read lock](crate::LockRequest::read), without a moment in which
    /// another writer could enter. Readers that wait at the head of the queue are let in with it.
    /// The read lock has the same `expire` and `max_renew`, a full lease, and a fencing token of
    /// its own, above that of the write lock. The guard of a read lock is returned as it is.
    ///
    /// The lease of the write lock ends: clones of it, and what runs in its
    /// [`scope`](crate::Lease::scope), see it as released. Give them that of the new guard.
    ///
    /// There is no way back: two readers that both wanted to write would wait for each other.
    ///
    /// # Errors
    /// [`LockError::Lost`] when the lease was lost, [`LockError::Unavailable`] when the outcome is
    /// unknown, [`LockError::Config`] for a permit, for a lock with `min_hold`, and for what was
    /// locked with [`lock_all`](crate::Redlock::lock_all), also one key. [`LockError::AlreadyHeld`]
    /// for a guard that re-entered: the outer call has the write lock.
    /// [`LockError::ExpireTooShort`] when the answer took longer than the lease,
    /// [`LockError::BackgroundThread`] when that thread cannot be started, or died meanwhile. After
    /// an error the lock is released; a `min_hold` goes on. It is not released after an error of a
    /// guard that re-entered, whose turn ends, and not after [`LockError::ForkedProcess`], in a
    /// child of the process that holds it.
    ///
    /// # Cancel safety
    /// Dropping the future releases the lock.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// let writer = redlock.lock("config").acquire().await?;
    /// // write it
    /// let reader = writer.downgrade().await?;
    /// let other = redlock.lock("config").read().acquire().await?; // side by side
    /// # drop((reader, other));
    /// # Ok(()) }
    /// ```
    pub async fn downgrade(mut self) -> Result<Self, LockError> {
        let hold = self.lease.hold();
        hold.check_process()?;
        match hold.claim.kind {
            Kind::Read => return Ok(self),
            Kind::Permits(_) => {
                let message = "a permit cannot become a read lock: other holders are beside it";
                return Err(LockError::config(message));
            }
            Kind::Exclusive => {}
        }
        let Some(ownership) = self.take_ownership() else {
            return Err(LockError::already_held(self.key(), AlreadyHeldReason::OuterHolds));
        };
        if self.is_of_lock_all {
            let message = "what was locked with `lock_all`, one key or several, cannot become a \
                           read lock, and was released; take read locks one by one";
            return Err(LockError::config(message));
        }
        let ownership = acquire::downgrade(ownership).await?;
        Ok(Self::new(ownership, false))
    }

    /// The release after a finished body, awaited and reported, never an error.
    pub(crate) async fn finish(mut self) {
        let Some(ownership) = self.take_ownership() else { return };
        let Some(answer) = ownership.release_after_body() else { return };
        release::report(self.lease.hold(), answer.await);
    }
}

impl Deref for LockGuard {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.lease
    }
}
