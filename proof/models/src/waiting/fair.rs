//! What must come about: from this state on, faults stop, no caller comes, and every step is taken
//! that is possible. When there is none, the shortest timer fires that is named for what has
//! happened. No other timer does.

use super::state::{Gone, Owner, Phase, Poller, Process, Rest, State, Until};
use super::{Action, Waiting};

/// How long a question of a caller counts, in milliseconds.
const QUESTION: u32 = 10;
/// The longest pause of a poller that is not told.
const PACE: u32 = 100;
/// The claim window, and how often a poller looks after what it cannot be told of.
const SECOND: u32 = 1_000;
/// More than any run needs.
const TIMERS: u32 = 64;
const STEPS: u32 = 1_000;

/// What holders do whose key is gone, without their knowledge or with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bodies {
    End,
    GoOn,
}

/// How a run ends.
struct End {
    all_served: bool,
    /// How long the timers took that had to fire.
    took: u32,
}

impl<const P: usize, const C: usize> Waiting<P, C> {
    pub(super) fn serves(&self, state: &State<P, C>) -> bool {
        [Bodies::End, Bodies::GoOn].into_iter().all(|bodies| self.run(*state, bodies).all_served)
    }

    pub(super) fn serves_in_time(&self, state: &State<P, C>) -> bool {
        let named = self.named(state);
        [Bodies::End, Bodies::GoOn].into_iter().all(|bodies| self.run(*state, bodies).took <= named)
    }

    /// Where a caller waits, no step is possible, and no hold relies on the key, a timer that is
    /// named for it is set.
    pub(super) fn is_prompt(&self, state: &State<P, C>) -> bool {
        let mut steps = Vec::new();
        (0..P).for_each(|at| Self::own_steps(state, at, &mut steps));
        let is_quiet = steps.is_empty() && Self::has_live_waiter(state);
        !is_quiet || Self::is_held(state) || self.next_timer(state).is_some()
    }

    fn has_live_waiter(state: &State<P, C>) -> bool {
        state.processes.iter().any(|process| Self::live_waiters(process) > 0)
    }

    fn live_waiters(process: &Process<C>) -> u32 {
        let waits =
            |phase| matches!(phase, Phase::Asking { .. } | Phase::Waiting | Phase::Granted { .. });
        let live =
            process.callers.iter().filter(|caller| !caller.is_stalled && waits(caller.phase));
        live.count().try_into().unwrap_or(u32::MAX)
    }

    /// Is the key that of a body that runs?
    fn is_held(state: &State<P, C>) -> bool {
        state.server.key.is_some_and(|key| {
            let phases = state.processes[key.at()].callers.iter().map(|caller| caller.phase);
            let holds = |phase| matches!(phase, Phase::Holding { slot, .. } if slot == key.slot);
            phases.into_iter().any(holds)
        })
    }

    /// What the documentation allows for all that has happened until here: each caller that is not
    /// polled may be in the way once as a question, and once as a grant.
    fn named(&self, state: &State<P, C>) -> u32 {
        let mut named = 0;
        let mut looks = u32::from(state.server.gone == Gone::Lost);
        for (at, process) in state.processes.iter().enumerate() {
            for caller in process.callers.iter().filter(|caller| caller.is_stalled) {
                named += match caller.phase {
                    Phase::Asking { counts: true, .. } => QUESTION + SECOND,
                    _ => SECOND,
                };
            }
            if self.is_untold(at) {
                named += PACE * (1 + Self::live_waiters(process));
            }
            let is_key =
                |slot| state.server.key.is_some_and(|key| key.at() == at && key.slot == slot);
            looks += u32::from(process.granted().any(|slot| !is_key(slot)));
            looks += u32::from(Self::is_unheard(state, at));
        }
        named + looks * SECOND
    }

    /// Was the lock handed to the entry of this process, and the message lost?
    fn is_unheard(state: &State<P, C>, at: usize) -> bool {
        let process = &state.processes[at];
        let is_own = |entry: Owner| entry.at() == at && process.is_in_line(entry.slot);
        let has_entry = process.has_entry();
        has_entry && process.told.is_none() && !state.server.line.iter().any(is_own)
    }

    /// The shortest timer that is set and named for what has happened.
    fn next_timer(&self, state: &State<P, C>) -> Option<(u32, Action)> {
        let mut timers = Vec::new();
        for (at, process) in state.processes.iter().enumerate() {
            for (number, caller) in process.callers.iter().enumerate() {
                self.caller_timers(*caller, (at, number), &mut timers);
            }
            if Self::may_wake(state, at) {
                timers.push(Action::Wake(at));
            }
        }
        let mut timed = timers.into_iter().map(|action| (self.time(action), action));
        let first = timed.next()?;
        Some(timed.fold(first, |least, next| if next.0 < least.0 { next } else { least }))
    }

    fn time(&self, action: Action) -> u32 {
        match action {
            Action::Outdate(..) => QUESTION,
            Action::Wake(at) if self.is_untold(at) => PACE,
            _ => SECOND,
        }
    }

    /// Does the timer of this poller count? A look is named where the server told no process that
    /// the lock is free, and the pace where another process had it.
    fn may_wake(state: &State<P, C>, at: usize) -> bool {
        let process = &state.processes[at];
        match process.poller {
            Poller::Resting(Rest::TakenHere(Until::Look)) => {
                let is_own =
                    |slot| state.server.key.is_some_and(|key| key.at() == at && key.slot == slot);
                process.held().is_some_and(|slot| !is_own(slot))
            }
            Poller::Resting(Rest::InQueue) => {
                state.server.gone == Gone::Lost || Self::is_unheard(state, at)
            }
            Poller::Resting(Rest::Pause) => {
                let own = u8::try_from(at).unwrap_or(u8::MAX);
                !matches!(state.server.gone, Gone::Not) && state.server.gone != Gone::Released(own)
            }
            _ => false,
        }
    }

    fn run(&self, mut state: State<P, C>, bodies: Bodies) -> End {
        let mut end = End { all_served: false, took: 0 };
        for _ in 0..TIMERS {
            self.settle_down(&mut state, bodies);
            if !Self::has_live_waiter(&state) {
                end.all_served = true;
                break;
            }
            let Some((took, timer)) = self.next_timer(&state) else { break };
            end.took += took;
            self.take(&mut state, timer);
        }
        end
    }

    /// All steps that need no timer.
    fn settle_down(&self, state: &mut State<P, C>, bodies: Bodies) {
        let mut steps = Vec::new();
        for _ in 0..STEPS {
            steps.clear();
            for at in 0..P {
                Self::own_steps(state, at, &mut steps);
                Self::ends(state, (at, bodies), &mut steps);
            }
            let Some(step) = steps.first() else { return };
            self.take(state, *step);
        }
    }

    fn ends(state: &State<P, C>, (at, bodies): (usize, Bodies), steps: &mut Vec<Action>) {
        for (number, caller) in state.processes[at].callers.iter().enumerate() {
            if let Phase::Holding { slot, is_over } = caller.phase {
                let is_own = |key: Owner| key.at() == at && key.slot == slot;
                let has_key = !is_over && state.server.key.is_some_and(is_own);
                if has_key || bodies == Bodies::End {
                    steps.push(Action::Pass(at, number));
                }
            }
        }
    }
}
