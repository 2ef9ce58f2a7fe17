//! What may be on its way: commands with their replies, and calls.

use super::state::Owner;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Command {
    Join {
        owner: Owner,
    },
    Look {
        owner: Owner,
    },
    /// `acquire.lua` of one who was called.
    Claim {
        owner: Owner,
    },
    Renew {
        owner: Owner,
    },
    Release {
        owner: Owner,
        drawn: Drawn,
    },
    /// A release with an entry, and without a fencing token.
    Leave {
        owner: Owner,
    },
    Rotate {
        owner: Owner,
        drawn: Drawn,
        next: Owner,
    },
    /// Only with a bug.
    GiveBack {
        owner: Owner,
        used: i8,
    },
}

/// The last fencing token that an owner used, and the last that it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Drawn {
    pub(super) used: i8,
    pub(super) reserved: i8,
}

impl Drawn {
    pub(super) fn change(&mut self, change: impl Fn(&mut i8)) {
        change(&mut self.used);
        change(&mut self.reserved);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Reply {
    Granted {
        first: i8,
        last: i8,
    },
    /// In line, or a rotate that moved on.
    InLine,
    /// The owner is not in line, or does not have the lock.
    Gone,
    Renewed,
}

/// A hand-over's message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Call {
    pub(super) owner: Owner,
    pub(super) first: i8,
    pub(super) last: i8,
}

impl Command {
    pub(super) fn owner(self) -> Owner {
        match self {
            Self::Join { owner }
            | Self::Look { owner }
            | Self::Claim { owner }
            | Self::Renew { owner }
            | Self::Release { owner, .. }
            | Self::Leave { owner }
            | Self::Rotate { owner, .. }
            | Self::GiveBack { owner, .. } => owner,
        }
    }

    /// May it give the lock, or a place in the line, to this owner?
    pub(super) fn brings(self, to: Owner) -> bool {
        match self {
            Self::Join { owner } | Self::Claim { owner } => owner == to,
            Self::Rotate { next, .. } => next == to,
            _ => false,
        }
    }
}
