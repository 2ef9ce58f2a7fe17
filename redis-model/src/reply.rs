//! What a server answers.

/// A reply of the protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The null bulk string.
    Nil,
    /// A status, such as `OK`.
    Status(String),
    /// An error: its code, a space, and what it says.
    Error(String),
    /// An integer.
    Int(i64),
    /// A bulk string.
    Bulk(Vec<u8>),
    /// An array.
    Array(Vec<Reply>),
}

impl Reply {
    pub(crate) fn ok() -> Self {
        Self::Status("OK".to_owned())
    }

    pub(crate) fn error(message: &str) -> Self {
        Self::Error(message.to_owned())
    }

    pub(crate) fn count(number: usize) -> Self {
        Self::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }

    /// The value, or the null bulk string.
    pub(crate) fn or_nil(value: Option<Vec<u8>>) -> Self {
        value.map_or(Self::Nil, Self::Bulk)
    }
}
