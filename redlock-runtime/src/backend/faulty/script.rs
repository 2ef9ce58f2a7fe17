//! Which commands meet which fates.

use std::collections::{HashMap, VecDeque};

use super::fate::Fate;
use crate::error::NodeErrorKind;

/// The commands that faults are planned for, in `redlock::testing`.
///
/// ```
/// use redlock::testing::{Command, FaultyStore};
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), redlock::LockError> {
/// let store = FaultyStore::new();
/// store.every(Command::Renew).lose_reply();
/// # let redlock = store.client().await?;
/// let guard = redlock.lock("stock-42").acquire().await?; // acquires are answered
/// assert!(guard.release().await.is_ok()); // and so are releases
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Command {
    /// A call asks for the lock, or a holder for a read lock in its place (a downgrade). A call
    /// that waits asks again and again.
    Acquire,
    /// N masters agree on the fencing token of a lock that they granted, or the keys of one call on
    /// theirs. Only sent where the tokens differ.
    Raise,
    /// The lease is made full again, which is due after two thirds of it.
    Renew,
    /// The lock is let go of, or an acquire without an answer is undone.
    Release,
    /// Whatever comes.
    Any,
}

/// The fates of the commands that one node gets.
#[derive(Debug, Default)]
pub(crate) struct FaultScript {
    is_down: bool,
    next: HashMap<Command, VecDeque<Fate>>,
    every: HashMap<Command, Fate>,
}

impl FaultScript {
    /// These commands meet these fates, one after another.
    pub(crate) fn next(&mut self, command: Command, fates: impl IntoIterator<Item = Fate>) {
        self.next.entry(command).or_default().extend(fates);
    }

    /// From now on all these commands meet this fate, unless they have one of their own.
    pub(crate) fn every(&mut self, command: Command, fate: Option<Fate>) {
        match fate {
            Some(fate) => self.every.insert(command, fate),
            None => self.every.remove(&command),
        };
    }

    /// From now on the node cannot be reached, whatever else is planned; or it can again.
    pub(crate) fn set_down(&mut self, is_down: bool) {
        self.is_down = is_down;
    }

    /// The fate of the command that comes now.
    pub(crate) fn draw(&mut self, command: Command) -> Option<Fate> {
        if self.is_down {
            return Some(DOWN);
        }
        let mut own = |command| self.next.get_mut(&command).and_then(VecDeque::pop_front);
        own(command).or_else(|| own(Command::Any)).or_else(|| self.standing(command))
    }

    /// The same for a question about the node itself, which no fate of a single command is for.
    pub(crate) fn standing(&self, command: Command) -> Option<Fate> {
        if self.is_down {
            return Some(DOWN);
        }
        self.every.get(&command).or_else(|| self.every.get(&Command::Any)).copied()
    }
}

const DOWN: Fate = Fate::Refused(NodeErrorKind::Unreachable, false);
