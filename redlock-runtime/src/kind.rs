//! The kinds of locks: how a lease shares its key with other leases.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::error::LockError;

/// The kind of a lock. A key has one kind at a time: a request of another kind waits as for any
/// holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum Kind {
    /// One holder, which is beside nobody: the plain lock, and the write lock of its key.
    #[default]
    Exclusive,
    /// Any number of readers, each with a lease of its own.
    Read,
    /// At most this many holders, each with a lease of its own. Who asks brings its own number: it
    /// is admitted while fewer than that many permits are held.
    Permits(NonZeroU32),
}

impl Kind {
    /// The kind of a lock with this many permits.
    pub(crate) fn permits(count: u32) -> Result<Self, LockError> {
        let none = || {
            LockError::config(
                "`permits` is 0, so that nobody could ever hold the lock; name how many may",
            )
        };
        NonZeroU32::new(count).map(Self::Permits).ok_or_else(none)
    }

    /// The kind of a request that has chosen `before` and now chooses `next`. An error in `before`
    /// stays; of two choices of one sort, the later one counts.
    pub(crate) fn chosen(
        before: Result<Self, LockError>,
        next: Result<Self, LockError>,
    ) -> Result<Self, LockError> {
        match (before?, &next) {
            (Self::Read, Ok(Self::Permits(_)) | Err(_)) | (Self::Permits(_), Ok(Self::Read)) => {
                Err(LockError::config(
                    "`read` and `permits` are two kinds of locks, and both were asked for; use one \
                     of them: any number of readers beside each other, or at most so many holders",
                ))
            }
            _ => next,
        }
    }

    /// Fails for what several keys cannot be together.
    pub(crate) fn check_several(self, min_hold: Duration) -> Result<(), LockError> {
        if self.is_shared() {
            return Err(LockError::config(
                "several keys are locked together as exclusive locks only; take read locks and \
                 permits one by one, in one order everywhere",
            ));
        }
        if !min_hold.is_zero() {
            return Err(LockError::config(
                "`min_hold` is for a job that runs once, so for one key; leave it out for several \
                 keys, or take a lock of the job with `min_hold` around them",
            ));
        }
        Ok(())
    }

    /// Fails for what several could hold at once.
    pub(crate) fn check_lead(self) -> Result<(), LockError> {
        if self.is_shared() {
            return Err(LockError::config(
                "`lead` is for one leader at a time, so for an exclusive lock; leave out `read()` \
                 or `permits(n)`, or run the work under a permit with `run` instead of `lead`",
            ));
        }
        Ok(())
    }

    /// What operators call it.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Exclusive => "write",
            Self::Read => "read",
            Self::Permits(_) => "permit",
        }
    }

    /// May several owners hold the lock at the same time?
    pub(crate) fn is_shared(self) -> bool {
        self != Self::Exclusive
    }

    /// Is it of one sort with `other`, whatever their numbers of permits?
    pub(crate) fn is_like(self, other: Self) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }

    /// May a call of this kind run inside of a hold of `outer`, which its own task has?
    pub(crate) fn may_run_inside(self, outer: Self) -> bool {
        match (self, outer) {
            (Self::Exclusive | Self::Read, Self::Exclusive) | (Self::Read, Self::Read) => true,
            // A hold with more permits may have more callers inside than this call accepts.
            (Self::Permits(own), Self::Permits(outer)) => own >= outer,
            (Self::Exclusive, Self::Read | Self::Permits(_))
            | (Self::Read, Self::Permits(_))
            | (Self::Permits(_), Self::Exclusive | Self::Read) => false,
        }
    }
}

/// What one holder of a group is called.
pub(crate) const READER: &str = "reader";
const PERMIT: &str = "permit";

/// How a group of holders is shown where one holder is shown by its owner value: `3 readers`, or
/// `readers` if nobody counted them.
pub(crate) fn shown_group(kind: Kind, count: Option<usize>) -> String {
    let one = if kind == Kind::Read { READER } else { PERMIT };
    match count {
        Some(1) => format!("1 {one}"),
        Some(count) => format!("{count} {one}s"),
        None => format!("{one}s"),
    }
}

/// Of what the group consists that is shown so; `None`: it is an owner value.
pub(crate) fn group_of(holder: &str) -> Option<&str> {
    let (count, name) = holder.split_once(' ').unwrap_or(("", holder));
    let one = name.strip_suffix('s').unwrap_or(name);
    let is_group =
        count.bytes().all(|byte| byte.is_ascii_digit()) && [READER, PERMIT].contains(&one);
    is_group.then_some(one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_told_from_an_owner() {
        for (count, shown) in [(Some(1), "1 reader"), (Some(3), "3 readers"), (None, "readers")] {
            assert_eq!(shown_group(Kind::Read, count), shown);
            assert_eq!(group_of(shown), Some("reader"));
        }
        for owner in ["web-3:x", "3", "", "x readers", "3 readers:0123"] {
            assert_eq!(group_of(owner), None, "{owner}");
        }
    }

    #[test]
    fn a_read_runs_inside_of_a_write_and_never_the_other_way_round() {
        let permits = |count| Kind::Permits(NonZeroU32::new(count).unwrap());
        assert!(Kind::Read.may_run_inside(Kind::Exclusive));
        assert!(!Kind::Exclusive.may_run_inside(Kind::Read));
        assert!(permits(3).may_run_inside(permits(3)) && permits(4).may_run_inside(permits(3)));
        assert!(!permits(2).may_run_inside(permits(3)));
        for kind in [Kind::Exclusive, Kind::Read] {
            assert!(kind.may_run_inside(kind));
            assert!(!kind.may_run_inside(permits(3)) && !permits(3).may_run_inside(kind));
        }
    }
}
