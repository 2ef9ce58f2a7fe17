//! The founders of a group of nodes: the server processes with which it began. Pure.
//!
//! A node that a client meets for the first time may have forgotten leases, or may never have
//! granted any because the whole group is new. Neither the client nor the node can tell: the node
//! counts its uptime by a clock that may have been off. The other nodes can: the first client
//! writes the list of founders on all of them, and later ones renew it. If one of them has the
//! list, the group is older than the client, and a node that is not on the list was restarted. On
//! such a node clients note for how long they have watched it ([`Witness`]).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::other_clocks::OtherClocks;
use crate::backend::{Cause, MemorySince, Predecessor, Witness};

/// How long a list lives beyond the longest lease. Clients renew it while they use the group.
pub(crate) const LIFE: Duration = Duration::from_secs(48 * 3600);
/// How often a client renews the list, at least.
pub(crate) const RENEW_EVERY: Duration = Duration::from_secs(12 * 3600);
/// How soon a list that could not be written is written again.
pub(crate) const RETRY: Duration = Duration::from_secs(1);
/// How soon a client notes again for how long it has watched a node that is not a founder. The
/// pause grows with that time.
pub(super) const WATCH_AT_LEAST: Duration = Duration::from_secs(1);
/// The value of a list without founders: an empty value would look like no list.
const NO_FOUNDERS: &str = "-";

/// The run ids of the nodes that were there from the beginning.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Founders {
    run_ids: BTreeSet<String>,
}

impl Founders {
    fn parse(text: &str) -> Self {
        let is_name = |word: &&str| *word != NO_FOUNDERS && !Witness::is_one(word);
        Self { run_ids: text.split(' ').filter(is_name).map(str::to_owned).collect() }
    }

    /// The founders on which all lists on the nodes agree. A node that is missing on one of them is
    /// not trusted: two clients began at once, and saw different servers. `None`: no node has a
    /// list.
    pub(crate) fn agreed<'a>(lists: impl Iterator<Item = &'a str>) -> Option<Self> {
        let run_ids = lists.map(|text| Self::parse(text).run_ids);
        Some(Self { run_ids: run_ids.reduce(|all, next| &all & &next)? })
    }

    /// The founders of a group without a list, or whose list has expired because no client used the
    /// group.
    pub(crate) fn begun(memories: &[Option<MemorySince>]) -> Self {
        let is_new = |memory_since: &&MemorySince| memory_since.cause == Cause::Started;
        let founders = memories.iter().flatten().filter(is_new);
        Self {
            run_ids: founders.map(|memory_since| memory_since.run_id.as_ref().to_owned()).collect(),
        }
    }

    pub(crate) fn has(&self, memory_since: &MemorySince) -> bool {
        memory_since.cause == Cause::Started && self.names(&memory_since.run_id)
    }

    pub(crate) fn names(&self, run_id: &str) -> bool {
        self.run_ids.contains(run_id)
    }

    pub(crate) fn text(&self) -> String {
        if self.run_ids.is_empty() {
            return NO_FOUNDERS.to_owned();
        }
        self.run_ids.iter().map(String::as_str).collect::<Vec<_>>().join(" ")
    }

    /// The list to be written on a node that has the list `found`. Its founders stay as they are. A
    /// node that is not among ours gets a witness: for the longest time for which this client has
    /// watched it, or that is noted there; and with the dates of the longest time that is known,
    /// also by the dates there.
    pub(crate) fn update(&self, found: Option<&str>, seen: &Seen) -> String {
        let founders = found.map_or_else(|| self.clone(), Self::parse);
        let Seen { run_id, watched_for, known_for, is_doubted, clocks, heir_of } = seen;
        if self.names(run_id) {
            return founders.text();
        }
        let others = found.and_then(Witness::find);
        let others = others.filter(|others| !is_doubted && others.run_id == *run_id);
        let dates = others.as_ref().map(|others| &others.dates);
        let age = dates.zip(clocks.as_ref()).and_then(|(dates, clocks)| clocks.age(dates));
        let noted = others.as_ref().map(|others| others.watched_for);
        // A client that has known another process at this address does not believe dates, but does
        // believe this time, which must not rest on dates therefore.
        let watched_for = noted.into_iter().fold(*watched_for, Duration::max);
        let met = age.into_iter().fold(watched_for.max(*known_for), Duration::max);
        let kept = || dates.cloned().unwrap_or_default();
        let dates = clocks.as_ref().map_or_else(kept, |clocks| clocks.dates(met, dates));
        // Clients that knew the former process only do not know what this one may have forgotten.
        let heir_of = heir_of.clone().filter(|_| !is_doubted);
        let noted = others.as_ref().and_then(|others| others.heir_of.as_ref());
        let heir_of = heir_of.map(|own| own.or_earlier(noted)).or_else(|| noted.cloned());
        let witness = Witness { run_id: Arc::clone(run_id), watched_for, dates, heir_of };
        format!("{} {witness}", founders.text())
    }
}

/// What a client has seen of a node.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) run_id: Arc<str>,
    /// How long clients have watched the process.
    pub(crate) watched_for: Duration,
    /// How long the process is known to exist: `watched_for`, or longer by the dates of others.
    pub(crate) known_for: Duration,
    /// It may have forgotten leases since others began to watch it.
    pub(crate) is_doubted: bool,
    /// `None`: no other node has told its time.
    pub(crate) clocks: Option<OtherClocks>,
    /// The process whose data it has kept, all of them.
    pub(crate) heir_of: Option<Predecessor>,
}

impl Seen {
    /// What a client has seen of a node that it has not met. No process is called `?`.
    pub(crate) fn nothing() -> Self {
        let (watched_for, known_for) = (Duration::ZERO, Duration::ZERO);
        let (is_doubted, clocks, heir_of) = (false, None, None);
        Self { run_id: "?".into(), watched_for, known_for, is_doubted, clocks, heir_of }
    }
}

/// When a client writes on a node again that it has `watched_for` so long.
pub(crate) fn pause(watched_for: Duration, is_founder: bool) -> Duration {
    if is_founder { RENEW_EVERY } else { watched_for.clamp(WATCH_AT_LEAST, RENEW_EVERY) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Moment;

    fn memory_since(run_id: &str) -> MemorySince {
        MemorySince::new(run_id.into(), Moment::from_nanos(1_000_000_000), Cause::Started)
    }

    fn seen(run_id: &str, secs: u64) -> Seen {
        let (watched_for, known_for) = (Duration::from_secs(secs), Duration::from_secs(secs));
        Seen { run_id: run_id.into(), watched_for, known_for, ..Seen::nothing() }
    }

    /// What a client has seen whose clock, and that of another node, show `now` seconds.
    fn dated(run_id: &str, secs: u64, now: i64) -> Seen {
        let now = now * 1_000_000;
        let nodes = [("b".into(), (now, now))].into();
        let clocks = Some(OtherClocks { nodes, client: now, needed: 1, others: 2 });
        Seen { clocks, ..seen(run_id, secs) }
    }

    #[test]
    fn a_new_group_begins_with_the_nodes_that_are_there() {
        let (first, second) = (memory_since("a"), memory_since("b"));
        let founders = Founders::begun(&[Some(first.clone()), Some(second.clone()), None]);
        assert!(founders.has(&first) && founders.has(&second));
        assert!(!founders.has(&memory_since("c")));
        assert_eq!(Founders::agreed([founders.text().as_str()].into_iter()), Some(founders));
    }

    #[test]
    fn a_list_without_names_is_a_roll() {
        assert_eq!(Founders::agreed(["-"].into_iter()), Some(Founders::default()));
        assert_eq!(Founders::default().text(), "-");
    }

    #[test]
    fn a_node_that_was_restarted_is_left_how_long_it_was_watched() {
        let founders = Founders::begun(&[Some(memory_since("a")), Some(memory_since("b"))]);
        assert_eq!(founders.update(None, &seen("c", 2)), "a b c=2000");
        // The longer time counts, unless it was doubted, or is that of another process.
        let found = Some("a c=9000");
        assert_eq!(founders.update(found, &seen("c", 2)), "a c=9000");
        assert_eq!(founders.update(found, &Seen { is_doubted: true, ..seen("c", 2) }), "a c=2000");
        assert_eq!(founders.update(found, &seen("d", 2)), "a d=2000");
        assert_eq!(founders.update(found, &seen("c", 10)), "a c=10000");
        // Dates stay for the next client, and are not what was watched.
        let dated_to = |found: Option<&str>, seen: Seen| founders.update(found, &seen);
        let first = dated_to(None, dated("c", 1, 100));
        assert_eq!(first, "a b c=1000 c=@b:99001,client:99001");
        let later = dated_to(Some(&first), dated("c", 0, 200));
        assert_eq!(later, first);
        let watched = "a b c=2000 c=@b:99001,client:99001";
        assert_eq!(dated_to(Some(&later), seen("c", 2)), watched);
        let anew = "a b d=0 d=@b:200001,client:200001";
        assert_eq!(dated_to(Some(&later), dated("d", 0, 200)), anew);
        let doubted = Seen { is_doubted: true, ..dated("c", 0, 200) };
        assert_eq!(dated_to(Some(&later), doubted), anew.replace('d', "c"));
        // The witness does not make a founder for other clients either.
        assert_eq!(Founders::agreed(["a c=9000", "a b"].into_iter()).unwrap().text(), "a");
        // Whose data it has kept is noted for clients that knew only that process.
        let heir = || Seen {
            heir_of: Some(Predecessor { run_id: "a".into(), followed_at: 5 }),
            ..seen("c", 10)
        };
        let noted = "a b c=10000 c=^a:5";
        assert_eq!(founders.update(None, &heir()), noted);
        assert_eq!(founders.update(Some("a b c=10000 c=^a:9"), &heir()), noted);
        assert_eq!(founders.update(Some("a b c=10000 c=^b:1"), &heir()), noted);
        let earlier = "a b c=10000 c=^a:4";
        assert_eq!(founders.update(Some(earlier), &heir()), earlier);
        assert_eq!(founders.update(Some(noted), &seen("c", 2)), noted);
        let doubted = founders.update(Some(noted), &Seen { is_doubted: true, ..heir() });
        assert_eq!(doubted, "a b c=10000");
        assert_eq!(founders.update(Some(noted), &seen("d", 2)), "a b d=2000");
        // A founder needs no witness.
        assert_eq!(founders.update(Some("a b"), &seen("b", 2)), "a b");
    }

    #[test]
    fn it_is_written_when_the_time_watched_has_doubled_and_long_before_it_ends() {
        let secs = Duration::from_secs;
        for (watched_for, is_founder, expected) in [
            (secs(0), false, secs(1)),
            (secs(70), false, secs(70)),
            (secs(1_000_000), false, RENEW_EVERY),
            (secs(0), true, RENEW_EVERY),
        ] {
            assert_eq!(pause(watched_for, is_founder), expected);
        }
        assert!(LIFE >= 4 * RENEW_EVERY);
    }

    #[test]
    fn clients_that_begin_at_once_trust_whom_both_saw() {
        let agreed = Founders::agreed(["a b c", "a d c", "a b c"].into_iter()).unwrap();
        assert_eq!(agreed.text(), "a c");
        assert_eq!(Founders::agreed(std::iter::empty()), None);
    }

    #[test]
    fn a_founder_whose_memory_has_a_gap_is_judged_like_any_other() {
        let founders = Founders::begun(&[Some(memory_since("a"))]);
        let jumped = MemorySince { cause: Cause::ClockJumped(60_000), ..memory_since("a") };
        assert!(!founders.has(&jumped));
    }
}
