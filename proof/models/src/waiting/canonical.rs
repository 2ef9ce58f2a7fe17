//! States that differ in names only are one.

use super::state::{Gone, Phase, Process, State};

impl<const P: usize, const C: usize> State<P, C> {
    /// Callers of a process are interchangeable, and so are processes that are alike.
    pub(super) fn canonical(mut self, has_untold: bool) -> Self {
        for process in &mut self.processes {
            process.sort_callers();
        }
        if P == 2 && !has_untold {
            let other = self.swapped();
            return self.min(other);
        }
        self
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
        self.server.line.change(|entry| entry.process = other(entry.process));
        self
    }
}

impl<const C: usize> Process<C> {
    fn sort_callers(&mut self) {
        let mut order: [u8; C] = std::array::from_fn(|at| at.try_into().unwrap_or(u8::MAX));
        let place = |caller: u8| self.queue.iter().position(|waiter| waiter == caller);
        order.sort_by_key(|caller| (self.callers[usize::from(*caller)], place(*caller)));
        let new = |old: u8| {
            let at = order.iter().position(|caller| *caller == old);
            at.and_then(|at| at.try_into().ok()).unwrap_or(u8::MAX)
        };
        let callers = order.map(|caller| self.callers[usize::from(caller)]);
        self.queue.change(|waiter| *waiter = new(*waiter));
        self.holder = self.holder.map(new);
        self.callers = callers;
        debug_assert!(self.queue.iter().all(|waiter| {
            self.callers[usize::from(waiter)].phase == Phase::Waiting
        }));
    }
}
