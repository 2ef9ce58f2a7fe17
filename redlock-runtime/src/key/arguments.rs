//! What the expansion does with the arguments of a call while its key is rendered.

/// Runs `render` in a frame of its own: what it borrows takes no space in the caller's future.
#[inline]
pub fn lend<A, T>(arguments: A, render: impl FnOnce(A) -> T) -> T {
    render(arguments)
}

/// The expansion names it where a variable is to be moved, and never calls it.
#[inline]
pub fn take<T>(_: T) {}

/// [`take`] of a variable. To the lints of the caller the macro names it, not the caller, so that
/// they let a name pass that begins with `_`.
#[doc(hidden)]
#[macro_export]
macro_rules! __take {
    ($variable:ident) => {
        $crate::__private::take($variable)
    };
}
