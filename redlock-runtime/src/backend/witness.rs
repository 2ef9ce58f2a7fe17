//! A witness: for how long clients have watched the process of a node, as they note it there for
//! other clients.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Clients have met this process, and no other, on a node for at least this long, by their own
/// clocks. A witness is one word of the list of founders on the node (`quorum/founders.rs`), and
/// says nothing about later processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Witness {
    pub(crate) run_id: Arc<str>,
    pub(crate) so_long: Duration,
}

impl Witness {
    /// The witness in the text of a list of founders, if there is one.
    pub(crate) fn find(founders: &str) -> Option<Self> {
        let (run_id, millis) = founders.split(' ').find_map(|word| word.split_once('='))?;
        let so_long = Duration::from_millis(millis.parse().ok()?);
        Some(Self { run_id: run_id.into(), so_long })
    }

    /// Is this word of a list a witness, and not the name of a founder?
    pub(crate) fn is_one(word: &str) -> bool {
        word.contains('=')
    }
}

impl fmt::Display for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.run_id, self.so_long.as_millis())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_witness_is_read_as_it_was_written() {
        let witness = Witness { run_id: "a/h".into(), so_long: Duration::from_millis(1_500) };
        assert_eq!(Witness::find(&format!("b c {witness}")), Some(witness.clone()));
        assert_eq!(Witness::find(&format!("{witness}")), Some(witness));
    }

    #[test]
    fn what_is_no_witness_proves_nothing() {
        for founders in ["", "-", "a b", "a=", "a=-1", "a=1.5", "a b=x"] {
            assert_eq!(Witness::find(founders), None, "{founders}");
        }
    }
}
