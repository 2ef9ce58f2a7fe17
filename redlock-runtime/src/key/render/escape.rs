//! The escapes inside the values of a key.

use std::fmt;

/// Percent-escapes the characters that could be taken for structure.
pub(super) struct Escape<'a> {
    pub(super) text: &'a mut String,
    pub(super) delimiters: &'static str,
    pub(super) control: Option<char>,
}

impl fmt::Write for Escape<'_> {
    fn write_str(&mut self, value: &str) -> fmt::Result {
        let mut plain_from = 0;
        for (at, c) in value.char_indices() {
            if c.is_control() {
                self.control.get_or_insert(c);
            }
            if matches!(c, '%' | '{' | '}') || self.delimiters.contains(c) {
                self.text.push_str(&value[plain_from..at]);
                plain_from = at + c.len_utf8();
                for byte in value[at..plain_from].bytes() {
                    write!(self.text, "%{byte:02X}")?;
                }
            }
        }
        self.text.push_str(&value[plain_from..]);
        Ok(())
    }
}
