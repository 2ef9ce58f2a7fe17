//! The identity of the running process, and statics of which each process has its own.
//!
//! A fork copies the memory of a process and none of its threads. What the parent has made is of no
//! use in the child: no thread drives it there, and a mutex that another thread had locked stays
//! locked for ever. So each process has its own statics, and what belongs to another process is
//! neither locked nor dropped.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use forkguard::Guard;
use once_cell::race::OnceBox;
use once_cell::sync::OnceCell;

use crate::error::LockError;

/// How many processes, each forked from the one before, may use the library.
const GENERATIONS: usize = 16;

/// Tells a process from all those that it was forked from, also where the system has given it the
/// id of one of them again, as in a container of its own.
pub(crate) type ProcessId = u64;

/// The last process that made a client, as far as this memory knows. A client is made before any
/// other object, so this is the running process wherever a client of its own is used.
static LATEST: AtomicU64 = AtomicU64::new(0);

/// The processes that made a client, in the order in which they were forked from each other. No
/// mutex guards them: when a process forks, a thread of the parent may be writing here.
static KNOWN: [OnceBox<Known>; GENERATIONS] = [const { OnceBox::new() }; GENERATIONS];
/// The place there of the last process that made a client.
static CURRENT: AtomicUsize = AtomicUsize::new(0);
/// Is this a child whose fork was not detected when it happened?
static IS_MISSED: AtomicBool = AtomicBool::new(false);

/// A process that made a client.
struct Known {
    id: ProcessId,
    system_id: u32,
    forks: Guard,
}

impl Known {
    fn was_forked(&self) -> bool {
        self.forks.clone().detected_fork()
    }
}

/// The running process. This makes a system call before the first client is made, and in the child
/// of a fork only: there is a check in every step of a body.
pub(crate) fn id() -> ProcessId {
    let current = CURRENT.load(Ordering::Relaxed);
    match KNOWN[current].get() {
        Some(known) if !known.was_forked() && !IS_MISSED.load(Ordering::Relaxed) => known.id,
        Some(_) => identity(current + 1, std::process::id()),
        None => identity(current, std::process::id()),
    }
}

fn identity(generation: usize, system_id: u32) -> ProcessId {
    ((generation as ProcessId + 1) << 32) | ProcessId::from(system_id)
}

/// Asks the system for the running process. From here on a fork that was not detected, such as that
/// of a bare `clone`, is known.
pub(crate) fn ask() -> u32 {
    let system_id = std::process::id();
    let known = KNOWN[CURRENT.load(Ordering::Relaxed)].get();
    if known.is_some_and(|known| known.system_id != system_id) {
        IS_MISSED.store(true, Ordering::Relaxed);
    }
    system_id
}

/// Notes that the running process makes a client.
pub(crate) fn begin() -> ProcessId {
    let system_id = ask();
    let current = CURRENT.load(Ordering::Relaxed);
    // A thread of the parent may have written its entry while the process forked.
    let is_own = |known: &Known| known.system_id == system_id && !known.was_forked();
    let known = (current..GENERATIONS).find_map(|place| {
        let known = || {
            let (id, forks) = (identity(place, system_id), forkguard::new());
            Box::new(Known { id, system_id, forks })
        };
        let known = KNOWN[place].get_or_init(known);
        is_own(known).then_some((place, known.id))
    });
    // After too many generations nothing else can be made that needs an entry.
    let (place, id) = known.unwrap_or((current, identity(GENERATIONS, system_id)));
    CURRENT.store(place, Ordering::Relaxed);
    if known.is_some() {
        IS_MISSED.store(false, Ordering::Relaxed);
    }
    LATEST.store(id, Ordering::Relaxed);
    id
}

/// The running process, without a system call; valid where a client of its own is used.
pub(crate) fn latest() -> ProcessId {
    LATEST.load(Ordering::Relaxed)
}

/// What the process that made it drops. The child of a fork forgets it: another thread of the
/// parent may hold a mutex that the drop would lock, as those of timers, semaphores and tasks.
#[derive(Debug)]
pub(crate) struct OfProcess<T> {
    /// `None` only while it is dropped.
    value: Option<T>,
    process: ProcessId,
}

impl<T> OfProcess<T> {
    /// `process`: the running one.
    pub(crate) fn new(process: ProcessId, value: T) -> Self {
        Self { value: Some(value), process }
    }
}

impl<F: Future + Unpin> Future for OfProcess<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let Some(future) = &mut self.value else { unreachable!("it is not dropped yet") };
        Pin::new(future).poll(cx)
    }
}

impl<T> Drop for OfProcess<T> {
    fn drop(&mut self) {
        if self.process != id() {
            std::mem::forget(self.value.take());
        }
    }
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
    process: AtomicU64,
    value: OnceCell<T>,
}

impl<T> PerProcess<T> {
    pub(crate) const fn new() -> Self {
        Self {
            slots: [const { ProcessSlot { process: AtomicU64::new(0), value: OnceCell::new() } };
                GENERATIONS],
        }
    }

    /// The value of `process`, made now if there is none.
    ///
    /// # Errors
    /// [`LockError::ForkedProcess`] after too many generations of forks.
    pub(crate) fn of(&self, process: ProcessId, make: impl FnOnce() -> T) -> Result<&T, LockError> {
        Ok(self.slot(process)?.value.get_or_init(make))
    }

    /// Makes `value` that of `process`.
    ///
    /// # Errors
    /// [`LockError::AlreadyInitialized`] if it has one, [`LockError::ForkedProcess`] as
    /// [`of`](Self::of).
    pub(crate) fn set(&self, process: ProcessId, value: T) -> Result<(), LockError> {
        self.slot(process)?.value.set(value).map_err(|_| LockError::AlreadyInitialized)
    }

    /// The value of the last process that made one: this process, or one that it was forked from.
    pub(crate) fn last(&self) -> Option<&T> {
        let claimed = self.slots.iter().take_while(|slot| slot.process.load(Ordering::Acquire) > 0);
        claimed.filter_map(|slot| slot.value.get()).last()
    }

    fn slot(&self, process: ProcessId) -> Result<&ProcessSlot<T>, LockError> {
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
    fn what_belongs_to_another_process_is_not_dropped() {
        let value = std::sync::Arc::new(());
        drop(OfProcess::new(id(), std::sync::Arc::clone(&value)));
        assert_eq!(std::sync::Arc::strong_count(&value), 1);
        drop(OfProcess::new(id() + 1, std::sync::Arc::clone(&value)));
        assert_eq!(std::sync::Arc::strong_count(&value), 2);
    }

    #[test]
    fn a_process_with_the_system_id_of_its_parent_is_another_one() {
        assert_ne!(identity(0, 1), identity(1, 1));
        assert_ne!(identity(0, 1), identity(0, 2));
        assert_eq!(begin(), id());
        assert_eq!((begin(), latest()), (id(), id()));
    }

    #[test]
    fn after_too_many_generations_there_is_none() {
        let statics = PerProcess::new();
        let last = 100 + GENERATIONS as ProcessId;
        for process in 100..last {
            assert!(statics.of(process, || process).is_ok());
        }
        assert_eq!(statics.of(last, || last), Err(LockError::ForkedProcess));
    }
}
