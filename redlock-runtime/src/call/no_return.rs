//! What is evaluated before the lock is taken, and must not return from the function.

/// Evaluates code whose macros are not looked into. A `return` that one of them hides would leave
/// the function without the lock; in `evaluate` its value has the wrong type.
#[inline]
pub fn no_return<T>(evaluate: impl FnOnce() -> NoReturn<T>) -> T {
    evaluate().0
}

/// The value of code that does not return from the function. Only the expansion makes one.
// With a public field rustc would advise to wrap what is returned.
#[derive(Debug)]
pub struct NoReturn<T>(T);

impl<T> NoReturn<T> {
    /// The value, at the end of the code.
    #[inline]
    pub const fn of(value: T) -> Self {
        Self(value)
    }
}
