//! The clocks by which a client tells how long ago a process was first met by any client: those of
//! the other nodes, and its own. Pure.
//!
//! Clients of which each lives for a moment only would never watch a node for the longest lease.
//! So they note beside a witness what other clocks showed by when clients had met the process, and
//! a later client compares these dates with what the same clocks show now. Any of these clocks may
//! have jumped since then, and nobody was there to see it. So the clocks of as many other nodes are
//! needed as make a quorum together with the node in doubt, the clock of the client as well, and
//! the least of what they say counts: it is too much only if all of them have jumped forward. The
//! clock of the node in doubt is never asked: it may have been set right after its start.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::Dates;

/// The date by the wall clock of the clients. No process has this name.
const CLIENT: &str = "client";
/// How much the clocks of synchronised hosts may differ, or be corrected by, at most.
const CLOCK_ERROR: Duration = Duration::from_secs(2);

/// What the clocks beside the one of the node in doubt show now, in microseconds since 1970.
#[derive(Debug)]
pub(crate) struct OtherClocks {
    /// The least and the most that the clocks of other nodes show, by the names of their processes.
    pub(crate) nodes: BTreeMap<Arc<str>, (i64, i64)>,
    pub(crate) client: i64,
    /// How many other nodes make a quorum together with the node in doubt.
    pub(crate) needed: usize,
    /// The number of all other nodes.
    pub(crate) others: usize,
}

impl OtherClocks {
    /// How long ago these dates were, at least; `None`: too few of the clocks are dated.
    pub(crate) fn age(&self, dates: &Dates) -> Option<Duration> {
        let since = |date: &i64, now: i64| now.saturating_sub(date.saturating_mul(1000));
        let nodes = self.nodes.iter();
        let nodes = nodes.filter_map(|(name, (least, _))| Some(since(dates.get(name)?, *least)));
        let nodes: Vec<i64> = nodes.collect();
        if nodes.is_empty() || nodes.len() < self.needed {
            return None;
        }
        let client = since(dates.get(CLIENT)?, self.client);
        let least = nodes.into_iter().fold(client, i64::min);
        Duration::from_micros(u64::try_from(least).ok()?).checked_sub(CLOCK_ERROR)
    }

    /// The dates of a process that is `known_for` this long: on each clock the date that was
    /// `found`, or the one that lies `known_for` before now if that is earlier. Dates by clocks of
    /// nodes that are not reached now are kept. `known_for` has to count until the clocks were
    /// read: a time that was learnt later would date too early.
    pub(crate) fn dates(&self, known_for: Duration, found: Option<&Dates>) -> Dates {
        let micros = i64::try_from(known_for.as_micros()).unwrap_or(i64::MAX);
        let met = |most: i64| most.saturating_sub(micros).div_euclid(1000).saturating_add(1);
        if self.nodes.is_empty() {
            return found.cloned().unwrap_or_default();
        }
        let mut dates = Dates::new();
        let clocks = self.nodes.iter().map(|(name, (_, most))| (name.clone(), *most));
        for (name, most) in clocks.chain([(CLIENT.into(), self.client)]) {
            let before = found.and_then(|found| found.get(&name)).copied().unwrap_or(i64::MAX);
            dates.insert(name, met(most).min(before));
        }
        for (name, date) in found.into_iter().flatten() {
            // A process that has ended leaves its date behind.
            if dates.len() <= self.others {
                dates.entry(Arc::clone(name)).or_insert(*date);
            }
        }
        dates
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;

    /// The clocks of two other nodes, of which one makes a quorum, in seconds.
    fn clocks(nodes: &[(&str, i64)], client: i64) -> OtherClocks {
        let node = |(name, now): &(&str, i64)| ((*name).into(), (now * SECOND, now * SECOND));
        let nodes = nodes.iter().map(node).collect();
        OtherClocks { nodes, client: client * SECOND, needed: 1, others: 2 }
    }

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    fn noted() -> Dates {
        clocks(&[("b", 1_000), ("c", 2_000)], 3_000).dates(Duration::ZERO, None)
    }

    /// The age in seconds, rounded up.
    fn age(nodes: &[(&str, i64)], client: i64) -> Option<u64> {
        let age = clocks(nodes, client).age(&noted())?;
        Some(age.as_secs() + u64::from(age.subsec_nanos() > 0))
    }

    #[test]
    fn the_clock_that_says_least_counts() {
        assert_eq!(age(&[("b", 1_060), ("c", 2_060)], 3_060), Some(58));
        // One clock has jumped, forward or back.
        assert_eq!(age(&[("b", 9_060), ("c", 2_060)], 3_060), Some(58));
        assert_eq!(age(&[("b", 1_060), ("c", 2_060)], 9_060), Some(58));
        assert_eq!(age(&[("b", 1_060), ("c", 2_010)], 3_060), Some(8));
        assert_eq!(age(&[("b", 1_060), ("c", 2_060)], 3_010), Some(8));
        assert_eq!(age(&[("b", 60), ("c", 2_060)], 3_060), None);
        // What synchronised clocks may be off is not counted.
        assert_eq!(age(&[("b", 1_002), ("c", 2_002)], 3_002), None);
    }

    #[test]
    fn one_clock_alone_proves_nothing() {
        assert_eq!(age(&[("c", 2_060)], 3_060), Some(58));
        assert_eq!(age(&[], 3_060), None);
        // The process whose clock was read is not there any more.
        assert_eq!(age(&[("d", 2_060)], 3_060), None);
        let two_of_four = OtherClocks { needed: 2, ..clocks(&[("b", 1_060), ("d", 9)], 3_060) };
        assert_eq!(two_of_four.age(&noted()), None);
        let mut dates = noted();
        dates.remove(CLIENT);
        assert_eq!(clocks(&[("b", 1_060), ("c", 2_060)], 3_060).age(&dates), None);
    }

    /// An answer that took long leaves open what a clock shows.
    #[test]
    fn of_what_a_clock_can_show_the_careful_end_counts() {
        let wide = |least, most| OtherClocks {
            nodes: [("b".into(), (least * SECOND, most * SECOND))].into(),
            ..clocks(&[], 4_000)
        };
        let dates = wide(90, 100).dates(secs(10), None);
        assert_eq!(dates, [("b".into(), 90_001), ("client".into(), 3_990_001)].into());
        let age = OtherClocks { client: 9_000 * SECOND, ..wide(160, 170) }.age(&dates).unwrap();
        assert_eq!(age, Duration::from_millis(67_999));
    }

    #[test]
    fn the_earliest_dates_stay_and_those_of_processes_that_ended_go() {
        let dates = noted();
        let later = clocks(&[("b", 1_060), ("c", 1_000)], 3_060);
        // The third clock went back.
        let expected =
            [("b".into(), 1_000_001), ("c".into(), 970_001), ("client".into(), 3_000_001)];
        assert_eq!(later.dates(secs(30), Some(&dates)), expected.into());
        let names = |nodes: &[(&str, i64)]| {
            let dates = clocks(nodes, 3_060).dates(secs(30), Some(&dates));
            dates.keys().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(names(&[("b", 1_060)]), ["b", "c", "client"]);
        assert_eq!(names(&[("b", 1_060), ("d", 1_060)]), ["b", "client", "d"]);
        assert_eq!(names(&[]), ["b", "c", "client"], "no clock is known now");
        assert!(clocks(&[], 3_060).dates(secs(30), None).is_empty());
    }
}
