//! Who has a lock: by the record of one server, and by those of a group of servers.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use redlock::__operator as operator;

use crate::owner_value::{OwnerValue, client, retained_by};

/// How a lock is shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Exclusive,
    Read,
    Permits,
}

impl Kind {
    /// By what stands in the lock: an owner, or the marker of a shared kind.
    pub(crate) fn of(value: &str) -> Self {
        match value {
            operator::READERS => Self::Read,
            operator::PERMITS => Self::Permits,
            _ => Self::Exclusive,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::Read => "read",
            Self::Permits => "permits",
        }
    }

    pub(crate) fn is_shared(self) -> bool {
        self != Self::Exclusive
    }

    /// `3 readers`; without a number where it is not known.
    pub(crate) fn group(self, count: usize) -> String {
        let count = Some(count).filter(|count| *count > 0);
        if self == Self::Read {
            operator::shown_readers(count)
        } else {
            operator::shown_permits(count)
        }
    }
}

/// A lock that is held, on one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    /// What stands in the lock: its owner, or the marker of a shared kind.
    pub(crate) value: OwnerValue,
    /// `None`: without an expiry, which redlock never does.
    pub(crate) left: Option<Duration>,
    /// Those who share the lock; empty if it is exclusive, if this user may not see them, or if
    /// the last of them has just let go. `None`: what is left is not known, as the lock has no
    /// expiry.
    pub(crate) members: BTreeMap<OwnerValue, Option<Duration>>,
    /// This user may not see who shares the lock.
    pub(crate) hides_members: bool,
    /// How many processes wait in the queue of this server. `None`: this user may not see it.
    pub(crate) waiting: Option<usize>,
    /// When the server has said so: what is left of a lease counts from then.
    pub(crate) answered: Instant,
}

impl Record {
    /// The record at a later moment, if no command changes it. Nothing may be left of a lease by
    /// then; whether it was renewed is not known, so that the lock does not count as free.
    pub(crate) fn at(mut self, now: Instant) -> Self {
        let age = now.saturating_duration_since(self.answered);
        let lefts = self.members.values_mut().chain([&mut self.left]);
        lefts.flatten().for_each(|left| *left = left.saturating_sub(age));
        self.answered = now;
        self
    }

    /// Is one of its leases over at a later moment, if no command changes it?
    pub(crate) fn is_old(&self, now: Instant) -> bool {
        let age = now.saturating_duration_since(self.answered);
        let mut lefts = self.members.values().chain([&self.left]).flatten();
        lefts.any(|left| *left <= age)
    }

    /// The owners, and what is left of their leases.
    pub(crate) fn owners(&self) -> Vec<(&OwnerValue, Option<Duration>)> {
        if Kind::of(self.value.text()).is_shared() {
            self.members.iter().map(|(owner, left)| (owner, *left)).collect()
        } else {
            vec![(&self.value, self.left)]
        }
    }

    pub(crate) fn shown(&self) -> String {
        shown(self.value.text(), self.members.len())
    }
}

/// One of those who hold a lock, by the answers of all servers of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) value: OwnerValue,
    /// Its values on the servers, which differ in their last digits only.
    pub(crate) values: BTreeSet<OwnerValue>,
    pub(crate) left: Option<Duration>,
    /// On how many servers.
    pub(crate) votes: usize,
}

/// Who has a lock, by the answers of all servers of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Holder {
    /// What stands in the lock: its owner, or the marker of a shared kind.
    pub(crate) value: OwnerValue,
    /// One, or all who share the lock: those with a majority. Empty if this user may not see them,
    /// or if the last of them has just let go.
    pub(crate) owners: Vec<Owner>,
    /// What is left of the last lease.
    pub(crate) left: Option<Duration>,
    /// On how many servers.
    pub(crate) votes: usize,
    /// Of how many.
    pub(crate) of: usize,
    /// How many of these do not answer.
    pub(crate) unanswered: usize,
    /// In the longest queue. `None`: this user may not see any.
    pub(crate) waiting: Option<usize>,
}

impl Holder {
    /// Does a majority make it the holder? Otherwise it is on its way, or left over.
    pub(crate) fn is_majority(&self) -> bool {
        self.votes > self.of / 2
    }

    /// Does a majority make it the holder? `None`: the servers that do not answer decide that.
    pub(crate) fn is_held(&self) -> Option<bool> {
        let is_open = self.votes + self.unanswered > self.of / 2;
        (self.is_majority() || !is_open).then_some(self.is_majority())
    }

    pub(crate) fn kind(&self) -> Kind {
        Kind::of(self.value.text())
    }

    /// The owner of an exclusive lock.
    pub(crate) fn sole_owner(&self) -> Option<&str> {
        (!self.kind().is_shared()).then_some(self.value.text())
    }

    /// For a table: the client, or how many share the lock.
    pub(crate) fn shown(&self) -> String {
        shown(self.value.text(), self.owners.len())
    }

    /// How many wait, for a table.
    pub(crate) fn shown_waiting(&self) -> String {
        self.waiting.map_or_else(|| "?".to_owned(), |waiting| waiting.to_string())
    }

    /// The one that most of `of` servers have.
    pub(crate) fn among<'a>(
        records: impl Iterator<Item = &'a Record> + Clone,
        of: usize,
    ) -> Option<Self> {
        let values = records.clone().map(|record| vec![(&record.value, record.left)]);
        let first = elected(values, of).into_iter().max_by_key(|owner| owner.votes)?;
        let waiting = records.clone().map(|record| record.waiting).max().flatten();
        let same = records.filter(|record| record.value.hold() == first.value.hold());
        let mut owners = elected(same.map(Record::owners), of);
        // A marker alone makes no holder.
        let most = owners.iter().map(|owner| owner.votes).max();
        let votes = most.unwrap_or(first.votes);
        if votes > of / 2 {
            owners.retain(|owner| owner.votes > of / 2);
        }
        let (value, left) = (first.value, first.left);
        Some(Self { value, owners, left, votes, of, unanswered: 0, waiting })
    }
}

/// The number of a server, what stands there, and what is left of that.
type Vote<'a> = (usize, &'a OwnerValue, Option<Duration>);

/// The values that `servers` have, each with its votes, and what is left until it loses the
/// majority of `of` servers.
fn elected<'a>(
    servers: impl Iterator<Item = Vec<(&'a OwnerValue, Option<Duration>)>>,
    of: usize,
) -> Vec<Owner> {
    let mut votes: BTreeMap<&[u8], Vec<Vote<'_>>> = BTreeMap::new();
    for (server, values) in servers.enumerate() {
        for (value, left) in values {
            votes.entry(value.hold()).or_default().push((server, value, left));
        }
    }
    // No expiry is the longest.
    let longest_first = |left: &Option<Duration>| Reverse(left.unwrap_or(Duration::MAX));
    let owner = |named: Vec<Vote<'_>>| {
        // A server may have a reader under two values, and has one vote.
        let mut lefts: BTreeMap<usize, Option<Duration>> = BTreeMap::new();
        for (server, _, left) in &named {
            let known = lefts.entry(*server).or_insert(*left);
            *known = [*known, *left].into_iter().min_by_key(longest_first).flatten();
        }
        let mut left: Vec<_> = lefts.into_values().collect();
        left.sort_by_key(longest_first);
        let votes = left.len();
        let count =
            |value: &OwnerValue| named.iter().filter(|(_, found, _)| *found == value).count();
        let values: BTreeSet<OwnerValue> =
            named.iter().map(|(_, value, _)| (*value).clone()).collect();
        let value = values.iter().rev().max_by_key(|value| count(value)).cloned();
        let value = value.unwrap_or_else(|| "".into());
        Owner { value, values, left: left[(of / 2).min(votes - 1)], votes }
    };
    votes.into_values().map(owner).collect()
}

fn shown(value: &str, count: usize) -> String {
    let kind = Kind::of(value);
    match retained_by(value) {
        _ if kind.is_shared() => kind.group(count),
        Some(client) => format!("{client} (retained)"),
        None => client(value).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANDOM: &str = "0123456789abcdef0123456789abcdef";

    fn held(value: &str, secs: u64) -> Record {
        let left = Some(Duration::from_secs(secs));
        let (members, answered) = (BTreeMap::new(), Instant::now());
        let value = value.into();
        Record { value, left, members, hides_members: false, waiting: Some(0), answered }
    }

    fn read(members: &[(&str, u64)]) -> Record {
        let member = |(owner, secs): &(&str, u64)| {
            (OwnerValue::from(*owner), Some(Duration::from_secs(*secs)))
        };
        let most = members.iter().map(|(_, secs)| *secs).max().unwrap_or(9);
        Record { members: members.iter().map(member).collect(), ..held("<readers>", most) }
    }

    #[test]
    fn a_record_grows_old() {
        let record = read(&[("a", 9), ("b", 5)]);
        let after = |secs| record.clone().at(record.answered + Duration::from_secs(secs));
        let seen = |secs| {
            let record = after(secs);
            let owners = record.owners().into_iter();
            owners.map(|(owner, left)| (owner.text().to_owned(), left)).collect::<Vec<_>>()
        };
        let left = |secs| Some(Duration::from_secs(secs));
        assert_eq!(seen(0), [("a".to_owned(), left(9)), ("b".to_owned(), left(5))]);
        assert_eq!(seen(6), [("a".to_owned(), left(3)), ("b".to_owned(), left(0))]);
        let is_old = |secs| record.is_old(record.answered + Duration::from_secs(secs));
        assert!(!is_old(4) && is_old(5), "the lease of b may be over");
        assert_eq!((after(5).left, after(99).left), (left(4), left(0)), "it may be renewed");
        let twice = after(4).at(record.answered + Duration::from_secs(8));
        assert_eq!(twice.left, left(1), "no age counts twice");
        let endless = Record { left: None, ..held("a", 9) };
        let later = endless.answered + Duration::from_secs(99);
        assert_eq!(endless.clone().at(later), Record { answered: later, ..endless });
    }

    #[test]
    fn the_owner_of_a_majority_is_the_holder() {
        let records = [held("a", 9), held("b", 30), held("a", 7)];
        let holder = Holder::among(records.iter(), 3).unwrap();
        assert_eq!((holder.sole_owner(), holder.votes), (Some("a"), 2));
        assert_eq!(holder.left, Some(Duration::from_secs(7)), "then the majority is gone");
        assert!(holder.is_majority());
        let waiting = |waiting| Record { waiting, ..held("a", 9) };
        let records = [waiting(Some(1)), waiting(Some(2)), waiting(None)];
        let holder = Holder::among(records.iter(), 3).unwrap();
        assert_eq!((holder.waiting, &*holder.shown_waiting()), (Some(2), "2"), "the longest queue");
        let holder = Holder::among([waiting(None)].iter(), 1).unwrap();
        assert_eq!((holder.waiting, &*holder.shown_waiting()), (None, "?"));
        let records = [held("a", 9), held("a", 7), held("a", 5)];
        let holder = Holder::among(records.iter(), 3).unwrap();
        assert_eq!(holder.left, Some(Duration::from_secs(7)), "two of three are left until then");
        assert!(!Holder::among([held("a", 1)].iter(), 3).unwrap().is_majority());
        assert_eq!(Holder::among([].iter(), 3), None);
        let few = Holder::among([held("a", 1)].iter(), 3).unwrap();
        assert_eq!(few.is_held(), Some(false));
        assert_eq!(Holder { unanswered: 1, ..few }.is_held(), None, "that one may have it, too");
    }

    /// A server that was asked again has the owner under another value.
    #[test]
    fn the_values_of_one_hold_are_one_holder() {
        let value = |end: &str| format!("web-3:{}{end}", &RANDOM[..26]);
        let [first, second, third] = ["aaaaaa", "aaaaab", "aaaaac"].map(value);
        let other = format!("web-3:{}", RANDOM.replace('0', "1"));
        let records = [held(&second, 9), held(&first, 8), held(&third, 7), held(&other, 9)];
        let holder = Holder::among(records.iter(), 5).unwrap();
        assert_eq!((holder.votes, holder.sole_owner()), (3, Some(&*first)));
        assert!(holder.is_majority());
        let values = [&first, &second, &third].map(|value| OwnerValue::from(&**value));
        assert_eq!(holder.owners[0].values, BTreeSet::from(values));
        assert_ne!(OwnerValue::from(&*first).hold(), OwnerValue::from(&*other).hold());
        let readers = [read(&[(&first, 9)]), read(&[(&value("aaaaab"), 9)])];
        assert_eq!(Holder::among(readers.iter(), 3).unwrap().shown(), "1 reader");
        for lefts in [[9, 8], [8, 9]] {
            let twice = [read(&[(&first, lefts[0]), (&second, lefts[1])])];
            assert!(!Holder::among(twice.iter(), 3).unwrap().is_majority(), "one server of three");
            let alone = Holder::among(twice.iter(), 1).unwrap();
            assert_eq!(alone.owners[0].left, Some(Duration::from_secs(9)), "the longer lease");
        }
        let records = [held(&first, 9), held(&second, 8), held(&second, 7)];
        let named = Holder::among(records.iter(), 3).unwrap();
        assert_eq!(named.sole_owner(), Some(&*second), "the value that most servers have");
    }

    #[test]
    fn each_reader_needs_a_majority() {
        let records = [read(&[("a", 9), ("b", 5)]), read(&[("b", 4)]), read(&[("b", 3), ("c", 2)])];
        let holder = Holder::among(records.iter(), 3).unwrap();
        assert_eq!(
            (holder.kind(), holder.votes, holder.shown()),
            (Kind::Read, 3, "1 reader".into())
        );
        let left = Some(Duration::from_secs(4));
        let values = BTreeSet::from(["b".into()]);
        assert_eq!(holder.owners, [Owner { value: "b".into(), values, left, votes: 3 }]);
        let records = [read(&[("a", 9)]), read(&[("b", 9)])];
        let holder = Holder::among(records.iter(), 3).unwrap();
        assert!(!holder.is_majority(), "the marker has a majority, and nobody holds the lock");
        assert_eq!(holder.owners.len(), 2, "what is left over can be seen");
    }

    #[test]
    fn readers_that_this_user_may_not_see() {
        let holder = Holder::among([read(&[])].iter(), 1).unwrap();
        assert!(holder.is_majority() && holder.owners.is_empty());
        assert_eq!((holder.shown().as_str(), holder.sole_owner()), ("readers", None));
    }

    #[test]
    fn a_retained_lock_names_who_has_let_go_of_it() {
        assert_eq!(held(&format!("web-3:retained:{RANDOM}"), 9).shown(), "web-3 (retained)");
    }

    #[test]
    fn owners_that_look_alike_make_no_majority() {
        let other = |bytes: &[u8]| Record { value: bytes.to_vec().into(), ..held("", 9) };
        let records = [other(b"a\xff"), other(b"a\xfe"), held("c", 9)];
        assert_eq!(Holder::among(records.iter(), 3).unwrap().votes, 1);
    }
}
