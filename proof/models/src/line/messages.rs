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

/// A few items in order. One that does not fit is lost, as a message may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Set<T, const C: usize>([Option<T>; C]);

impl<T: Copy + Ord, const C: usize> Set<T, C> {
    pub(super) const EMPTY: Self = Self([None; C]);

    pub(super) fn iter(&self) -> impl Iterator<Item = T> + '_ {
        self.0.iter().map_while(|item| *item)
    }

    pub(super) fn has(&self, item: T) -> bool {
        self.iter().any(|other| other == item)
    }

    pub(super) fn first(&self) -> Option<T> {
        self.0[0]
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0[0].is_none()
    }

    pub(super) fn push(&mut self, item: T) {
        if let Some(place) = self.0.iter_mut().find(|place| place.is_none()) {
            *place = Some(item);
        }
    }

    /// Behind what is smaller; each item once.
    pub(super) fn insert(&mut self, item: T) {
        if !self.has(item) {
            self.push(item);
            self.0.sort_unstable_by_key(|item| (item.is_none(), *item));
        }
    }

    pub(super) fn retain(&mut self, keeps: impl Fn(T) -> bool) {
        let mut kept = Self::EMPTY;
        self.iter().filter(|item| keeps(*item)).for_each(|item| kept.push(item));
        *self = kept;
    }

    pub(super) fn remove(&mut self, item: T) {
        self.retain(|other| other != item);
    }

    pub(super) fn change(&mut self, change: impl Fn(&mut T)) {
        self.0.iter_mut().flatten().for_each(change);
    }
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
