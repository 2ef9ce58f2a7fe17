//! What must come about: from this state on, faults stop, timers fire and every step is taken in
//! turn. What was on its way is lost or arrives, whichever is asked.

use crate::few::Few;

use super::messages::Command;
use super::state::{DRIFT, Owner, Phase, State, process_of};
use super::{Bug, Line};

/// Longer than any lease: the timer of those who are in line and hear nothing.
const FALLBACK: u8 = 12;
/// A line that stands still for so long stands still for good.
const LONG: u8 = 4 * FALLBACK;
/// More steps than are needed in one tick.
const STEPS: u8 = 200;

/// What was on its way when the faults stopped.
#[derive(Debug, Clone, Copy)]
struct OnItsWay {
    landing: Landing,
    calls_come: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Landing {
    None,
    /// Those whose reply somebody waits for.
    Awaited,
    All,
}

/// How a run ends.
#[derive(Debug, Clone, Copy)]
struct End {
    /// Ticks until the first body begins.
    first: u8,
    all_served: bool,
    is_empty: bool,
}

struct Timers<const P: usize> {
    fallback: [u8; P],
    watch: Option<(usize, u8)>,
}

const ALL: [OnItsWay; 4] = [
    OnItsWay { landing: Landing::None, calls_come: false },
    OnItsWay { landing: Landing::None, calls_come: true },
    OnItsWay { landing: Landing::All, calls_come: false },
    OnItsWay { landing: Landing::All, calls_come: true },
];

impl<const P: usize> Line<P> {
    pub(super) fn serves(&self, state: &State<P>) -> bool {
        ALL.iter().all(|on_its_way| self.run(*state, *on_its_way).all_served)
    }

    /// What the dead leave in line, and commands that land behind their release, goes with the
    /// expiry of the line; all else is gone before.
    pub(super) fn leaves_nothing(&self, state: &State<P>) -> bool {
        let joins = state.processes.iter().flat_map(|process| process.commands.iter());
        let joins = joins.filter(|command| matches!(command, Command::Join { .. }));
        let mut owners = state.line.iter().chain(joins.map(Command::owner));
        let is_cared_for = |owner: Owner| {
            let process = &state.processes[process_of(owner)];
            process.knows(owner) || process.commands.has(Command::Leave { owner })
        };
        let is_well = state.processes.iter().all(|process| !process.is_dead);
        let on_its_way = OnItsWay { landing: Landing::All, calls_come: true };
        !is_well || !owners.all(is_cared_for) || self.run(*state, on_its_way).is_empty
    }

    /// The lock was handed over, and not claimed; whoever did that lives and watches. Then somebody
    /// has it after one window for each dead one that stands before him.
    pub(super) fn skips_the_dead(&self, state: &State<P>) -> bool {
        let Some(watcher) = state.lock.watcher else { return true };
        if state.processes[usize::from(watcher)].is_dead || !Self::waits(state) {
            return true;
        }
        let is_dead = |owner: &u8| state.processes[process_of(*owner)].is_dead;
        let dead = state.line.iter().filter(is_dead).count();
        let windows = u8::try_from(dead + 1).unwrap_or(u8::MAX);
        let on_its_way = OnItsWay { landing: Landing::Awaited, calls_come: true };
        let looks = u8::from(self.has_untold);
        self.run(*state, on_its_way).first <= windows * self.patience() + looks
    }

    /// The lock was handed to one who has left, all others are well: nobody waits for a window.
    pub(super) fn skips_who_left(&self, state: &State<P>) -> bool {
        let Some(owner) = state.lock.owner else { return true };
        let process = &state.processes[process_of(owner)];
        let has_left = process.commands.has(Command::Leave { owner });
        let is_well = |at: usize| !state.processes[at].is_dead && !self.is_untold(at);
        let next = state.line.first().map(process_of);
        let is_awaited = next.is_some_and(|next| {
            let next = &state.processes[next];
            next.listens && state.line.first().is_some_and(|owner| next.is_in_line(owner))
        });
        if !has_left || !is_awaited || !(0..P).all(is_well) {
            return true;
        }
        let on_its_way = OnItsWay { landing: Landing::All, calls_come: false };
        self.run(*state, on_its_way).first == 0
    }

    /// When somebody in line looks, whatever he hears.
    fn fallback(&self, process: usize) -> u8 {
        if self.is_untold(process) { 1 } else { FALLBACK }
    }

    fn waits(state: &State<P>) -> bool {
        state.processes.iter().any(|process| process.waiting > 0)
    }

    /// After so long, one who was called and has not come is passed over.
    fn patience(&self) -> u8 {
        self.window + DRIFT + 1
    }

    fn run(&self, mut state: State<P>, on_its_way: OnItsWay) -> End {
        for process in &mut state.processes {
            let before = *process;
            process.commands.retain(|command| match on_its_way.landing {
                Landing::None => false,
                Landing::Awaited => before.awaits(command),
                Landing::All => true,
            });
            if !on_its_way.calls_come {
                process.calls = Few::EMPTY;
            }
        }
        let callers = Self::callers(&state);
        let watcher = state.lock.watcher.map(usize::from);
        let is_watched = |at: &usize| self.bug != Bug::NoWatch && !state.processes[*at].is_dead;
        let watch = watcher.filter(is_watched);
        let mut timers = Timers {
            fallback: std::array::from_fn(|at| self.fallback(at)),
            watch: watch.map(|at| (at, self.patience())),
        };
        let mut end = End { first: u8::MAX, all_served: false, is_empty: false };
        for tick in 0..LONG {
            for _ in 0..STEPS {
                let before = state;
                self.take_turns(&mut state, &mut timers);
                if state == before {
                    break;
                }
            }
            if Self::callers(&state) < callers {
                end.first = end.first.min(tick);
            }
            end.all_served = !Self::waits(&state);
            let is_idle = state.processes.iter().all(|process| process.phase == Phase::Idle);
            if end.all_served && is_idle && state.lock.owner.is_none() {
                break;
            }
            state.tick(self.expire - DRIFT, self.window - DRIFT);
            self.fire(&mut state, &mut timers);
        }
        end.is_empty = state.line.is_empty() && state.lock.owner.is_none();
        end
    }

    fn callers(state: &State<P>) -> u8 {
        state.processes.iter().map(|process| process.waiting).sum()
    }

    fn take_turns(&self, state: &mut State<P>, timers: &mut Timers<P>) {
        for at in 0..P {
            if !state.processes[at].is_dead {
                self.take_turn(state, at);
            }
            let watcher = state.lock.watcher;
            while let Some(command) = state.processes[at].commands.first() {
                state.processes[at].commands.remove(command);
                let heard = state.processes[at].awaits(command);
                let reply = self.land(state, at, command);
                if heard {
                    state.processes[at].reply = Some(reply);
                }
            }
            if state.lock.watcher.is_some() && state.lock.watcher != watcher {
                let is_watched = self.bug != Bug::NoWatch && !state.processes[at].is_dead;
                timers.watch = is_watched.then(|| (at, self.patience()));
            }
        }
    }

    fn take_turn(&self, state: &mut State<P>, at: usize) {
        if !state.processes[at].listens && !self.is_untold(at) {
            state.processes[at].listens = true;
            state.processes[at].is_disturbed = true;
        }
        if let Some(call) = state.processes[at].calls.first() {
            let since = Self::called_since(&state.processes[at], call.owner);
            let claims = since.is_some_and(|since| self.called_rest(since) == 0);
            self.hear(state, at, call, claims);
            return;
        }
        let this = &mut state.processes[at];
        if this.reply.is_some() {
            self.read(state, at);
            return;
        }
        match this.phase {
            Phase::Idle if self.may_ask(at, this) => Self::ask(state, at),
            Phase::Holding { .. } if self.may_pass(this) => self.pass(state, at),
            Phase::Holding { left, .. } if left > 0 && this.waiting > 0 => Self::move_on(state, at),
            Phase::Holding { .. } => Self::let_go(state, at),
            Phase::InLine { joined: true, asked: None, .. } if this.is_disturbed => {
                Self::look(this);
            }
            Phase::InLine { joined: true, asked: None, .. } | Phase::Idle => {}
            _ if this.commands.is_empty() => self.doubt(this),
            _ => {}
        }
    }

    fn look_if_due(&self, state: &mut State<P>, at: usize, timers: &mut Timers<P>) {
        let this = &mut state.processes[at];
        let is_in_line = matches!(this.phase, Phase::InLine { joined: true, .. });
        if timers.fallback[at] == 0 && is_in_line && self.bug != Bug::NoFallback {
            Self::look(this);
            timers.fallback[at] = self.fallback(at);
        }
    }

    fn fire(&self, state: &mut State<P>, timers: &mut Timers<P>) {
        for at in 0..P {
            timers.fallback[at] = timers.fallback[at].saturating_sub(1);
            if !state.processes[at].is_dead {
                self.look_if_due(state, at, timers);
            }
        }
        let Some((by, left)) = timers.watch else { return };
        timers.watch = Some((by, left - 1));
        if left == 1 {
            self.nudge(state, by);
            let is_handed_over = state.lock.watcher.is_some() && state.lock.owner.is_some();
            timers.watch = is_handed_over.then(|| (by, self.patience()));
        }
    }
}
