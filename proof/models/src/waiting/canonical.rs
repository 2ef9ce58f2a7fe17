//! States that differ in names only are one.

use crate::few::Few;

use super::state::{Asked, Command, Gone, Owner, Phase, Poller, Process, SLOTS, Slot, State};

impl<const P: usize, const C: usize> State<P, C> {
    /// Callers of a process are interchangeable, and so are processes that are alike.
    pub(super) fn canonical(mut self, has_untold: bool) -> Self {
        for at in 0..P {
            self.forget(at, has_untold && at == 0);
            self.processes[at].sort_callers();
            self.number_slots(at);
            self.processes[at].sort_commands();
        }
        if P == 2 && !has_untold {
            let other = self.swapped();
            return self.min(other);
        }
        self
    }

    /// Commands that change nothing any more, and that no one is told the end of.
    fn forget(&mut self, at: usize, is_untold: bool) {
        let owner = |slot| Owner { process: at.try_into().unwrap_or(u8::MAX), slot };
        let server = &self.server;
        let is_known = |slot| {
            server.key == Some(owner(slot)) || server.line.iter().any(|entry| entry == owner(slot))
        };
        let commands = self.processes[at].commands;
        self.processes[at].commands.retain(|command| {
            let (slot, is_told) = match command {
                Command::Leave { slot } => (slot, false),
                Command::Release { slot } => (slot, is_untold),
                _ => return true,
            };
            let is_this = |other: Command| other != command && other.slots().contains(&slot);
            is_told || is_known(slot) || commands.iter().any(is_this)
        });
    }

    /// Numbers the acquisitions of a process in the order in which they are found.
    fn number_slots(&mut self, at: usize) {
        let mut numbers = [None; SLOTS as usize];
        let mut count = 0;
        let mut number = |slot: &mut Slot| {
            let number = numbers[usize::from(*slot)].get_or_insert_with(|| {
                count += 1;
                count - 1
            });
            *slot = *number;
        };
        let own = |owner: &&mut Owner| owner.at() == at;
        self.server.key.as_mut().filter(own).into_iter().for_each(|key| number(&mut key.slot));
        self.server.line.iter_mut().filter(own).for_each(|entry| number(&mut entry.slot));
        self.processes[at].each_slot(&mut number);
    }

    /// With the first two processes in each other's place.
    fn swapped(mut self) -> Self {
        self.processes.swap(0, 1);
        let other = |process: u8| match process {
            0 => 1,
            1 => 0,
            more => more,
        };
        if let Some(key) = &mut self.server.key {
            key.process = other(key.process);
        }
        if let Gone::Released(by) = &mut self.server.gone {
            *by = other(*by);
        }
        self.server.line.iter_mut().for_each(|entry| entry.process = other(entry.process));
        self
    }
}

impl<const C: usize> Process<C> {
    fn each_slot(&mut self, number: &mut impl FnMut(&mut Slot)) {
        for caller in &mut self.callers {
            caller.phase.slot_mut().into_iter().for_each(&mut *number);
        }
        let places = [&mut self.entry, &mut self.told, &mut self.returned];
        places.into_iter().flatten().for_each(&mut *number);
        if let Poller::Asked(asked, _) = &mut self.poller {
            use Asked::{Lock, Look, Rotate, Verify};
            let (Lock(slot) | Look(slot) | Rotate(slot) | Verify(slot)) = asked;
            number(slot);
        }
        for command in self.commands.iter_mut() {
            match command {
                Command::Acquire { slot }
                | Command::Join { slot }
                | Command::Look { slot }
                | Command::Leave { slot }
                | Command::Verify { slot }
                | Command::Release { slot } => number(slot),
                Command::Rotate { slot, next } => {
                    number(slot);
                    number(next);
                }
            }
        }
    }

    /// Those that may land in any order have one order.
    fn sort_commands(&mut self) {
        let mut sorted = Few::EMPTY;
        while let Some(next) = self.landing().min() {
            self.commands.remove_first(next);
            sorted.must_push(next);
        }
        self.commands = sorted;
    }

    fn sort_callers(&mut self) {
        let mut order: [u8; C] = std::array::from_fn(|at| at.try_into().unwrap_or(u8::MAX));
        let place = |caller: u8| self.queue.iter().position(|waiter| waiter == caller);
        let key = |number: &u8| {
            let mut caller = self.callers[usize::from(*number)];
            let holds = self.holder == Some(*number);
            if let Some(slot) = caller.phase.slot_mut() {
                *slot = 0;
            }
            (caller, place(*number), holds)
        };
        order.sort_by_key(key);
        let new = |old: u8| {
            let at = order.iter().position(|caller| *caller == old);
            at.and_then(|at| at.try_into().ok()).unwrap_or(u8::MAX)
        };
        let callers = order.map(|caller| self.callers[usize::from(caller)]);
        self.queue.iter_mut().for_each(|waiter| *waiter = new(*waiter));
        self.holder = self.holder.map(new);
        self.callers = callers;
        debug_assert!(
            self.queue
                .iter()
                .all(|waiter| { self.callers[usize::from(waiter)].phase == Phase::Waiting })
        );
    }
}
