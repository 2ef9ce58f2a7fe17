//! One lock in one process: the wrapper that polls its body, the scheduler that renews it, and its
//! release. Is a body ever run for a lock that may be gone, and is a lock ever renewed that was let
//! go?
//!
//! Any number of ticks may pass between any two steps: that is a process (or its thread) which is
//! frozen. A command may land at any later tick, or never, and its reply may be lost. Landed
//! renewals may land again: that covers those of earlier tries.

use stateright::{Model, Property};

use crate::check::{Goal, Proof};

mod state;
mod steps;

use state::{EXPIRE, History, Hold, Key, Release, Renewal, State, Task, VALIDITY};

pub(crate) const IN_TIME: &str = "no step of the body begins after the deadline";
pub(crate) const WITH_KEY: &str = "no step of the body begins without the key";
pub(crate) const NOT_TOO_OLD: &str = "no step of the body begins after the longest hold";
pub(crate) const TOLD: &str = "a lost lease is told, and stays lost";
pub(crate) const IN_CARE: &str = "the scheduler looks at a lease by its stop";
pub(crate) const WITHIN_LIMIT: &str = "no renewal is sent beyond max_renew";
pub(crate) const LET_GO: &str = "no renewal begins once the release was sent";
pub(crate) const STAYS_FREE: &str = "a key that was released does not come back";
pub(crate) const OWN_LEASE: &str = "no renewal extends the lease of somebody else";

/// What is wrong with the process: the negative controls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    None,
    /// The body races with a timer (`select!`); no clock is read before a poll.
    Select,
    /// Not a bug that can be mended: the process is frozen between its look at the clock and the
    /// first instruction of the body. This is what fencing tokens are for.
    FrozenInPoll,
    /// The guard says what a background task has found, without a look at the clock.
    FlagOnly,
    /// A confirmation that comes after the stop brings the lease back.
    LateConfirmation,
    /// The lease is registered with the scheduler once the acquire has returned.
    RegisterLate,
    /// The same, and the scheduler asks its list only, not the lease.
    RegisterLateUnasked,
    /// The release is sent first, and the lease ended and forgotten then.
    ForgetLate,
    /// A renewal sets the key again where it is gone.
    RenewCreates,
    /// A renewal extends the key of whoever has it.
    RenewUnchecked,
    /// Nobody counts renewals.
    NoLimit,
    /// They are counted, but those that are tried again are late.
    NoLongest,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Process {
    pub(crate) bug: Bug,
    pub(crate) max_renew: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Tick,
    /// The acquire lands.
    Grant,
    /// Its answer is read (`grant::grant`).
    Take,
    /// With the bug: the scheduler is told at last.
    Register,
    /// A poll of the body (`Watch::step`).
    Poll,
    /// With the bug: the poll goes on after the clock was read.
    Step,
    /// The body ends, or its caller drops it.
    Finish,
    /// The next step of the release (`Ownership::let_go`).
    LetGo,
    /// Somebody asks the guard (`Hold::state`), which may be what ends the lease.
    Ask,
    /// The scheduler looks at what is due (`Scheduler::collect`).
    Look,
    /// The task of a renewal reads the clock and sends (`Scheduler::renew`).
    Send,
    /// The scheduler dies (`DriverGuard::drop`).
    Die,
    /// A renewal lands (`exclusive/renew.lua`).
    Renew {
        heard: bool,
    },
    /// Its answer is read (`settle`).
    Settle,
    /// Its answer does not come in time (`Hold::doubt`).
    Doubt,
    /// The release lands (`exclusive/release.lua`).
    Release {
        heard: bool,
    },
    /// The key goes that is close to its end.
    Expire,
    /// Somebody deletes the key by hand.
    Rob,
    /// Somebody else takes the lock that is free.
    Steal,
}

impl Model for Process {
    type State = State;
    type Action = Action;

    /// The acquire has just been sent.
    fn init_states(&self) -> Vec<State> {
        let hold = Hold {
            left: VALIDITY,
            longest_left: self.longest(),
            is_bounded: !matches!(self.bug, Bug::NoLimit | Bug::NoLongest),
            renewals: 0,
            ended: false,
        };
        vec![State {
            task: Task::Asking,
            hold,
            look: None,
            renewal: Renewal::None,
            may_renew: false,
            release: Release::None,
            key: Key::Free,
            key_left: 0,
            is_robbed: false,
            is_granted: false,
            registers_later: false,
            history: History::default(),
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.push(Action::Tick);
        state.process_actions(actions);
        state.server_actions(actions);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut next = *last;
        let state = &mut next;
        match action {
            Action::Tick => state.tick(),
            Action::Grant => {
                state.set_key(Key::Ours);
                state.is_granted = true;
            }
            Action::Take => self.take(state),
            Action::Register => {
                state.registers_later = false;
                self.register(state);
            }
            Action::Poll => self.poll(state),
            Action::Step => Self::begin_step(state),
            Action::Finish => state.task = Task::LettingGo(0),
            Action::LetGo => {
                let Task::LettingGo(done) = state.task else { return None };
                self.let_go(state, done);
            }
            Action::Ask => state.hold.ended |= state.hold.is_due_to_stop(),
            Action::Look => self.look(state),
            Action::Send => self.send(state),
            Action::Die => {
                state.look = None;
                state.hold.ended = true;
            }
            Action::Renew { heard } => self.renew(state, heard),
            Action::Settle => self.settle(state),
            Action::Doubt => {
                if let Renewal::Sent { answer, .. } = &mut state.renewal {
                    *answer = None;
                }
                self.settle(state);
            }
            Action::Release { heard } => {
                if state.key == Key::Ours {
                    state.set_key(Key::Free);
                }
                if heard {
                    state.release = Release::Answered;
                }
            }
            Action::Expire => state.set_key(Key::Free),
            Action::Rob => {
                state.set_key(Key::Free);
                state.is_robbed = true;
            }
            Action::Steal => state.set_key(Key::Others),
        }
        let was_taken = state.task != Task::Asking;
        state.history.is_over |= was_taken && (state.hold.ended || state.hold.is_due_to_stop());
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(IN_TIME, |_, state: &State| !state.history.stepped_late),
            Property::always(WITH_KEY, |_, state: &State| !state.history.stepped_without),
            Property::always(NOT_TOO_OLD, |_, state: &State| !state.history.stepped_too_old),
            Property::always(TOLD, |process: &Self, state: &State| {
                !(state.history.is_over && process.says_held(state))
            }),
            Property::always(IN_CARE, |process: &Self, state: &State| {
                let is_looked_at = state.look.is_some_and(|look| look <= state.hold.until_stop());
                !process.says_held(state) || is_looked_at
            }),
            Property::always(WITHIN_LIMIT, |_, state: &State| !state.history.sent_beyond_limit),
            Property::always(LET_GO, |_, state: &State| !state.history.began_after_release),
            Property::always(STAYS_FREE, |_, state: &State| {
                state.release != Release::Answered || state.key != Key::Ours
            }),
            Property::always(OWN_LEASE, |_, state: &State| !state.history.extended_a_stranger),
        ]
    }
}

impl Proof for Process {
    const NAME: &'static str = "guard_scheduler";

    fn bound(&self) -> String {
        format!("1 lock, max_renew {}, lease of {EXPIRE} ticks", self.max_renew)
    }

    fn goals(&self) -> Vec<Goal<State>> {
        vec![
            ("a lease is renewed twice", |state| state.hold.renewals == 2),
            ("a body is there while somebody else has the key", |state| {
                state.task == Task::Running && state.key == Key::Others
            }),
            ("a renewal may land after the release was answered", |state| {
                state.may_renew && state.release == Release::Answered && state.key == Key::Others
            }),
            ("the scheduler is dead while a body runs under a lease", |state| {
                state.task == Task::Running && state.look.is_none() && state.hold.left > 1
            }),
            ("the longest hold is over before the lease", |state| {
                state.task == Task::Running && state.hold.longest_left == 0 && state.hold.left > 1
            }),
            ("the key was deleted by hand while a body runs", |state| {
                state.task == Task::Running && state.is_robbed && !state.hold.ended
            }),
        ]
    }
}
