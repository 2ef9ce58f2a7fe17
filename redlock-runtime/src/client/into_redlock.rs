//! What `init` accepts.

use deadpool_redis::Pool;

use super::builder::RedlockBuilder;
use super::redlock::Redlock;
use crate::error::LockError;

/// What [`init`](crate::init) can make a client of: a URL (`&str`, `String` or `&String`), the URLs
/// of N masters (`Vec<String>`), a `deadpool_redis::Pool`, a builder, or a client.
///
/// ```
/// use redlock::{IntoRedlock, Redlock};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlock::LockError> {
/// let redlock: Redlock = Redlock::builder().memory().into_redlock().await?;
/// # drop(redlock);
/// # Ok(()) }
/// ```
pub trait IntoRedlock: sealed::Sealed {
    /// Builds the client. [`init`](crate::init) calls it.
    ///
    /// # Errors
    /// As [`RedlockBuilder::build`].
    ///
    /// # Cancel safety
    /// As [`RedlockBuilder::build`].
    ///
    /// ```
    /// use redlock::IntoRedlock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let error = "http://10.0.0.7".into_redlock().await.unwrap_err();
    /// assert!(matches!(error, redlock::LockError::Config { .. }), "{error}");
    /// # }
    /// ```
    fn into_redlock(self) -> impl Future<Output = Result<Redlock, LockError>> + Send;
}

impl IntoRedlock for RedlockBuilder {
    async fn into_redlock(self) -> Result<Redlock, LockError> {
        self.build().await
    }
}

impl IntoRedlock for &str {
    fn into_redlock(self) -> impl Future<Output = Result<Redlock, LockError>> + Send {
        Redlock::builder().url(self).build()
    }
}

impl IntoRedlock for String {
    async fn into_redlock(self) -> Result<Redlock, LockError> {
        Redlock::builder().url(self).build().await
    }
}

impl IntoRedlock for &String {
    fn into_redlock(self) -> impl Future<Output = Result<Redlock, LockError>> + Send {
        self.as_str().into_redlock()
    }
}

impl IntoRedlock for Vec<String> {
    async fn into_redlock(self) -> Result<Redlock, LockError> {
        Redlock::builder().urls(self).build().await
    }
}

impl IntoRedlock for Pool {
    async fn into_redlock(self) -> Result<Redlock, LockError> {
        Redlock::builder().pool(self).build().await
    }
}

impl IntoRedlock for Redlock {
    async fn into_redlock(self) -> Result<Redlock, LockError> {
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field of a configuration is lent, not given.
    #[tokio::test]
    async fn a_borrowed_string_is_a_url() {
        let url = String::from("http://10.0.0.7");
        let lent = (&url).into_redlock().await.unwrap_err();
        assert_eq!(lent, url.as_str().into_redlock().await.unwrap_err());
        assert_eq!(lent, url.into_redlock().await.unwrap_err());
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for crate::client::RedlockBuilder {}
    impl Sealed for &str {}
    impl Sealed for String {}
    impl Sealed for &String {}
    impl Sealed for Vec<String> {}
    impl Sealed for super::Pool {}
    impl Sealed for crate::client::Redlock {}
}
