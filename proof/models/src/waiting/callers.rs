//! What callers and holders do (`acquire/{acquiring,direct_attempt,wait_handle}.rs`,
//! `local_queue/{entering,succession}.rs`, `handoff/local_handoff.rs`).

use super::state::{Caller, Command, Phase, Poller, Process, Rest, Slot, State, Until};
use super::{Bug, Waiting};

impl<const P: usize, const C: usize> Waiting<P, C> {
    /// May a caller ask by itself (`QueueHandle::attempt_first`)?
    pub(super) fn may_ask_first(&self, at: usize, process: &Process<C>) -> bool {
        process.queue.is_empty() && !self.is_taken_here(at, process)
    }

    /// Is there something that a newcomer has to wait for (`QueueState::is_taken_here`)?
    pub(super) fn is_taken_here(&self, at: usize, process: &Process<C>) -> bool {
        let is_moving = process.has_question() || process.returned.is_some();
        is_moving || process.held().is_some() || self.has_release(at, process)
    }

    /// Is a release on its way whose end is news (`QueueState::releases`)?
    pub(super) fn has_release(&self, at: usize, process: &Process<C>) -> bool {
        let is_release = |command| matches!(command, Command::Release { .. });
        self.is_untold(at) && process.commands.iter().any(is_release)
    }

    pub(super) fn ask_first(state: &mut State<P, C>, at: usize, caller: usize) {
        let Some(slot) = state.fresh(at) else { return };
        let this = &mut state.processes[at];
        this.callers[caller].phase = Phase::Asking { slot, counts: true, reply: None };
        this.commands.must_push(Command::Acquire { slot });
    }

    /// A newcomer waits behind the others (`QueueHandle::enter`).
    pub(super) fn enter(&self, state: &mut State<P, C>, at: usize, caller: usize, is_first: bool) {
        let this = &mut state.processes[at];
        this.callers[caller].phase = Phase::Waiting;
        let number = u8::try_from(caller).unwrap_or(u8::MAX);
        if is_first {
            this.queue.must_push_front(number);
        } else {
            this.queue.must_push(number);
        }
        match this.poller {
            Poller::Absent => this.poller = Poller::Awake { is_due: false },
            Poller::Resting(rest) if self.heeds_newcomers(at, this, rest) => this.notify(),
            _ => {}
        }
    }

    /// The cure: a newcomer wakes a poller that would not rest as it does if it looked now.
    fn heeds_newcomers(&self, at: usize, process: &Process<C>, rest: Rest) -> bool {
        match (self.bug, rest) {
            (Bug::NewcomerUnheard, Rest::TakenHere(_)) => false,
            (Bug::AnythingTakenIsNews, Rest::TakenHere(_) | Rest::InQueue) => {
                !self.is_taken_here(at, process) && process.entry.is_none()
            }
            _ => self.rest(at, process) != Some(rest),
        }
    }

    /// A caller reads the answer to its own question.
    pub(super) fn read_answer(&self, state: &mut State<P, C>, at: usize, caller: usize) {
        let Phase::Asking { slot, reply: Some(granted), .. } =
            state.processes[at].callers[caller].phase
        else {
            return;
        };
        if granted {
            let this = &mut state.processes[at];
            this.callers[caller].phase = Phase::Holding { slot, is_over: false };
            this.holder = caller.try_into().ok();
        } else {
            self.enter(state, at, caller, true);
        }
        self.end_question(&mut state.processes[at]);
    }

    /// (`DirectAttemptGuard::drop`.)
    fn end_question(&self, process: &mut Process<C>) {
        if self.bug != Bug::EndUnheard {
            process.notify_waiters();
        }
    }

    /// A caller goes away: it gave up, or its future was dropped.
    pub(super) fn give_up(&self, state: &mut State<P, C>, at: usize, caller: usize) {
        let this = &mut state.processes[at];
        let is_stalled = this.callers[caller].is_stalled;
        this.callers[caller].is_stalled = false;
        match this.callers[caller].phase {
            Phase::Asking { .. } => self.undo(this, caller),
            Phase::Waiting => {
                this.callers[caller].phase = Phase::Away;
                this.queue.remove_first(caller.try_into().unwrap_or(u8::MAX));
                if self.bug != Bug::LeaveUnheard {
                    this.notify();
                }
            }
            Phase::Granted { .. } => self.finish(this, caller, true),
            _ => this.callers[caller].is_stalled = is_stalled,
        }
    }

    /// A question comes to nothing. What it may be granted goes back: a release follows it.
    pub(super) fn undo(&self, this: &mut Process<C>, caller: usize) {
        let Phase::Asking { slot, reply, .. } = this.callers[caller].phase else { return };
        this.callers[caller] = Caller { phase: Phase::Away, is_stalled: false };
        if reply != Some(false) {
            this.commands.must_push(Command::Release { slot });
        }
        self.end_question(this);
    }

    /// A grant that its caller has not taken goes on to the next one.
    pub(super) fn take_back(&self, this: &mut Process<C>, caller: usize) {
        this.callers[caller].is_stalled = false;
        self.finish(this, caller, true);
    }

    /// A holder lets go. `passes`: the next caller of this process has the lock at once, otherwise
    /// once the poller has looked after other processes (`QueueHandle::next`).
    pub(super) fn finish(&self, this: &mut Process<C>, caller: usize, passes: bool) {
        let (slot, is_over) = match this.callers[caller].phase {
            Phase::Granted { slot } => (slot, false),
            Phase::Holding { slot, is_over } => (slot, is_over),
            _ => return,
        };
        if this.holder.map(usize::from) == Some(caller) {
            this.holder = None;
        }
        this.callers[caller].phase = Phase::Away;
        if is_over {
            this.notify_waiters();
        } else if this.queue.is_empty() {
            this.callers[caller].phase = Phase::LettingGo { slot };
        } else if passes {
            Self::grant_first(this, slot);
            if this.queue.is_empty() && this.entry.is_some() && self.bug != Bug::LastOneUnheard {
                this.notify();
            }
        } else if this.returned.is_some() && self.bug != Bug::ReturnOverReturn {
            // Two believed to hold the lock: the poller can look after one tenure only.
            this.callers[caller].phase = Phase::LettingGo { slot };
        } else {
            this.returned = Some(slot);
            this.notify();
        }
    }

    /// The first who waits has the lock. Returns whether there is one.
    pub(super) fn grant_first(this: &mut Process<C>, slot: Slot) -> bool {
        let Some(first) = this.queue.pop() else { return false };
        this.callers[usize::from(first)].phase = Phase::Granted { slot };
        this.holder = Some(first);
        true
    }

    /// The last holder has found that no caller waits (`QueueHandle::let_go`).
    pub(super) fn let_go(this: &mut Process<C>, caller: usize) {
        let Phase::LettingGo { slot } = this.callers[caller].phase else { return };
        this.callers[caller].phase = Phase::Away;
        this.commands.must_push(Command::Release { slot });
        this.notify_waiters();
    }

    pub(super) fn take_grant(this: &mut Process<C>, caller: usize) {
        if let Phase::Granted { slot } = this.callers[caller].phase {
            this.callers[caller].phase = Phase::Holding { slot, is_over: false };
        }
    }

    /// A question has been without an answer that was read for 10 ms. The timer of a poller that
    /// rests for this reason fires then.
    pub(super) fn outdate(this: &mut Process<C>, caller: usize) {
        if let Phase::Asking { counts, .. } = &mut this.callers[caller].phase {
            *counts = false;
        }
        if this.poller == Poller::Resting(Rest::TakenHere(Until::Question)) {
            this.poller = Poller::Awake { is_due: true };
        }
    }
}
