//! The task that asks for all who wait in a process (`acquire/waiting/poller.rs`, and beside it
//! `in_queue.rs` and `deliver.rs`).

use super::state::{Asked, Command, Poller, Process, Reply, Rest, Slot, State, Until};
use super::{Bug, Waiting};

impl<const P: usize, const C: usize> Waiting<P, C> {
    /// Why the poller rests with what it sees now (`Poller::rest_until`).
    pub(super) fn rest(&self, at: usize, process: &Process<C>) -> Option<Rest> {
        if process.returned.is_some() {
            return None;
        }
        if process.queue.is_empty() {
            return process.entry.is_none().then_some(Rest::Lingers);
        }
        if self.is_taken_here(at, process) {
            return Some(Rest::TakenHere(self.taken_until(process)));
        }
        if process.entry.is_some() {
            return Some(Rest::InQueue);
        }
        (process.is_pausing && !process.is_freed).then_some(Rest::Pause)
    }

    fn taken_until(&self, process: &Process<C>) -> Until {
        if process.has_question() && self.bug != Bug::QuestionForEver {
            Until::Question
        } else if process.held().is_some() && self.bug != Bug::NeverBehindHolder {
            Until::Look
        } else {
            Until::News
        }
    }

    /// The poller looks at everything, and does what is next (`Poller::next_step`).
    pub(super) fn step(&self, state: &mut State<P, C>, at: usize) {
        let fresh = state.fresh(at);
        let this = &mut state.processes[at];
        let Poller::Awake { is_due } = this.poller else { return };
        if let Some(slot) = this.returned.take() {
            // Whoever is in line already, or cannot be, frees the lock.
            match fresh.filter(|_| this.entry.is_none() && !self.is_untold(at)) {
                Some(next) => {
                    this.ask(Asked::Rotate(next), Command::Rotate { slot, next });
                }
                None => this.commands.must_push(Command::Release { slot }),
            }
            return;
        }
        if this.queue.is_empty()
            && let Some(slot) = this.entry.take()
        {
            this.told = None;
            this.commands.must_push(Command::Leave { slot });
            return;
        }
        let rest = self.rest(at, this);
        if is_due && let Some((asked, command)) = Self::check(this, rest) {
            return this.ask(asked, command);
        }
        match (rest, fresh) {
            (Some(rest), _) => this.poller = Poller::Resting(rest),
            (None, Some(slot)) => {
                (this.is_pausing, this.is_freed) = (false, false);
                let asks = Command::Acquire { slot };
                let command = if self.is_untold(at) { asks } else { Command::Join { slot } };
                this.ask(Asked::Lock(slot), command);
            }
            (None, None) => {}
        }
    }

    /// Its timer fired: is what it rests for still so?
    fn check(process: &Process<C>, rest: Option<Rest>) -> Option<(Asked, Command)> {
        match (rest?, process.held(), process.entry) {
            (Rest::TakenHere(Until::Look), Some(slot), _) => {
                Some((Asked::Verify(slot), Command::Verify { slot }))
            }
            (Rest::InQueue, _, Some(slot)) => Some((Asked::Look(slot), Command::Look { slot })),
            _ => None,
        }
    }

    /// The timer of a rest fires.
    pub(super) fn wake(this: &mut Process<C>) {
        match this.poller {
            Poller::Resting(Rest::Lingers) => this.poller = Poller::Absent,
            Poller::Resting(rest) => {
                this.is_pausing &= rest != Rest::Pause;
                this.poller = Poller::Awake { is_due: true };
            }
            _ => {}
        }
    }

    /// The poller reads a reply.
    pub(super) fn read_reply(&self, state: &mut State<P, C>, at: usize) {
        let this = &mut state.processes[at];
        let Poller::Asked(asked, Some(reply)) = this.poller else { return };
        this.poller = Poller::Awake { is_due: false };
        match (asked, reply) {
            (Asked::Verify(slot), Reply::Unknown) => {
                // Meanwhile another one may hold the lock here, with another tenure.
                if this.held() == Some(slot) {
                    self.learn_loss(state, at, slot);
                }
            }
            (Asked::Verify(_), _) => {}
            (Asked::Lock(slot) | Asked::Look(slot) | Asked::Rotate(slot), Reply::Granted) => {
                Self::settle(this, slot);
            }
            (Asked::Lock(slot) | Asked::Look(slot) | Asked::Rotate(slot), Reply::InLine) => {
                this.entry = Some(slot);
            }
            (Asked::Look(_), _) => this.entry = None,
            (_, Reply::Refused) => this.is_pausing = true,
            (_, Reply::Unknown) => {}
        }
    }

    /// Its place in line is told that the lock is handed over (`Poller::rest`).
    pub(super) fn hear(this: &mut Process<C>) {
        let Some(slot) = this.told.take() else { return };
        if this.entry == Some(slot) {
            this.poller = Poller::Awake { is_due: false };
            Self::settle(this, slot);
        }
    }

    /// Gives a lock that was granted to the first who waits (`deliver`).
    fn settle(this: &mut Process<C>, slot: Slot) {
        if this.entry == Some(slot) {
            this.entry = None;
        }
        if this.told == Some(slot) {
            this.told = None;
        }
        if !Self::grant_first(this, slot) {
            this.commands.must_push(Command::Release { slot });
        }
    }
}

impl<const C: usize> Process<C> {
    fn ask(&mut self, asked: Asked, command: Command) {
        self.poller = Poller::Asked(asked, None);
        self.commands.must_push(command);
    }
}
