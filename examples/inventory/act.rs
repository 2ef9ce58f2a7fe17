//! The eight runs of the six acts.

use Accident::{Freeze, Hang, Kill};

pub(crate) struct Act {
    /// As in `--act`: both runs of act 5 are 5, and both of act 6 are 6.
    pub(crate) number: u8,
    pub(crate) title: &'static str,
    pub(crate) accident: Option<Accident>,
    pub(crate) is_fenced: bool,
    /// Nothing is sold: units are moved between two shelves.
    pub(crate) moves: Option<Moves>,
}

/// Which locks a move takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moves {
    /// That of the shelf from which it takes a unit.
    OneKey,
    /// Those of both shelves, together.
    BothKeys,
}

/// What happens to the unlucky holder of an act, between its read and its write.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accident {
    /// Its process is killed.
    Kill,
    /// Its payment provider never answers.
    Hang,
    /// Its process is frozen until others have sold some units.
    Freeze,
}

const PLAIN: Act = Act { number: 0, title: "", accident: None, is_fenced: false, moves: None };

pub(crate) const ACTS: [Act; 8] = [
    Act { number: 1, title: "no lock", ..PLAIN },
    Act { number: 2, title: "#[redis_lock]", ..PLAIN },
    Act { number: 3, title: "holder killed", accident: Some(Kill), ..PLAIN },
    Act { number: 4, title: "hung task", accident: Some(Hang), ..PLAIN },
    Act { number: 5, title: "frozen holder", accident: Some(Freeze), ..PLAIN },
    Act { number: 5, title: "frozen, fencing", accident: Some(Freeze), is_fenced: true, ..PLAIN },
    Act { number: 6, title: "moves, one key", moves: Some(Moves::OneKey), ..PLAIN },
    Act { number: 6, title: "moves, keys", moves: Some(Moves::BothKeys), ..PLAIN },
];

impl Act {
    /// Must not sell a unit twice, nor lose one. The other acts show why one wants that.
    pub(crate) fn must_be_exact(&self) -> bool {
        let is_locked = self.number > 1 && self.moves != Some(Moves::OneKey);
        is_locked && (self.accident != Some(Freeze) || self.is_fenced)
    }
}
