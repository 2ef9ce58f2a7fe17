//! What stands in a lock: any bytes, which are text where redlock wrote them.

use std::fmt;

/// The random half of an owner value of redlock.
const RANDOM_LENGTH: usize = 32;
/// How many digits at its end may differ between the servers of a group.
const NUMBER_LENGTH: usize = 6;

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

    /// What people read. Another owner may have the same text if this one is not UTF-8.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// What the owner values of one hold on several servers have in common. A server that is asked
    /// for the lock again is sent another value if a command with the first may still arrive.
    pub(crate) fn hold(&self) -> &[u8] {
        let is_ours = halves(&self.text).is_some() && self.text.as_bytes() == self.bytes;
        let number = if is_ours { NUMBER_LENGTH } else { 0 };
        &self.bytes[..self.bytes.len() - number]
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

/// The client and the random half of an owner value of redlock.
fn halves(owner: &str) -> Option<(&str, &str)> {
    let is_random =
        |end: &str| end.len() == RANDOM_LENGTH && end.bytes().all(|byte| byte.is_ascii_hexdigit());
    owner.rsplit_once(':').filter(|(_, end)| is_random(end))
}

/// The name of the client that an owner value begins with: usually that of the process.
pub(crate) fn client(owner: &str) -> &str {
    retained_by(owner).or_else(|| halves(owner).map(|(client, _)| client)).unwrap_or(owner)
}

/// The client that has let go of a lock that stays taken until its `min_hold` is over.
pub(crate) fn retained_by(owner: &str) -> Option<&str> {
    halves(owner)?.0.strip_suffix(":retained")
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
