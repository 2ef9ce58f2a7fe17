//! Whose fault an error is, and the status that a web service answers with.

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
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// let nested = redlock.lock("stock-42").lead(async |_| 17);
    /// let error = redlock.lock("stock-42").run(nested).await?.unwrap_err();
    /// assert!(error.is_caller_error(), "it would wait for itself");
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

    /// The status with which a web service answers: 400 for an [invalid key](Self::is_invalid_key),
    /// 500 for a [mistake in the program](Self::is_caller_error), 409 where the lock is
    /// [busy](Self::is_busy), 503 where it is [unavailable](Self::is_unavailable), and 500 where it
    /// was [lost](Self::is_lost), as a part of the work may have been done.
    ///
    /// A header `Retry-After` comes from [`retry_after`](Self::retry_after), a text for those who
    /// called from [`public_message`](Self::public_message); `docs/errors.md` goes on with axum.
    ///
    /// ```
    /// use redlock::LockError;
    ///
    /// struct ApiError {
    ///     status: u16,
    ///     message: String,
    ///     /// For the header `Retry-After`: whole seconds, rounded up.
    ///     retry_after: Option<u128>,
    /// }
    ///
    /// impl From<LockError> for ApiError {
    ///     fn from(error: LockError) -> Self {
    ///         tracing::warn!(%error, "request failed"); // the whole text is for the log
    ///         Self {
    ///             status: error.http_status(),
    ///             message: error.public_message(),
    ///             retry_after: error.retry_after().map(|after| after.as_millis().div_ceil(1000)),
    ///         }
    ///     }
    /// }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// let _held = redlock.lock("stock-42").acquire().await?;
    /// let request = redlock.lock("stock-42").wait(redlock::Wait::Never);
    /// let busy = ApiError::from(request.acquire().await.unwrap_err());
    /// assert_eq!((busy.status, busy.retry_after), (409, Some(1)));
    /// assert_eq!(busy.message, "lock `stock-42` is busy; try again later");
    /// # Ok(()) }
    /// ```
    pub fn http_status(&self) -> u16 {
        match self {
            error if error.is_invalid_key() => 400,
            // Asked before whether it is busy: the task itself may have the lock.
            error if error.is_caller_error() => 500,
            error if error.is_busy() => 409,
            error if error.is_unavailable() => 503,
            _ => 500,
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
