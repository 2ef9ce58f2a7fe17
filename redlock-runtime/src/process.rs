//! The identity of the running process, and statics of which each process has its own.
//!
//! A fork copies the memory of a process and none of its threads. What the parent has made is of no
//! use in the child: no thread drives it there, and a mutex that another thread had locked stays
//! locked for ever. So each process has its own statics, and what belongs to another process is
//! neither locked nor dropped.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use forkguard::Guard;
use once_cell::race::OnceBox;
use once_cell::sync::OnceCell;

use crate::error::LockError;

/// How many processes, each forked from the one before, may use the library.
const GENERATIONS: usize = 16;

/// The last process that made a client, as far as this memory knows. A client is made before any
/// other object, so this is the running process wherever a client of its own is used.
static LATEST: AtomicU32 = AtomicU32::new(0);

/// The process that made the first client, or zero.
static FIRST: AtomicU32 = AtomicU32::new(0);
/// Set by that process. Never a lock to wait for: when a process forks, a thread of the parent may
/// be setting it, and the child then asks the system for its id.
static FORKS: OnceBox<ForkDetector> = OnceBox::new();
/// Is this a child whose fork was not detected when it happened?
static IS_MISSED: AtomicBool = AtomicBool::new(false);

struct ForkDetector {
    process: u32,
    forks: Guard,
}

/// The running process. This makes a system call before the first client is made, and in the child
/// of a fork only: there is a check in every step of a body.
pub(crate) fn id() -> u32 {
    match FORKS.get() {
        Some(first)
            if !first.forks.clone().detected_fork() && !IS_MISSED.load(Ordering::Relaxed) =>
        {
            first.process
        }
        _ => std::process::id(),
    }
}

/// The running process, as the system knows it. From here on a fork that was not detected, as that
/// of a bare `clone`, is known.
pub(crate) fn ask() -> u32 {
    let process = std::process::id();
    if FORKS.get().is_some_and(|first| first.process != process) {
        IS_MISSED.store(true, Ordering::Relaxed);
    }
    process
}

/// Notes that the running process makes a client.
pub(crate) fn begin() -> u32 {
    let process = ask();
    if FIRST.compare_exchange(0, process, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
        let _ = FORKS.set(Box::new(ForkDetector { process, forks: forkguard::new() }));
    }
    LATEST.store(process, Ordering::Relaxed);
    process
}

/// The running process, without a system call; valid where a client of its own is used.
pub(crate) fn latest() -> u32 {
    LATEST.load(Ordering::Relaxed)
}

/// A static of which each process has its own.
#[derive(Debug)]
pub(crate) struct PerProcess<T> {
    /// In the order of their processes, each forked from the one before. No two processes ever use
    /// the same slot, so a child does not meet the unfinished work of a parent's thread.
    slots: [ProcessSlot<T>; GENERATIONS],
}

#[derive(Debug)]
struct ProcessSlot<T> {
    /// Zero: the slot is not used yet.
    process: AtomicU32,
    value: OnceCell<T>,
}

impl<T> PerProcess<T> {
    pub(crate) const fn new() -> Self {
        Self {
            slots: [const { ProcessSlot { process: AtomicU32::new(0), value: OnceCell::new() } };
                GENERATIONS],
        }
    }

    /// The value of `process`, made now if there is none.
    ///
    /// # Errors
    /// [`LockError::ForkedProcess`] after too many generations of forks.
    pub(crate) fn of(&self, process: u32, make: impl FnOnce() -> T) -> Result<&T, LockError> {
        Ok(self.slot(process)?.value.get_or_init(make))
    }

    /// Makes `value` that of `process`.
    ///
    /// # Errors
    /// [`LockError::AlreadyInitialized`] if it has one, [`LockError::ForkedProcess`] as
    /// [`of`](Self::of).
    pub(crate) fn set(&self, process: u32, value: T) -> Result<(), LockError> {
        self.slot(process)?.value.set(value).map_err(|_| LockError::AlreadyInitialized)
    }

    /// The value of the last process that made one: this process, or one that it was forked from.
    pub(crate) fn last(&self) -> Option<&T> {
        let claimed = self.slots.iter().take_while(|slot| slot.process.load(Ordering::Acquire) > 0);
        claimed.filter_map(|slot| slot.value.get()).last()
    }

    fn slot(&self, process: u32) -> Result<&ProcessSlot<T>, LockError> {
        let is_ours = |slot: &&ProcessSlot<T>| {
            let claim =
                slot.process.compare_exchange(0, process, Ordering::AcqRel, Ordering::Acquire);
            claim.is_ok() || claim == Err(process)
        };
        self.slots.iter().find(is_ours).ok_or(LockError::ForkedProcess)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_process_has_a_value_of_its_own() {
        let statics = PerProcess::new();
        assert_eq!(statics.last(), None);
        assert_eq!(statics.of(41, || "parent"), Ok(&"parent"));
        assert_eq!(statics.of(41, || "again"), Ok(&"parent"));
        assert_eq!(statics.last(), Some(&"parent"));
        assert_eq!(statics.of(42, || "child"), Ok(&"child"));
        assert_eq!(statics.of(41, || "again"), Ok(&"parent"));
        assert_eq!(statics.last(), Some(&"child"));
        assert_eq!(statics.set(42, "again"), Err(LockError::AlreadyInitialized));
        assert_eq!(statics.set(43, "grandchild"), Ok(()));
        assert_eq!(statics.last(), Some(&"grandchild"));
    }

    #[test]
    fn after_too_many_generations_there_is_none() {
        let statics = PerProcess::new();
        let last = 100 + u32::try_from(GENERATIONS).unwrap();
        for process in 100..last {
            assert!(statics.of(process, || process).is_ok());
        }
        assert_eq!(statics.of(last, || last), Err(LockError::ForkedProcess));
    }
}
