//! How a lock failure becomes the return value of the function.

use crate::error::LockError;

/// A return type that can carry a [`LockError`].
#[diagnostic::on_unimplemented(
    message = "`#[redis_lock]` cannot report a lock failure through the return type `{Self}`",
    label = "expected `Result<T, E>` where `E: From<redlock::LockError>`",
    note = "return a `Result<T, E>` whose error type implements `From<redlock::LockError>`",
    note = "or state what a lock failure means here: `#[redis_lock(.., on_error = |e| ..)]` or \
            `on_error = panic`",
    note = "`on_busy = \"skip\"` needs one of these beside it: it covers a lock that is busy, not \
            a Redis that does not answer"
)]
pub trait FromLockError: Sized {
    /// The failure, as a return value.
    fn from_lock_error(error: LockError) -> Self;
}

// The message above says more than a missing `From` for one of the program's error types.
#[diagnostic::do_not_recommend]
impl<T, E: From<LockError>> FromLockError for Result<T, E> {
    fn from_lock_error(error: LockError) -> Self {
        Err(E::from(error))
    }
}

/// `on_error = panic`
#[cold]
#[track_caller]
#[expect(clippy::missing_panics_doc, clippy::needless_pass_by_value, reason = "it is its name")]
pub fn panic_on<T>(error: LockError) -> T {
    panic!("{error}")
}
