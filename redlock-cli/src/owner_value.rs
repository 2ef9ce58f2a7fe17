//! What stands in a lock: any bytes, which are text where redlock wrote them.

use std::fmt;

use redlock::__operator::hold_of;
pub(crate) use redlock::__operator::{client_of as client, retained_by};

/// So many bytes of a lock are read: a value that is not of a lock can be as large as the server
/// allows. Owner values are much shorter.
pub(crate) const LONGEST: usize = 4096;

/// An owner, or the marker of a shared kind. Two values are the same if their bytes are.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OwnerValue {
    bytes: Vec<u8>,
    text: String,
}

impl OwnerValue {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Are there more bytes, which were not read?
    pub(crate) fn may_be_cut(&self) -> bool {
        self.bytes.len() >= LONGEST
    }

    /// What people read. Another owner may have the same text if this one is not UTF-8.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// What the owner values of one hold on several servers have in common. A server that is asked
    /// for the lock again is sent another value if a command with the first may still arrive.
    pub(crate) fn hold(&self) -> &[u8] {
        let is_text = self.text.as_bytes() == self.bytes;
        if is_text { hold_of(&self.text).as_bytes() } else { &self.bytes }
    }
}

impl From<Vec<u8>> for OwnerValue {
    fn from(bytes: Vec<u8>) -> Self {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Self { bytes, text }
    }
}

impl From<&str> for OwnerValue {
    fn from(text: &str) -> Self {
        text.as_bytes().to_vec().into()
    }
}

impl fmt::Debug for OwnerValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.bytes.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANDOM: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn the_client_of_an_owner() {
        assert_eq!(client(&format!("web-3:{RANDOM}")), "web-3");
        assert_eq!(client("somebody:else"), "somebody:else");
        let retained = format!("web-3:retained:{RANDOM}");
        assert_eq!((client(&retained), retained_by(&retained)), ("web-3", Some("web-3")));
        assert_eq!(retained_by("web-3:retained:x"), None);
    }

    #[test]
    fn owners_are_compared_by_their_bytes() {
        let owners = [b"a\xff", b"a\xfe"].map(|bytes| OwnerValue::from(bytes.to_vec()));
        assert_eq!(owners[0].text(), owners[1].text());
        assert_ne!(owners[0], owners[1]);
        assert_eq!(format!("{:?}", owners[0]), "\"a\\xff\"");
    }
}
