//! What must come about: from this state on, faults stop and all take turns. What the dead have
//! ends with its lease, and nobody gives up.

use super::state::{Phase, State};
use super::{Bug, Ordered};

/// More rounds than are needed.
const ROUNDS: usize = 32;

/// What bodies do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bodies {
    End,
    GoOn,
}

impl<const P: usize, const K: usize> Ordered<P, K> {
    /// A dead-lock is what this finds.
    pub(super) fn serves(&self, state: &State<P, K>) -> bool {
        let end = self.run(*state, Bodies::End);
        end.processes.iter().all(|process| !process.is_at_work())
    }

    /// All have come to their ends: all keys are free.
    pub(super) fn keeps_nothing(&self, state: &State<P, K>) -> bool {
        let end = self.run(*state, Bodies::End);
        let is_over = end.processes.iter().all(|process| !process.is_at_work());
        !is_over || end.keys.iter().all(|key| key.holder.is_none() && key.is_alone())
    }

    pub(super) fn loses_as_one(&self, state: &State<P, K>) -> bool {
        let end = self.run(*state, Bodies::GoOn);
        let has_some = |at: usize| end.keys.iter().any(|key| key.holder == Some(at));
        let has_all = |at: usize| self.order(at).all(|key| end.keys[key].holder == Some(at));
        let holding = (0..P).filter(|at| end.processes[*at].phase == Phase::Holding);
        holding.into_iter().all(|at| has_all(at) || !has_some(at))
    }

    fn run(&self, mut state: State<P, K>, bodies: Bodies) -> State<P, K> {
        for _ in 0..ROUNDS {
            let before = state;
            (0..P).for_each(|at| self.turn(&mut state, at, bodies));
            for key in 0..K {
                let phase = state.keys[key].holder.map(|holder| state.processes[holder].phase);
                if phase == Some(Phase::Dead) {
                    state.keys[key].holder = None;
                }
            }
            if state == before {
                break;
            }
        }
        state
    }

    fn turn(&self, state: &mut State<P, K>, at: usize, bodies: Bodies) {
        if state.processes[at].is_at_work() && state.lacks(at) {
            self.learn(state, at);
        }
        match state.processes[at].phase {
            Phase::Taking if self.may_take_all(state, at) => self.take_all(state, at, true),
            Phase::Taking => self.take_next(state, at, true),
            Phase::Waiting(key) => self.wait(state, at, key),
            Phase::Holding if bodies == Bodies::End => self.fail(state, at),
            Phase::Over => (0..K).for_each(|key| state.release(at, key)),
            Phase::Dead => state.keys.iter_mut().for_each(|key| key.queue.remove(at)),
            Phase::Idle | Phase::Holding => {}
        }
    }

    fn wait(&self, state: &mut State<P, K>, at: usize, key: usize) {
        let is_free = state.keys[key].holder.is_none() && self.bug != Bug::NobodyLooks;
        if state.keys[key].holder == Some(at) || is_free {
            state.keys[key].queue.remove(at);
            state.keys[key].holder = Some(at);
            self.got(state, at, key);
        }
    }
}
