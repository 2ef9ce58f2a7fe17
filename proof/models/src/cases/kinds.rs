//! Readers, writers, permits, and several keys.

use crate::check::Case;
use crate::ordered::{self, HAS_ALL, LOST_AS_ONE, NOTHING_KEPT, Ordered};
use crate::sharing::{
    self, Kind, NOT_PASSED, PERMIT_BACK, STAYS_LOST, Sharing, WITHIN_PERMITS, WRITER_ALONE,
};

const SHARING: Sharing<3> = Sharing {
    bug: sharing::Bug::None,
    kinds: [Kind::Write, Kind::Read, Kind::Read],
    expire: 2,
    window: 1,
    downgrades: false,
    crashes: 0,
    wipes: 0,
    is_fair: false,
};

const PERMITS: Sharing<3> = Sharing { kinds: [Kind::Permit(2); 3], ..SHARING };

pub(super) fn sharing() -> Vec<Case> {
    let writers = Sharing { kinds: [Kind::Write, Kind::Write, Kind::Read], ..SHARING };
    let mixed = Sharing { kinds: [Kind::Write, Kind::Permit(2), Kind::Permit(2)], ..SHARING };
    let fair = |sharing| Sharing { crashes: 1, is_fair: true, ..sharing };
    vec![
        Case::holds("a writer and readers, one dies", 380_681, fair(SHARING)),
        Case::holds(
            "writers that become readers",
            546_469,
            Sharing { downgrades: true, ..writers },
        ),
        Case::holds("a lock is deleted by hand", 804_227, Sharing { wipes: 1, ..SHARING }),
        Case::holds("permits, a holder dies", 205_706, fair(PERMITS)),
        Case::holds("permits and a writer", 213_911, mixed),
    ]
}

pub(super) fn sharing_controls() -> Vec<Case> {
    let with =
        |variant, bug, property| Case::violates(variant, property, Sharing { bug, ..SHARING });
    let fair = Sharing { crashes: 1, is_fair: true, ..SHARING };
    let gap = Sharing {
        bug: sharing::Bug::GapInDowngrade,
        kinds: [Kind::Write, Kind::Write, Kind::Read],
        downgrades: true,
        ..SHARING
    };
    let stays = Sharing { bug: sharing::Bug::OldReaderStays, wipes: 1, ..SHARING };
    let keeps =
        Sharing { bug: sharing::Bug::CrashKeepsPermit, crashes: 1, is_fair: true, ..PERMITS };
    let one_more = Sharing { bug: sharing::Bug::OneTooMany, ..PERMITS };
    let unseen = Sharing { bug: sharing::Bug::NobodyLooks, ..fair };
    vec![
        with("a reader passes a writer that waits", sharing::Bug::ReaderPasses, NOT_PASSED),
        with("the marker moves inwards", sharing::Bug::MarkerMovesInwards, WRITER_ALONE),
        with("a renewal leaves the marker", sharing::Bug::MarkerNotRenewed, WRITER_ALONE),
        with("the first reader to leave frees it", sharing::Bug::FirstFrees, WRITER_ALONE),
        Case::violates("a gap in a downgrade", WRITER_ALONE, gap),
        Case::violates("an old reader in a new group", STAYS_LOST, stays),
        Case::violates("one permit too many", WITHIN_PERMITS, one_more),
        Case::violates("a crash keeps its permit", PERMIT_BACK, keeps),
        Case::violates("nobody in the queue looks", sharing::SERVED, unseen),
    ]
}

/// A ring: each has a key in common with each, and names its keys in another order.
const RING: Ordered<3, 3> = Ordered {
    bug: ordered::Bug::None,
    wants: [[Some(0), Some(1), None], [Some(1), Some(2), None], [Some(2), Some(0), None]],
    at_once: true,
    crashes: 1,
    losses: 1,
};

pub(super) fn ordered() -> Vec<Case> {
    let with = |variant, bug, property| Case::violates(variant, property, Ordered { bug, ..RING });
    let all = [Some(0), Some(1), Some(2)];
    vec![
        Case::holds("one global order", 12_569, RING),
        Case::holds("the same, never at once", 12_582, Ordered { at_once: false, ..RING }),
        Case::holds(
            "one wants all",
            21_517,
            Ordered { wants: [all, RING.wants[1], RING.wants[2]], ..RING },
        ),
        with("the callers' order", ordered::Bug::CallersOrder, ordered::SERVED),
        with("a call that fails keeps its keys", ordered::Bug::KeepsAfterFailure, NOTHING_KEPT),
        with("it goes on with what is left", ordered::Bug::KeepsTheRest, LOST_AS_ONE),
        with("it begins without the last", ordered::Bug::BeginsEarly, HAS_ALL),
        with("nobody in a queue looks", ordered::Bug::NobodyLooks, ordered::SERVED),
    ]
}

/// Larger bounds of what holds.
pub(super) fn larger() -> Vec<Case> {
    let writers = Sharing {
        kinds: [Kind::Write, Kind::Write, Kind::Read],
        downgrades: true,
        crashes: 1,
        is_fair: true,
        ..SHARING
    };
    vec![
        Case::holds("writers that become readers, one dies", 1_021_996, writers),
        Case::holds("longer leases", 1_131_762, Sharing { expire: 3, crashes: 1, ..SHARING }),
        Case::holds(
            "longer leases of permits",
            732_504,
            Sharing { expire: 3, crashes: 1, ..PERMITS },
        ),
    ]
}
