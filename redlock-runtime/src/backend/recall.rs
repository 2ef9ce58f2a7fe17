//! What a node remembers of the leases it granted: what a restart guard has to know.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::Reply;
use super::contract::Backend;
use crate::clock::Moment;

/// Since when a node remembers every lease it granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Recall {
    /// Names the process of the server, from its start to its end.
    pub(crate) run_id: Arc<str>,
    /// What it granted before this may be forgotten.
    pub(crate) since: Moment,
    pub(crate) cause: Cause,
}

/// What its memory began with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// It was running when it was first seen, and had been started then.
    Started,
    /// It was restarted since it was last seen.
    Restarted,
    /// Another server answers in its place: a replica was promoted, or the address moved.
    Replaced,
    /// Its clock jumped, by so many milliseconds: leases ended before their time.
    ClockJumped(i64),
    /// Its clock is off those of the other nodes, by so many milliseconds: it may have jumped.
    ClockDiffers(i64),
}

impl Cause {
    /// For labels of metrics.
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
            Self::Started => f.write_str("the server was started"),
            Self::Restarted => f.write_str("the server was restarted"),
            Self::Replaced => f.write_str("another server took its place"),
            Self::ClockJumped(by) => write!(f, "the server's clock jumped by {by} ms"),
            Self::ClockDiffers(by) => {
                write!(f, "the server's clock is {by} ms off those of the other servers")
            }
        }
    }
}

/// A backend that can be one of N: it tells since when it remembers.
pub(crate) trait Voter: Backend {
    /// Its address, without credentials.
    fn name(&self) -> &str;

    /// As of its last answer; `None`: it does not tell. Known once it has answered anything.
    fn recall(&self) -> Option<Recall>;

    /// Reads the roll of the group of nodes that this one belongs to (`quorum/roll.rs`); where
    /// there is none, writes `offer`, for the time given. Connects if it has to.
    fn roll<'a>(
        &'a self,
        key: &'a str,
        offer: Option<(&'a str, Duration)>,
        within: Duration,
    ) -> Reply<'a, RollCall>;
}

/// An answer to [`Voter::roll`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RollCall {
    pub(crate) roll: Option<String>,
    /// The server's clock minus ours, in microseconds; comparable between nodes only.
    pub(crate) clock_offset: Option<i64>,
}
