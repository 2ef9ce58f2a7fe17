//! What there is: keys with their queues, and processes with what they know to have.

use crate::few::Few;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct State<const P: usize, const K: usize> {
    pub(super) keys: [Key<P>; K],
    pub(super) processes: [Process<K>; P],
    /// How many may still die, and how many keys may still be lost.
    pub(super) crashes: u8,
    pub(super) losses: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key<const P: usize> {
    pub(super) holder: Option<usize>,
    /// Processes in the order in which they came; a process is in it once.
    pub(super) queue: Few<usize, P>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Process<const K: usize> {
    pub(super) phase: Phase,
    pub(super) has: [bool; K],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    Idle,
    Taking,
    /// In the queue of this key.
    Waiting(usize),
    Holding,
    /// It has let go, given up or failed. Its releases land at any time, and again.
    Over,
    Dead,
}

impl<const P: usize> Key<P> {
    pub(super) const FREE: Self = Self { holder: None, queue: Few::EMPTY };

    pub(super) fn is_alone(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn knows(&self, process: usize) -> bool {
        self.holder == Some(process) || self.queue.has(process)
    }
}

impl<const K: usize> Process<K> {
    pub(super) const IDLE: Self = Self { phase: Phase::Idle, has: [false; K] };

    pub(super) fn is_at_work(&self) -> bool {
        matches!(self.phase, Phase::Taking | Phase::Waiting(_) | Phase::Holding)
    }
}

impl<const P: usize, const K: usize> State<P, K> {
    /// Is a key gone that a process knows to have?
    pub(super) fn lacks(&self, process: usize) -> bool {
        let has = self.processes[process].has;
        (0..K).any(|key| has[key] && self.keys[key].holder != Some(process))
    }

    /// The first in the queue gets a key that is free; those who are gone do not hear of it.
    pub(super) fn hand_over(&mut self, key: usize) {
        while let Some(first) = self.keys[key].queue.first() {
            self.keys[key].queue.remove(first);
            if self.processes[first].phase != Phase::Dead {
                self.keys[key].holder = Some(first);
                return;
            }
        }
    }

    /// `release.lua` with `leave`.
    pub(super) fn release(&mut self, process: usize, key: usize) {
        self.keys[key].queue.remove(process);
        if self.keys[key].holder == Some(process) {
            self.keys[key].holder = None;
            self.hand_over(key);
        }
    }
}
