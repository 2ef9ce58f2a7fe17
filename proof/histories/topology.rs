//! The servers of a history.

use std::fmt;

use clap::ValueEnum;
use fault_kit::Sentinels;
use redlock::{Redlock, RedlockBuilder};

/// The servers of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Topology {
    One,
    Three,
    Five,
    /// A master and its replica behind one address.
    Replicated,
    /// A master with two replicas, watched by three sentinels.
    Sentinel,
    /// Three masters, each with a replica.
    Cluster,
}

impl Topology {
    pub(crate) const ALL: [Topology; 6] = [
        Topology::One,
        Topology::Three,
        Topology::Five,
        Topology::Replicated,
        Topology::Sentinel,
        Topology::Cluster,
    ];

    pub(crate) fn servers(self) -> usize {
        match self {
            Topology::One => 1,
            Topology::Replicated => 2,
            Topology::Three | Topology::Sentinel => 3,
            Topology::Five => 5,
            Topology::Cluster => 6,
        }
    }

    /// So many servers that a majority is left.
    pub(crate) fn minority(self) -> usize {
        (self.servers() - 1) / 2
    }

    /// A client of these servers, named by their URLs or by those of the sentinels.
    pub(crate) fn builder<'a>(self, urls: impl IntoIterator<Item = &'a str>) -> RedlockBuilder {
        match self {
            Topology::Sentinel => Redlock::builder().sentinel(urls, Sentinels::MASTER),
            Topology::Cluster => Redlock::builder().cluster(urls),
            _ => Redlock::builder().urls(urls),
        }
    }

    /// How long a history lasts: a planned failover takes seconds, and is not to fill all of it.
    pub(crate) fn lasts_ms(self, length_ms: u64) -> u64 {
        match self {
            Topology::Sentinel => 2 * length_ms,
            _ => length_ms,
        }
    }

    pub(crate) fn is_quorum(self) -> bool {
        matches!(self, Topology::Three | Topology::Five)
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.to_possible_value().ok_or(fmt::Error)?.get_name())
    }
}
