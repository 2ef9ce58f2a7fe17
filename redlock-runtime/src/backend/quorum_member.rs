//! What a node remembers of the leases it granted, which the restart guard has to know.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::lock_backend::LockBackend;
use super::outcome::Reply;
use super::witness::Predecessor;
use crate::clock::Moment;
use crate::validity;

/// Since when a node remembers every lease it granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MemorySince {
    /// Names the process of the server, from its start or its promotion to its end: not only the
    /// `run_id` of its INFO.
    pub(crate) run_id: Arc<str>,
    /// The node may have forgotten what it granted before this.
    pub(crate) since: Moment,
    pub(crate) cause: Cause,
    /// Like `since`, but as if its clock had not jumped: a lease that it granted later than this is
    /// still on it, if it has not ended.
    pub(crate) kept_since: Moment,
    /// The process that was met here before: this one has kept all of its data.
    pub(crate) heir_of: Option<Predecessor>,
}

impl MemorySince {
    pub(crate) fn new(run_id: Arc<str>, since: Moment, cause: Cause) -> Self {
        Self { run_id, since, cause, kept_since: since, heir_of: None }
    }

    /// The memory of a process that goes by this name now: that of a master that was promoted
    /// changes when its history is given up, and later clients know the new one only. A founder of
    /// that name is not meant: this may be the process before its promotion, with other data.
    pub(crate) fn renamed(self, run_id: Arc<str>) -> Self {
        match self.cause {
            _ if self.run_id == run_id => self,
            Cause::Started => Self { run_id, cause: Cause::Replaced, ..self },
            _ => Self { run_id, ..self },
        }
    }

    /// Its clock jumped, or may have: it has its keys, but leases may have ended early.
    pub(crate) fn doubted(self, since: Moment, cause: Cause) -> Self {
        Self { since, cause, heir_of: None, ..self }
    }
}

/// The `run_id` of a process in its name, to which a promotion has added.
pub(crate) fn process(name: &str) -> &str {
    name.split_once('/').map_or(name, |(run_id, _)| run_id)
}

/// Why the memory of a node begins where it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The node was running when this client met it first: its start is unknown.
    Started,
    /// Another process answers there than the one that was met last.
    Restarted,
    /// A replica was promoted in its place.
    Replaced,
    /// Its clock jumped by this many milliseconds: leases ended before their time.
    ClockJumped(i64),
    /// Its clock differs from those of the other nodes by this many milliseconds: it may have
    /// jumped.
    ClockDiffers(i64),
}

/// What is known of the difference of two clocks: the least and the most that it can be, in
/// microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClockOffset {
    pub(crate) low: i64,
    pub(crate) high: i64,
    /// When this was known, by the clock of this process.
    pub(crate) at: Moment,
}

impl ClockOffset {
    /// The least and the most that the server's clock shows `now`, in microseconds since 1970.
    pub(crate) fn shows(self, now: Moment) -> (i64, i64) {
        let micros = |nanos: u128| i64::try_from(nanos / 1000).unwrap_or(i64::MAX);
        let drift = micros(validity::drift(now.since(self.at)).as_nanos());
        let now = micros(now.nanos().into());
        let least = self.low.saturating_sub(drift).saturating_add(now);
        (least, self.high.saturating_add(drift).saturating_add(now))
    }

    /// Its middle; `None`: it is not known well enough to be compared with others. An answer that
    /// took long says little, and a later one says more.
    pub(crate) fn middle(self) -> Option<i64> {
        const WIDEST: i64 = 500_000;
        let width = self.high.saturating_sub(self.low);
        (width <= WIDEST).then_some(self.low + width / 2)
    }
}

impl Cause {
    /// The label for metrics.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Restarted => "restarted",
            Self::Replaced => "replaced",
            Self::ClockJumped(_) => "clock_jumped",
            Self::ClockDiffers(_) => "clock_differs",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started => f.write_str("the server was met for the first time"),
            Self::Restarted => {
                f.write_str("the server was restarted, or another one has its address")
            }
            Self::Replaced => f.write_str("a replica took its place"),
            Self::ClockJumped(by) => write!(f, "the server's clock jumped by {by} ms"),
            Self::ClockDiffers(by) => {
                write!(f, "the server's clock is {by} ms off those of the other servers")
            }
        }
    }
}

/// A backend that can be one of N nodes: it tells since when it remembers.
pub(crate) trait QuorumMember: LockBackend {
    /// Its address, without credentials.
    fn name(&self) -> &str;

    /// As of its last answer; `None`: the backend does not tell. Known once it has answered any
    /// command.
    fn memory_since(&self) -> Option<MemorySince>;

    /// Names the process that answers; `None`: it is not known. Two members with the same name are
    /// one server.
    fn run_id(&self) -> Option<Arc<str>> {
        self.memory_since().map(|memory_since| memory_since.run_id)
    }

    /// The server's clock minus ours; comparable between nodes only. As of its last answers: each
    /// answer to an acquire, a renewal or a question for the founders brings the server's time.
    /// `None`: there was none yet.
    fn clock_offset(&self) -> Option<ClockOffset>;

    /// Reads the list of founders of the group of nodes that this one belongs to
    /// (`quorum/founders.rs`), after `offer` was written. Connects if necessary. An error if the
    /// offer is for another process than the one that answers.
    fn founders<'a>(
        &'a self,
        key: &'a str,
        offer: Option<FoundersOffer>,
        within: Duration,
    ) -> Reply<'a, FoundersList>;
}

/// The list of founders that stands on a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FoundersList {
    /// `None`: the node has no list.
    pub(crate) text: Option<String>,
    /// For how long the list lives on. Zero: the node has none, or one that does not end.
    pub(crate) life: Duration,
}

/// A list of founders to be written on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundersOffer {
    /// The process that the list is for: on another one it would be false evidence, so that it is
    /// not written there. `None`: no process was met yet, and the list is evidence for none.
    pub(crate) run_id: Option<Arc<str>>,
    pub(crate) founders: String,
    /// For how long the list shall live, or the one that is prolonged.
    pub(crate) life: Duration,
    pub(crate) former: FormerList,
}

/// What becomes of a list that the node has already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FormerList {
    /// It stays as it is: nobody has read for how long it lives.
    Stays,
    /// It stays, and lives for as long as the new one would have.
    Prolonged,
    /// The new one takes its place.
    Replaced,
}
