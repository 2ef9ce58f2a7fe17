//! `on_busy = "skip"`: a call that finds its lock busy returns without running its body.

use super::pending::Pending;
use crate::error::LockError;
use crate::foreign_text;
use crate::shield::tell;

/// A return type with a value for a call whose body was skipped.
#[diagnostic::on_unimplemented(
    message = "`on_busy = \"skip\"` has nothing to return for `{Self}` when the body is skipped",
    label = "expected `()`, `Option<T>`, or a `Result` of one of them",
    note = "return `()`, `Option<T>` (a skipped call returns `None`), `Result<(), E>` or \
            `Result<Option<T>, E>`",
    note = "or leave `on_busy` out: a busy lock is an error then, of which `LockError::is_busy` \
            tells, or a value of `on_error = |e| ..`"
)]
pub trait Skip: Sized {
    /// What a skipped call returns.
    fn skipped() -> Self;
}

impl Skip for () {
    fn skipped() -> Self {}
}

impl<T> Skip for Option<T> {
    fn skipped() -> Self {
        None
    }
}

// The message above shall show the whole return type, not the type in its `Ok`.
#[diagnostic::do_not_recommend]
impl<S: Skip, E> Skip for Result<S, E> {
    fn skipped() -> Self {
        Ok(S::skipped())
    }
}

/// What a skipped call returns. Only this function needs the trait, so that a type without it is
/// one error.
pub const fn skipped<R: Skip>() -> fn() -> R {
    R::skipped
}

/// Skips the body where the lock is busy, and gives what `skipped` returns; any other failure goes
/// to the handler of `pending`.
#[inline]
pub fn skip_busy<R, F, H>(
    pending: Pending<F, H>,
    template: &'static str,
    skipped: fn() -> R,
) -> Pending<F, impl FnOnce(LockError) -> R>
where
    F: Future<Output = R>,
    H: FnOnce(LockError) -> R,
{
    pending.map_handler(|on_error| {
        move |error| {
            if is_somebody_elses(&error) {
                tell_skipped(template, &error);
                skipped()
            } else {
                on_error(error)
            }
        }
    })
}

/// Had somebody else the lock for all of `wait`? Not so where Redis could not be asked, nor where
/// this task holds the lock and may not re-enter it.
fn is_somebody_elses(error: &LockError) -> bool {
    matches!(error, LockError::Timeout { .. } | LockError::TurnTaken { .. })
}

#[cold]
fn tell_skipped(template: &'static str, error: &LockError) {
    let key = error.key().unwrap_or_default();
    let holder = match error {
        LockError::Timeout { holder, .. } => holder.as_deref().map(foreign_text::shown),
        _ => None,
    };
    let holder = holder.as_deref();
    tell!(debug, key, template, holder, "call skipped: the lock is busy");
}
