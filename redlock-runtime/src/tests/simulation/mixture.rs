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
}

impl Mixture {
    /// Several nodes have no permits.
    pub(super) fn new(random: &mut Rng, nodes: usize) -> Self {
        match random.u8(..4) {
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
        }
    }

    /// Does a writer become a reader before it lets go?
    pub(super) fn downgrades(self, hold: &Hold, random: &mut Rng) -> bool {
        let is_writer = self == Self::ReadersAndWriters && !hold.claim.kind.is_shared();
        is_writer && random.u8(..3) == 0
    }

    /// How many holders of a shared kind there may be at once.
    pub(super) fn places(self) -> usize {
        match self {
            Self::Permits(count) => usize::try_from(count.get()).unwrap_or(usize::MAX),
            Self::Exclusive | Self::ReadersAndWriters => usize::MAX,
        }
    }

    /// May a hold be beside these?
    pub(super) fn admits<'a>(self, hold: &Hold, others: impl Iterator<Item = &'a Hold>) -> bool {
        let kinds: Vec<Kind> = others.map(|other| other.claim.kind).collect();
        let is_shared = hold.claim.kind.is_shared() && kinds.iter().all(|kind| kind.is_shared());
        kinds.is_empty() || is_shared && kinds.len() < self.places()
    }
}

/// The same request, for a lock of this kind.
pub(super) fn of_kind(request: LockRequest, kind: Kind) -> LockRequest {
    match kind {
        Kind::Exclusive => request,
        Kind::Read => request.read(),
        Kind::Permits(count) => request.permits(count.get()),
    }
}
