//! What the process and the server do, each as in the file that is named.

use super::state::{
    DRIFT, DUE, EXPIRE, Hold, Key, MARGIN, PAUSE, Release, Renewal, State, Task, VALIDITY,
};
use super::{Bug, Process};

/// What `Hold::next_action` says.
pub(super) enum Step {
    Renew,
    Sleep(u8),
    Forget,
}

impl Process {
    /// The longest hold: as if each renewal were sent when it is due (`validity::longest_hold`).
    pub(super) const fn longest(&self) -> u8 {
        (VALIDITY - DUE) * self.max_renew + VALIDITY - MARGIN
    }

    pub(super) fn is_used_up(&self, hold: &Hold) -> bool {
        self.bug != Bug::NoLimit && hold.renewals >= self.max_renew
    }

    /// `Hold::next_action`: what the scheduler is to do; loses the lease when its time is up.
    pub(super) fn step(&self, hold: &mut Hold) -> Step {
        let asks = self.bug != Bug::RegisterLateUnasked;
        if hold.is_due_to_stop() {
            hold.ended = true;
        }
        if hold.ended && asks {
            Step::Forget
        } else if self.is_used_up(hold) {
            Step::Sleep(hold.until_stop())
        } else if hold.left > DUE {
            Step::Sleep((hold.left - DUE).min(hold.until_stop()))
        } else {
            Step::Renew
        }
    }

    /// `Hold::extend`: a renewal was confirmed.
    pub(super) fn extend(&self, hold: &mut Hold, left: u8) {
        if self.bug == Bug::LateConfirmation {
            hold.ended = false;
        } else if hold.is_due_to_stop() {
            hold.ended = true;
        }
        if !hold.ended {
            (hold.left, hold.renewals) = (left, hold.renewals.saturating_add(1));
        }
    }

    pub(super) fn says_held(&self, state: &State) -> bool {
        let is_held = matches!(state.task, Task::Running | Task::Polling);
        let by_clock = self.bug == Bug::FlagOnly || !state.hold.is_due_to_stop();
        is_held && by_clock && !state.hold.ended
    }

    pub(super) fn register(&self, state: &mut State) {
        state.look = Some(match self.step(&mut state.hold) {
            Step::Sleep(at) => at,
            Step::Renew | Step::Forget => 0,
        });
    }

    pub(super) fn take(&self, state: &mut State) {
        state.is_granted = false;
        if state.hold.is_due_to_stop() {
            // Too late: given back, the scheduler never knew it.
            state.task = Task::LettingGo(0);
            return;
        }
        state.task = Task::Running;
        if matches!(self.bug, Bug::RegisterLate | Bug::RegisterLateUnasked) {
            state.registers_later = true;
        } else {
            self.register(state);
        }
    }

    pub(super) fn poll(&self, state: &mut State) {
        // With `select!` the body is asked first, whatever the clock says.
        if self.bug != Bug::Select && (state.hold.ended || state.hold.is_due_to_stop()) {
            state.hold.ended = true;
            state.task = Task::LettingGo(0);
        } else if self.bug == Bug::FrozenInPoll {
            state.task = Task::Polling;
        } else {
            Self::begin_step(state);
        }
    }

    pub(super) fn begin_step(state: &mut State) {
        state.task = Task::Running;
        state.history.stepped_late |= state.hold.left == 0;
        state.history.stepped_without |= state.key != Key::Ours && !state.is_robbed;
        state.history.stepped_too_old |= state.hold.longest_left == 0;
    }

    pub(super) fn let_go(&self, state: &mut State, done: u8) {
        let order = if self.bug == Bug::ForgetLate { [2, 0, 1] } else { [0, 1, 2] };
        match order[usize::from(done)] {
            0 => state.hold.ended = true,
            1 => state.look = None,
            _ => state.release = Release::Sent,
        }
        state.task = Task::LettingGo(done + 1);
    }

    pub(super) fn look(&self, state: &mut State) {
        state.look = match self.step(&mut state.hold) {
            Step::Sleep(at) => Some(at),
            Step::Forget => None,
            // Only with a bug: until a renewal is settled, the next look is the stop.
            Step::Renew if state.renewal != Renewal::None => Some(state.hold.until_stop()),
            Step::Renew => {
                let is_released = state.release != Release::None;
                state.history.began_after_release |= is_released;
                state.renewal = Renewal::Begun;
                Some(state.hold.until_stop())
            }
        };
    }

    pub(super) fn send(&self, state: &mut State) {
        state.history.sent_beyond_limit |= state.hold.renewals >= self.max_renew;
        state.renewal = Renewal::Sent { left: VALIDITY, answer: None };
        state.may_renew = true;
    }

    pub(super) fn renew(&self, state: &mut State, heard: bool) {
        if let Renewal::Sent { answer, .. } = &mut state.renewal {
            *answer = if heard { Some(state.key) } else { *answer };
        }
        match state.key {
            Key::Ours => state.key_left = EXPIRE + DRIFT,
            Key::Free if self.bug == Bug::RenewCreates => state.set_key(Key::Ours),
            Key::Others if self.bug == Bug::RenewUnchecked => {
                state.key_left = EXPIRE + DRIFT;
                state.history.extended_a_stranger = true;
            }
            Key::Free | Key::Others => {}
        }
    }

    /// The answer of a renewal, or none; then the scheduler is told when to look again.
    pub(super) fn settle(&self, state: &mut State) {
        let renewal = std::mem::replace(&mut state.renewal, Renewal::None);
        let Renewal::Sent { left, answer } = renewal else { return };
        match answer {
            Some(Key::Ours) => self.extend(&mut state.hold, left),
            Some(Key::Free | Key::Others) => state.hold.ended = true,
            None => {}
        }
        let step = self.step(&mut state.hold);
        // A lease that was forgotten meanwhile stays forgotten (`Schedule::reschedule`).
        let Some(look) = &mut state.look else { return };
        match step {
            Step::Sleep(at) => *look = at,
            Step::Renew => *look = PAUSE.min(state.hold.until_stop()),
            Step::Forget => state.look = None,
        }
    }
}
