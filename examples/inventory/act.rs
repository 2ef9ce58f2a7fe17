//! The six runs of the five acts.

use Accident::{Freeze, Hang, Kill};

pub(crate) struct Act {
    /// As in `--act`: both runs of act 5 are 5.
    pub(crate) number: u8,
    pub(crate) title: &'static str,
    pub(crate) accident: Option<Accident>,
    pub(crate) is_fenced: bool,
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

pub(crate) const ACTS: [Act; 6] = [
    Act { number: 1, title: "no lock", accident: None, is_fenced: false },
    Act { number: 2, title: "#[redis_lock]", accident: None, is_fenced: false },
    Act { number: 3, title: "holder killed", accident: Some(Kill), is_fenced: false },
    Act { number: 4, title: "hung task", accident: Some(Hang), is_fenced: false },
    Act { number: 5, title: "frozen holder", accident: Some(Freeze), is_fenced: false },
    Act { number: 5, title: "frozen, fencing", accident: Some(Freeze), is_fenced: true },
];

impl Act {
    /// Must not sell a unit twice. The other acts show why one wants that.
    pub(crate) fn must_be_exact(&self) -> bool {
        self.number > 1 && (self.accident != Some(Freeze) || self.is_fenced)
    }
}
