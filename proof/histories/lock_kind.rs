//! The kinds of locks that calls ask for, and what each key of a history is used for.

use std::fmt;
use std::str::FromStr;

use fastrand::Rng;
use redlock::LockRequest;

use crate::topology::Topology;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LockKind {
    /// The plain lock, which is the write lock of its key.
    Exclusive,
    Read,
    /// One of so many permits.
    Permit(u32),
}

impl LockKind {
    pub(crate) fn ask(self, request: LockRequest) -> LockRequest {
        match self {
            LockKind::Exclusive => request,
            LockKind::Read => request.read(),
            LockKind::Permit(count) => request.permits(count),
        }
    }

    /// May both hold one key at a time? How many permits may be out is another question.
    pub(crate) fn may_be_beside(self, other: LockKind) -> bool {
        matches!(
            (self, other),
            (LockKind::Read, LockKind::Read) | (LockKind::Permit(_), LockKind::Permit(_))
        )
    }

    pub(crate) fn permits(self) -> Option<u32> {
        if let LockKind::Permit(count) = self { Some(count) } else { None }
    }

    /// What is asked for a key: one has readers and writers, one has permits with some others among
    /// them, and the others are only ever locked exclusively. Where permits are refused, there are
    /// readers and writers in their place.
    pub(crate) fn of_key(key: usize, topology: Topology, rng: &mut Rng) -> LockKind {
        let of_reading = if rng.u8(0..5) < 3 { LockKind::Read } else { LockKind::Exclusive };
        match key {
            2 if !topology.is_quorum() && rng.u8(0..4) > 0 => LockKind::Permit(rng.u32(2..4)),
            1 | 2 => of_reading,
            _ => LockKind::Exclusive,
        }
    }
}

/// Behind the key of a call in a log; nothing stands for an exclusive lock.
impl fmt::Display for LockKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockKind::Exclusive => Ok(()),
            LockKind::Read => f.write_str(" read"),
            LockKind::Permit(count) => write!(f, " permit-of-{count}"),
        }
    }
}

impl FromStr for LockKind {
    type Err = ();

    fn from_str(text: &str) -> Result<LockKind, ()> {
        match text {
            "" => Ok(LockKind::Exclusive),
            "read" => Ok(LockKind::Read),
            _ => {
                let count = text.strip_prefix("permit-of-").ok_or(())?;
                count.parse().map(LockKind::Permit).map_err(drop)
            }
        }
    }
}
