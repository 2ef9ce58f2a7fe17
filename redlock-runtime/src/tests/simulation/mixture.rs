//! Of which kinds the locks of a history are, and who may be beside whom.

use std::num::NonZeroU32;

use fastrand::Rng;

use crate::client::LockRequest;
use crate::hold::Hold;
use crate::kind::Kind;

/// What the clients of a history ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mixture {
    Exclusive,
    ReadersAndWriters,
    Permits(NonZeroU32),
    /// Of all kinds, for the same keys.
    AllKinds,
}

/// Who holds the locks of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holders {
    /// One at a time.
    Single,
    /// Mostly groups; otherwise many processes want the locks.
    Groups,
    /// The same, with locks of all kinds where there is one node.
    AllKinds,
    /// One at a time, on one node with the restart guard.
    OneGuarded,
}

impl Mixture {
    /// Several nodes have no permits.
    pub(super) fn new(random: &mut Rng, nodes: usize, holders: Holders) -> Self {
        match random.u8(..4) {
            _ if holders == Holders::AllKinds && nodes == 1 => Self::AllKinds,
            0 | 1 => Self::ReadersAndWriters,
            2 if nodes == 1 => {
                NonZeroU32::new(random.u32(1..4)).map_or(Self::Exclusive, Self::Permits)
            }
            _ => Self::Exclusive,
        }
    }

    pub(super) fn is_shared(self) -> bool {
        self != Self::Exclusive
    }

    /// What one client asks for, one time.
    pub(super) fn any_kind(self, random: &mut Rng) -> Kind {
        match self {
            Self::Exclusive => Kind::Exclusive,
            Self::ReadersAndWriters if random.u8(..3) == 0 => Kind::Exclusive,
            Self::ReadersAndWriters => Kind::Read,
            Self::Permits(count) => Kind::Permits(count),
            Self::AllKinds => match random.u8(..6) {
                0 | 1 => Kind::Exclusive,
                2 | 3 => Kind::Read,
                _ => NonZeroU32::new(random.u32(1..4)).map_or(Kind::Read, Kind::Permits),
            },
        }
    }

    /// Does a writer become a reader before it lets go?
    pub(super) fn downgrades(self, hold: &Hold, random: &mut Rng) -> bool {
        let has_readers = matches!(self, Self::ReadersAndWriters | Self::AllKinds);
        let is_writer = has_readers && !hold.claim.kind.is_shared() && !hold.has_min_hold();
        is_writer && random.u8(..3) == 0
    }

    /// For how many holders of a shared kind there is room at least.
    pub(super) fn places(self) -> usize {
        match self {
            Self::Permits(count) => usize::try_from(count.get()).unwrap_or(usize::MAX),
            Self::AllKinds => 1,
            Self::Exclusive | Self::ReadersAndWriters => usize::MAX,
        }
    }
}

/// May locks of these kinds be held at the same time? Who asks for a permit is admitted while fewer
/// than its own number of permits are taken.
pub(super) fn may_be_together(kinds: &[Kind]) -> bool {
    let places = kinds.iter().map(|kind| match kind {
        Kind::Exclusive => 1,
        Kind::Read => usize::MAX,
        Kind::Permits(count) => usize::try_from(count.get()).unwrap_or(usize::MAX),
    });
    let mut places: Vec<usize> = places.collect();
    places.sort_unstable();
    kinds.iter().all(|kind| kind.is_like(kinds[0]))
        && places.iter().enumerate().all(|(before, places)| before < *places)
}

/// The same request, for a lock of this kind.
pub(super) fn of_kind(request: LockRequest, kind: Kind) -> LockRequest {
    match kind {
        Kind::Exclusive => request,
        Kind::Read => request.read(),
        Kind::Permits(count) => request.permits(count.get()),
    }
}
