//! Errors that are neither those of Redis nor of another holder: the call has to change.

use super::lock_error::LockError;
use crate::state::LostReason;

impl LockError {
    /// Is the key not valid? Nothing was done. A value in the key is empty or has control
    /// characters; or the key is too long, ends like a helper key of redlock, or has a `}` and no
    /// hash tag. In a web service this is usually a mistake of the request: 400.
    ///
    /// True for [`InvalidKey`](Self::InvalidKey).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// let name = ""; // from a request
    /// let error = redlock.lock(name).try_acquire().await.unwrap_err();
    /// assert!(error.is_invalid_key() && !error.is_caller_error());
    /// # Ok(()) }
    /// ```
    pub fn is_invalid_key(&self) -> bool {
        matches!(self, Self::InvalidKey { .. })
    }

    /// Is it a mistake in the program, which trying again cannot mend? Nothing was done. In a web
    /// service: 500, and an alarm for those who wrote it.
    ///
    /// True for [`AlreadyHeld`](Self::AlreadyHeld), which [`is_busy`](Self::is_busy) is true for as
    /// well; for [`InTask`](Self::InTask), [`Config`](Self::Config),
    /// [`NotInitialized`](Self::NotInitialized), [`AlreadyInitialized`](Self::AlreadyInitialized)
    /// and [`ForkedProcess`](Self::ForkedProcess); and for [`Lost`](Self::Lost) where the lock had
    /// been released before. In a child that was forked in the middle of a body, the code up to
    /// the next `.await` has run. `docs/errors.md` has a table of all errors.
    ///
    /// ```
    /// use redlock::LockError;
    ///
    /// fn status(error: &LockError) -> u16 {
    ///     match error {
    ///         error if error.is_invalid_key() => 400,
    ///         error if error.is_caller_error() => 500, // before `is_busy`
    ///         error if error.is_busy() => 409,         // with `retry_after` as `Retry-After`
    ///         error if error.is_unavailable() => 503,  // the same
    ///         _ => 500, // lost: a part of the work may have been done
    ///     }
    /// }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// let nested = redlock.lock("stock-42").lead(async |_| 17);
    /// let error = redlock.lock("stock-42").run(nested).await?.unwrap_err();
    /// assert!(error.is_caller_error(), "it would wait for itself");
    /// assert_eq!(status(&error), 500);
    /// # Ok(()) }
    /// ```
    pub fn is_caller_error(&self) -> bool {
        match self {
            Self::Lost { reason, .. } => *reason == LostReason::Released,
            Self::NotInitialized
            | Self::AlreadyInitialized
            | Self::Config { .. }
            | Self::AlreadyHeld { .. }
            | Self::InTask { .. }
            | Self::ForkedProcess => true,
            Self::InvalidKey { .. }
            | Self::Timeout { .. }
            | Self::Unavailable { .. }
            | Self::TooManyWaiters { .. }
            | Self::ShuttingDown { .. }
            | Self::TurnTaken { .. }
            | Self::ExpireTooShort { .. }
            | Self::BackgroundThread { .. } => false,
        }
    }

    /// The same error of a body that had begun: a part of its work may have been done.
    pub(crate) fn of_begun_body(mut self) -> Self {
        if let Self::Lost { reason, .. } = &mut self
            && *reason == LostReason::Released
        {
            *reason = LostReason::OuterReleased;
        }
        self
    }
}
