//! A witness: for how long clients have watched the process of a node, as they note it there for
//! other clients.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// What clocks showed, in milliseconds since 1970, by the names of the clocks.
pub(crate) type Dates = BTreeMap<Arc<str>, i64>;

/// Clients have met this process, and no other, on a node for at least this long, by their own
/// clocks. A witness stands in the list of founders on the node (`quorum/founders.rs`), and says
/// nothing about later processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Witness {
    pub(crate) run_id: Arc<str>,
    pub(crate) watched_for: Duration,
    /// What clocks of others showed when clients had already met this process
    /// (`quorum/other_clocks.rs`).
    pub(crate) dates: Dates,
    /// The process before this one, where a client that met both has found that this one has kept
    /// all of its data.
    pub(crate) heir_of: Option<Predecessor>,
}

/// The process that was on a node before another one, which has kept all of its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Predecessor {
    pub(crate) run_id: Arc<str>,
    /// What the clock of the later process showed when a client met it, in milliseconds since 1970.
    /// A client that had an answer of the predecessor after this knows that both processes lived at
    /// once: neither has all data of the other.
    pub(crate) followed_at: i64,
}

impl Predecessor {
    /// `run_id:millis`.
    fn parse(text: &str) -> Option<Self> {
        let (run_id, millis) = text.rsplit_once(':')?;
        Some(Self { run_id: run_id.into(), followed_at: millis.parse().ok()? })
    }

    /// What two clients say: the earlier date of one predecessor, or else what `self` says.
    pub(crate) fn or_earlier(mut self, other: Option<&Self>) -> Self {
        if let Some(other) = other.filter(|other| other.run_id == self.run_id) {
            self.followed_at = self.followed_at.min(other.followed_at);
        }
        self
    }
}

impl Witness {
    /// The witness in the text of a list of founders, if there is one: one word for how long, one
    /// for the dates, and one for the process whose data this one has kept. A client that does not
    /// know the later words reads the first one, and leaves them out when it writes the list.
    pub(crate) fn find(founders: &str) -> Option<Self> {
        let mut words = founders.split(' ').filter_map(|word| word.split_once('='));
        let (run_id, millis) = words.next()?;
        let watched_for = Duration::from_millis(millis.parse().ok()?);
        // What is said of another process says nothing about this one.
        let words: Vec<&str> =
            words.filter(|(name, _)| *name == run_id).map(|(_, word)| word).collect();
        let heir_of =
            words.iter().filter_map(|word| word.strip_prefix('^')).find_map(Predecessor::parse);
        let dates = words.iter().filter_map(|word| word.strip_prefix('@'));
        let dates = dates.flat_map(|dates| dates.split(',')).filter_map(|date| {
            let (clock, millis) = date.rsplit_once(':')?;
            Some((clock.into(), millis.parse().ok()?))
        });
        Some(Self { run_id: run_id.into(), watched_for, dates: dates.collect(), heir_of })
    }

    /// Is this word of a list a witness, and not the name of a founder?
    pub(crate) fn is_one(word: &str) -> bool {
        word.contains('=')
    }
}

impl fmt::Display for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run_id, watched_for, dates, heir_of } = self;
        write!(f, "{run_id}={}", watched_for.as_millis())?;
        for (index, (clock, millis)) in dates.iter().enumerate() {
            if index == 0 {
                write!(f, " {run_id}=@{clock}:{millis}")?;
            } else {
                write!(f, ",{clock}:{millis}")?;
            }
        }
        match heir_of {
            Some(former) => write!(f, " {run_id}=^{}:{}", former.run_id, former.followed_at),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn witness(dates: &[(&str, i64)]) -> Witness {
        let dates = dates.iter().map(|(clock, millis)| ((*clock).into(), *millis)).collect();
        let watched_for = Duration::from_millis(1_500);
        Witness { run_id: "a/h".into(), watched_for, dates, heir_of: None }
    }

    #[test]
    fn a_witness_is_read_as_it_was_written() {
        for (dates, text) in [
            (&[][..], "a/h=1500"),
            (&[("client", 7), ("d:e", -9)], "a/h=1500 a/h=@client:7,d:e:-9"),
        ] {
            let witness = witness(dates);
            let former = Predecessor { run_id: "z/r:1".into(), followed_at: -3 };
            let heir = Witness { heir_of: Some(former), ..witness.clone() };
            let of_heir = format!("{text} a/h=^z/r:1:-3");
            for (witness, text) in [(witness, text.to_owned()), (heir, of_heir)] {
                assert_eq!(witness.to_string(), text);
                assert_eq!(Witness::find(&format!("b c {witness}")), Some(witness.clone()));
                assert_eq!(Witness::find(&text), Some(witness));
            }
        }
    }

    #[test]
    fn what_is_no_witness_proves_nothing() {
        for founders in ["", "-", "a b", "a=", "a=-1", "a=1.5", "a b=x", "a=@b:1"] {
            assert_eq!(Witness::find(founders), None, "{founders}");
        }
    }

    /// A client that does not know dates leaves a list without them, or writes a word of its own.
    #[test]
    fn further_words_count_for_the_process_that_they_name() {
        for founders in [
            "a/h=1500 b=^z:1",
            "a/h=1500 b^z:1",
            "a/h=1500 a/h=^z",
            "a/h=1500 a/h=^z:",
            "a/h=1500 b=@c:7",
            "a/h=1500 b@c:7",
            "a/h=1500 a/h=c:7",
            "a/h=1500 @c:7",
        ] {
            assert_eq!(Witness::find(founders), Some(witness(&[])), "{founders}");
        }
        let half = Witness::find("a/h=1500 a/h=@c,d:,:,e:x,f:8").unwrap();
        assert_eq!(half, witness(&[("f", 8)]));
    }
}
