//! The servers of a history.

use std::fmt;

/// The servers of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Topology {
    One,
    Three,
    Five,
    /// A master and its replica behind one address.
    Replicated,
}

impl Topology {
    pub const ALL: [Topology; 4] =
        [Topology::One, Topology::Three, Topology::Five, Topology::Replicated];

    pub fn servers(self) -> usize {
        match self {
            Topology::One => 1,
            Topology::Replicated => 2,
            Topology::Three => 3,
            Topology::Five => 5,
        }
    }

    /// So many servers that a majority is left.
    pub fn minority(self) -> usize {
        (self.servers() - 1) / 2
    }

    pub fn is_quorum(self) -> bool {
        matches!(self, Topology::Three | Topology::Five)
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Topology::One => "one",
            Topology::Three => "three",
            Topology::Five => "five",
            Topology::Replicated => "replicated",
        })
    }
}
