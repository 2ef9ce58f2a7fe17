//! The roll of a group of nodes: which of them it began with. Pure.
//!
//! A young node may have forgotten leases, or never granted any because the whole group is new. A
//! client alone cannot tell; the other nodes can: the first client leaves the roll on all of them.
//! Where one of them has it, the group is older than the client, and a young node that is not on
//! it was restarted.

use std::collections::BTreeSet;

use crate::backend::{Cause, Recall};
use crate::clock::Moment;

/// How long a roll stands. Every client that meets a node without it leaves it there again.
pub(super) const LIFE: std::time::Duration = std::time::Duration::from_secs(48 * 3600);
/// A node that is older than this belongs to a group that exists, with or without a roll.
const OLD: std::time::Duration = std::time::Duration::from_secs(24 * 3600);
/// Stands for a roll without names: an empty value would look like none.
const NOBODY: &str = "-";

/// The run ids of the nodes that were there from the beginning.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Roll {
    founders: BTreeSet<String>,
}

impl Roll {
    /// What clients have left on the nodes. Who is on one roll and not on another is not trusted:
    /// two clients began at once, and saw different servers. `None`: nobody has left any.
    pub(super) fn agreed<'a>(rolls: impl Iterator<Item = &'a str>) -> Option<Self> {
        let parse = |text: &str| -> BTreeSet<String> {
            text.split(' ').filter(|name| *name != NOBODY).map(str::to_owned).collect()
        };
        let founders = rolls.map(parse).reduce(|all, next| &all & &next)?;
        Some(Self { founders })
    }

    /// Of a group that nobody has left a roll on.
    pub(super) fn begun(recalls: &[Option<Recall>], now: Moment) -> Self {
        let is_old = |recall: &Recall| now.since(recall.since) >= OLD;
        let known = || recalls.iter().flatten();
        if known().any(is_old) {
            return Self::default();
        }
        let is_new = |recall: &&Recall| recall.cause == Cause::Started;
        let founders = known().filter(is_new).map(|recall| recall.run_id.as_ref().to_owned());
        Self { founders: founders.collect() }
    }

    pub(super) fn has(&self, recall: &Recall) -> bool {
        recall.cause == Cause::Started && self.founders.contains(recall.run_id.as_ref())
    }

    pub(super) fn text(&self) -> String {
        if self.founders.is_empty() {
            return NOBODY.to_owned();
        }
        self.founders.iter().map(String::as_str).collect::<Vec<_>>().join(" ")
    }
}

/// Which clocks are far off the others, and by how many milliseconds. Only where most agree:
/// otherwise nobody knows the time.
pub(super) fn odd_clocks(offsets: &[Option<i64>], quorum: usize) -> Vec<(usize, i64)> {
    /// What hosts that keep their clocks in step at all do not exceed.
    const FAR: i64 = 1_000_000;
    let mut known: Vec<i64> = offsets.iter().copied().flatten().collect();
    known.sort_unstable();
    let Some(median) = known.get(known.len() / 2).copied() else { return Vec::new() };
    let off = |offset: i64| offset.saturating_sub(median);
    if known.iter().filter(|offset| off(**offset).abs() <= FAR).count() < quorum {
        return Vec::new();
    }
    let odd = |(index, offset): (usize, &Option<i64>)| {
        let off = off((*offset)?);
        (off.abs() > FAR).then_some((index, off / 1000))
    };
    offsets.iter().enumerate().filter_map(odd).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recall(run_id: &str, since: u64) -> Recall {
        let since = Moment::from_nanos(since * 1_000_000_000);
        Recall { run_id: run_id.into(), since, cause: Cause::Started }
    }

    fn now() -> Moment {
        Moment::from_nanos(1_000_000 * 1_000_000_000)
    }

    #[test]
    fn a_new_group_begins_with_the_nodes_that_are_there() {
        let (first, second) = (recall("a", 999_990), recall("b", 999_999));
        let roll = Roll::begun(&[Some(first.clone()), Some(second.clone()), None], now());
        assert!(roll.has(&first) && roll.has(&second));
        assert!(!roll.has(&recall("c", 999_999)));
        assert_eq!(Roll::agreed([roll.text().as_str()].into_iter()), Some(roll));
    }

    #[test]
    fn a_group_with_an_old_node_is_not_new() {
        let young = recall("b", 999_999);
        let roll = Roll::begun(&[Some(recall("a", 100)), Some(young.clone())], now());
        assert_eq!(roll.text(), "-");
        assert!(!roll.has(&young));
        assert_eq!(Roll::agreed(["-"].into_iter()), Some(roll));
    }

    /// And its roll stands for longer, so that an old group has one or an old node.
    #[test]
    fn a_group_is_new_for_a_day() {
        let roll = |age: u64| Roll::begun(&[Some(recall("a", 1_000_000 - age))], now()).text();
        assert_eq!(roll(24 * 3600 - 1), "a");
        assert_eq!(roll(24 * 3600), "-");
        assert!(LIFE >= 2 * OLD);
    }

    #[test]
    fn clients_that_begin_at_once_trust_whom_both_saw() {
        let agreed = Roll::agreed(["a b c", "a d c", "a b c"].into_iter()).unwrap();
        assert_eq!(agreed.text(), "a c");
        assert_eq!(Roll::agreed(std::iter::empty()), None);
    }

    #[test]
    fn a_founder_whose_memory_has_a_gap_is_judged_like_any_other() {
        let roll = Roll::begun(&[Some(recall("a", 999_990))], now());
        let jumped = Recall { cause: Cause::ClockJumped(60_000), ..recall("a", 999_990) };
        assert!(!roll.has(&jumped));
    }

    #[test]
    fn a_clock_that_is_far_off_is_told_from_clocks_that_nobody_set() {
        let second = 1_000_000;
        assert_eq!(odd_clocks(&[Some(0), Some(60 * second), Some(0)], 2), [(1, 60_000)]);
        assert_eq!(
            odd_clocks(&[Some(0), None, Some(-7 * second), Some(9), Some(3)], 3),
            [(2, -7_000)]
        );
        assert_eq!(odd_clocks(&[Some(0), Some(60 * second), Some(-60 * second)], 2), []);
        assert_eq!(odd_clocks(&[Some(0), Some(900_000), Some(5)], 2), []);
        // A whole second is not far yet.
        let offsets = [0, second, 0, 60 * second].map(Some);
        assert_eq!(odd_clocks(&offsets, 3), [(3, 59_000)]);
    }
}
