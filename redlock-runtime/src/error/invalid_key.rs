//! Why a key cannot name a lock.

use std::fmt;

/// What is wrong with a key.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlock::LockError> {
/// # let redlock = redlock::Redlock::builder().memory().build().await?;
/// let error = redlock.lock("").acquire().await.unwrap_err();
/// assert!(error.to_string().contains("the key is empty"));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidKeyReason {
    /// The key is empty: all callers would share one lock.
    Empty,
    /// The named placeholder rendered to nothing: all callers without a value would share one lock.
    EmptyValue(&'static str),
    /// The key holds a control character, such as a line break.
    ControlCharacter(char),
    /// The key is longer than 1,024 bytes (the number says how long).
    TooLong(usize),
    /// The key ends with this suffix, which the helper keys of redlock use.
    ReservedSuffix(&'static str),
    /// The key holds a `}` but no `{tag}`: its helper keys could not share its hash slot.
    UnbalancedBrace,
    /// A `Display` implementation of a value returned an error.
    Display,
}

impl fmt::Display for InvalidKeyReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str(
                "the key is empty, so all callers would share one lock; name what is locked, as \
                 in `stock-42`",
            ),
            Self::EmptyValue(name) => write!(
                f,
                "`<{name}>` is empty, so all callers without a value would share one lock; check \
                 the value before the call"
            ),
            Self::ControlCharacter(c) => {
                write!(f, "it contains the control character {c:?}; format the value without it")
            }
            Self::TooLong(length) => {
                write!(f, "it has {length} bytes, the limit is 1024; use an id or a hash instead")
            }
            Self::ReservedSuffix(suffix) => {
                write!(
                    f,
                    "it ends with `{suffix}`, which is reserved for helper keys; append \
                     something to it"
                )
            }
            Self::UnbalancedBrace => f.write_str(
                "it has a `}` without a `{tag}`, so helper keys cannot share its hash slot; write \
                 the braces as `{tag}`, or leave them out",
            ),
            Self::Display => {
                f.write_str("the `Display` of a value in it returned an error; correct its `fmt`")
            }
        }
    }
}
