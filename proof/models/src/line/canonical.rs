//! States that have the same future are made the same: what cannot matter any more is forgotten,
//! fencing tokens are kept small, and processes have no names.

use std::cell::Cell;

use crate::few::Few;

use super::messages::Command;
use super::state::{OWNERS, Owner, Phase, Process, State, number, process_of};

impl<const P: usize> State<P> {
    /// Forgets what cannot change anything any more.
    pub(super) fn without_echoes(mut self) -> Self {
        for at in 0..P {
            let process = self.processes[at];
            let keeps = |command: Command| match command {
                Command::Join { .. } | Command::Claim { .. } => true,
                _ => process.awaits(command) || self.has_a_future(command.owner()),
            };
            let mut kept = process;
            kept.commands.retain(keeps);
            kept.calls.retain(|call| process.knows(call.owner) || self.has_a_future(call.owner));
            let first = number(at) * OWNERS;
            let has_joined = |at: &u8| process.joined & (1 << at) != 0;
            let is_left = |at: &u8| has_joined(at) && self.has_a_future(first + at);
            kept.joined = (0..process.owners).filter(is_left).map(|at| 1 << at).sum();
            self.processes[at] = kept;
        }
        self.with_small_fences()
    }

    /// The same order of fencing tokens, in smaller numbers: what lies between two that are in use,
    /// and next to neither, is left out.
    fn with_small_fences(mut self) -> Self {
        let bits = Cell::new(0b11_u64);
        let note = |fence: &mut i8| bits.set(bits.get() | 1 << (*fence + 1));
        note(&mut self.lock.counter);
        self.processes.iter_mut().for_each(|process| process.change_fences(note));
        let (bits, starts) = (bits.get(), bits.get() & !(bits.get() << 1));
        let small = |fence: &mut i8| {
            let bit = 1 << (*fence + 1);
            let (below, up_to) = (bit - 1, bit | (bit - 1));
            let places = (bits & below).count_ones() + (starts & up_to).count_ones() - 1;
            *fence = i8::try_from(places).unwrap_or(i8::MAX) - 1;
        };
        small(&mut self.lock.counter);
        self.processes.iter_mut().for_each(|process| process.change_fences(small));
        self
    }

    /// May this owner have the lock, now or later?
    fn has_a_future(&self, owner: Owner) -> bool {
        let commands = self.processes.iter().flat_map(|process| process.commands.iter());
        self.lock.owner == Some(owner)
            || self.line.has(owner)
            || commands.into_iter().any(|command| command.brings(owner))
    }

    /// The same state, whatever its processes are called.
    pub(super) fn sorted(mut self) -> Self {
        let place = |process: usize| {
            let is_of = |owner: &Owner| process_of(*owner) == process;
            let in_line = self.line.iter().position(|owner| is_of(&owner));
            let watches = self.lock.watcher == Some(number(process));
            (self.lock.owner.is_some_and(|owner| is_of(&owner)), watches, in_line)
        };
        let mut order: [usize; P] = std::array::from_fn(|process| process);
        let keys: [_; P] = std::array::from_fn(|process| {
            (self.processes[process].named(number(process), 0), place(process))
        });
        order.sort_by(|one, other| keys[*one].cmp(&keys[*other]));
        if !order.is_sorted() {
            let rename = |owner: Owner| {
                let at = order.iter().position(|process| *process == process_of(owner));
                number(at.unwrap_or_default()) * OWNERS + owner % OWNERS
            };
            let mut line = Few::EMPTY;
            self.line.iter().for_each(|owner| line.push(rename(owner)));
            self.line = line;
            self.lock.owner = self.lock.owner.map(rename);
            self.lock.watcher = self.lock.watcher.map(|watcher| rename(watcher * OWNERS) / OWNERS);
            let old = self.processes;
            for (at, process) in order.into_iter().enumerate() {
                self.processes[at] = old[process].named(number(process), number(at));
            }
        }
        self
    }
}

impl Process {
    /// Its owners are those of process `from`; now they are those of process `to`.
    fn named(mut self, from: u8, to: u8) -> Self {
        let rename = |owner: &mut Owner| *owner = *owner - from * OWNERS + to * OWNERS;
        match &mut self.phase {
            Phase::Idle => {}
            Phase::InLine { owner, .. } | Phase::Holding { owner, .. } => rename(owner),
            Phase::Claiming { owner, call, .. } => {
                rename(owner);
                rename(&mut call.owner);
            }
            Phase::Rotating { owner, next, .. } => {
                rename(owner);
                rename(next);
            }
        }
        self.calls.iter_mut().for_each(|call| rename(&mut call.owner));
        self.commands.iter_mut().for_each(|command| match command {
            Command::Join { owner }
            | Command::Look { owner }
            | Command::Claim { owner }
            | Command::Renew { owner }
            | Command::Release { owner, .. }
            | Command::Leave { owner }
            | Command::GiveBack { owner, .. } => rename(owner),
            Command::Rotate { owner, next, .. } => {
                rename(owner);
                rename(next);
            }
        });
        self
    }
}
