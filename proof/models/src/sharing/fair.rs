//! What must come about: from this state on, faults stop, timers fire and all take turns. What was
//! on its way arrives or is lost, whichever is asked.

use super::state::{Kind, Phase, Sent, State};
use super::{Bug, Command, Sharing};

/// A queue that stands still for so long stands still for good.
const LONG: u8 = 16;
/// More steps than are needed in one tick.
const STEPS: u8 = 32;

/// What those do who hold the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bodies {
    End,
    GoOn,
}

impl<const A: usize> Sharing<A> {
    /// Those who hold the lock let go of it: all who wait get it.
    pub(super) fn serves(&self, state: &State<A>) -> bool {
        let runs = [true, false].map(|arrives| self.run(*state, arrives, Bodies::End));
        runs.iter().all(|end| end.owners.iter().all(|owner| owner.phase != Phase::Waiting))
    }

    /// They hold on to it: as many have it as there are permits, or nobody waits.
    pub(super) fn gives_back(&self, state: &State<A>) -> bool {
        let permits = self.kinds.map(|kind| match kind {
            Kind::Permit(count) => usize::from(count),
            Kind::Write | Kind::Read => 0,
        });
        // Of one kind, and of one number.
        if permits[0] == 0 || permits != [permits[0]; A] {
            return true;
        }
        [true, false].iter().all(|arrives| {
            let end = self.run(*state, *arrives, Bodies::GoOn);
            let is_waiting = end.owners.iter().any(|owner| owner.phase == Phase::Waiting);
            !is_waiting || Self::believers(&end).count() >= permits[0]
        })
    }

    fn run(&self, mut state: State<A>, arrives: bool, bodies: Bodies) -> State<A> {
        for at in 0..A {
            let owner = &mut state.owners[at];
            if !arrives {
                owner.sent = Sent::NOTHING;
                if owner.phase == Phase::Asking {
                    owner.end();
                }
            }
        }
        for _ in 0..LONG {
            for _ in 0..STEPS {
                let before = state;
                (0..A).for_each(|at| self.turn(&mut state, at, bodies));
                if state == before {
                    break;
                }
            }
            self.timers(&mut state);
            if bodies == Bodies::GoOn {
                (0..A).for_each(|at| self.keep(&mut state, at));
            }
            state.tick();
        }
        state
    }

    /// What was sent lands, bodies end, and who was told of a hand-over claims it.
    fn turn(&self, state: &mut State<A>, at: usize, bodies: Bodies) {
        let sent = state.owners[at].sent;
        state.owners[at].sent = Sent::NOTHING;
        for command in Command::ALL.into_iter().filter(|command| sent.has(*command)) {
            let heard = state.owners[at].awaits(command);
            self.land(state, at, command, heard);
        }
        match state.owners[at].phase {
            Phase::Waiting if state.owners[at].is_told => self.ask(state, at, Command::Claim),
            Phase::Holding if bodies == Bodies::End => state.owners[at].end(),
            Phase::Over => self.release(state, at),
            _ => {}
        }
    }

    /// Who waits looks, and enqueues anew where its entry is gone.
    fn timers(&self, state: &mut State<A>) {
        for at in 0..A {
            if state.owners[at].phase != Phase::Waiting || self.bug == Bug::NobodyLooks {
                continue;
            }
            self.ask(state, at, Command::Look);
            if state.owners[at].phase == Phase::Over {
                state.owners[at].phase = Phase::Waiting;
                state.server.lost[at] = false;
                self.land(state, at, Command::Enqueue, false);
            }
        }
    }

    fn keep(&self, state: &mut State<A>, at: usize) {
        if state.owners[at].phase == Phase::Holding {
            self.ask(state, at, Command::Renew);
        }
    }

    /// Sends a command and hears of it.
    fn ask(&self, state: &mut State<A>, at: usize, command: Command) {
        state.owners[at].next = self.expire;
        self.land(state, at, command, true);
        state.owners[at].next = 0;
    }
}
