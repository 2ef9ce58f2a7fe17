//! A rendered key, and keys that need no rendering.

use std::borrow::Cow;
use std::fmt;
use std::fmt::{Display, Write as _};

use super::lock_key::excerpt;
use super::printable::ListedKey;
use crate::error::{InvalidKeyReason, LockError};

/// A rendered key, or why it could not be rendered.
#[derive(Debug)]
pub struct Key(pub(crate) Result<Rendered, LockError>);

impl Key {
    /// Leaves an empty key.
    pub(crate) fn take(&mut self) -> Self {
        std::mem::replace(self, literal_key(""))
    }

    /// An expression in the list of `keys`: the value without escapes.
    // Compile errors show its path, which is short only beside its type.
    pub fn listed<T: ListedKey + ?Sized>(value: &T) -> Self {
        Self(display(value).map(Rendered::One))
    }
}

/// What the key or the keys of a call are.
#[derive(Debug)]
pub(crate) enum Rendered {
    One(Cow<'static, str>),
    /// Those of `keys = ..`, in the order in which they were written.
    Several(Vec<Cow<'static, str>>),
}

/// A template without placeholders.
#[inline]
pub fn literal_key(text: &'static str) -> Key {
    Key(Ok(Rendered::One(Cow::Borrowed(text))))
}

/// The text of a value, without escapes.
pub(super) fn display<T: Display + ?Sized>(value: &T) -> Result<Cow<'static, str>, LockError> {
    let mut text = String::new();
    match write!(text, "{value}") {
        Ok(()) => Ok(Cow::Owned(text)),
        Err(fmt::Error) => Err(invalid(&text, InvalidKeyReason::Display)),
    }
}

pub(super) fn invalid(text: &str, reason: InvalidKeyReason) -> LockError {
    LockError::InvalidKey { key: excerpt(text), reason }
}
