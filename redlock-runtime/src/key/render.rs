//! Renders a key from a template's texts and values, so that different values never share a key.
//!
//! Inside the values `%`, which begins an escape, and `{` and `}` are always escaped, so that no
//! value can choose the hash slot of its key. With two or more placeholders, the delimiter of every
//! gap is escaped as well. So the first delimiter after a value ends it, and the key can be taken
//! apart again in only one way: rendering is injective.

use std::borrow::Cow;
use std::fmt;
use std::fmt::Write as _;

use self::escape::Escape;
use super::rendered::{Key, Rendered, invalid};
use crate::error::InvalidKeyReason;

mod escape;

/// A key being rendered.
#[must_use]
#[derive(Debug)]
pub struct Render {
    text: String,
    delimiters: &'static str,
    error: Option<InvalidKeyReason>,
}

impl Render {
    /// For a template with one placeholder: the value needs no delimiters.
    #[inline]
    #[expect(clippy::new_without_default, reason = "called by the expansion, never by hand")]
    pub fn new() -> Self {
        Self::injective("")
    }

    /// For two or more placeholders: `delimiters` holds one character of every gap between them.
    #[inline]
    pub fn injective(delimiters: &'static str) -> Self {
        Self { text: String::with_capacity(64), delimiters, error: None }
    }

    /// Literal text of the template.
    #[inline]
    pub fn text(mut self, text: &'static str) -> Self {
        self.text.push_str(text);
        self
    }

    /// The value of the placeholder `name`.
    pub fn value(mut self, name: &'static str, value: fmt::Arguments<'_>) -> Self {
        let start = self.text.len();
        let mut escape =
            Escape { text: &mut self.text, delimiters: self.delimiters, control: None };
        let written = escape.write_fmt(value);
        let control = escape.control;
        let problem = match (written, control) {
            (_, Some(c)) => Some(InvalidKeyReason::ControlCharacter(c)),
            (Err(fmt::Error), None) => Some(InvalidKeyReason::Display),
            (Ok(()), None) if self.text.len() == start => Some(InvalidKeyReason::EmptyValue(name)),
            (Ok(()), None) => None,
        };
        self.error = self.error.or(problem);
        self
    }

    /// The whole key.
    pub fn finish(self) -> Key {
        match self.error {
            None => Key(Ok(Rendered::One(Cow::Owned(self.text)))),
            Some(reason) => Key(Err(invalid(&self.text, reason))),
        }
    }
}

#[cfg(test)]
mod tests;
