//! Several keys under one hold: all or nothing, one after another in one order, each by its own
//! queue.
//!
//! There is no time in it. A live process renews what it has, so that its keys stay, unless one is
//! lost; what the dead have, and what a release did not reach, goes at any moment. Commands may be
//! lost or not be heard of. A history has any length.

use stateright::{Model, Property};

use crate::check::{Goal, Proof};

mod fair;
mod state;

use state::{Key, Phase, Process, State};

pub(crate) const HAS_ALL: &str = "a body has all of its keys, and each key one body";
pub(crate) const SERVED: &str = "who waits is served once faults stop, and nobody gives up";
pub(crate) const NOTHING_KEPT: &str = "who has given up or failed keeps nothing";
pub(crate) const LOST_AS_ONE: &str = "who has lost one key keeps none";

/// What is wrong with the protocol: the negative controls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    None,
    /// Each caller takes its keys in the order in which it names them.
    CallersOrder,
    /// A call that fails leaves the queue, and keeps what it has got.
    KeepsAfterFailure,
    /// A call goes on with the keys that are left.
    KeepsTheRest,
    /// It begins when it has all but the last.
    BeginsEarly,
    /// Nobody in a queue ever looks.
    NobodyLooks,
}

/// A variant of the protocol with `P` processes and `K` keys.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ordered<const P: usize, const K: usize> {
    pub(crate) bug: Bug,
    /// The keys of each process, in the order in which it names them.
    pub(crate) wants: [[Option<usize>; K]; P],
    /// May a call take all of them by one script, when they are free?
    pub(crate) at_once: bool,
    pub(crate) crashes: u8,
    pub(crate) losses: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// A call begins.
    Begin(usize),
    /// One script for all keys.
    TakeAll {
        process: usize,
        heard: bool,
    },
    /// The next key, or a place in its queue (`enqueue.lua`).
    TakeNext {
        process: usize,
        heard: bool,
    },
    /// It hears that it was handed the key that it waits for.
    Hear(usize),
    /// It looks after its place, and finds the key free.
    Look(usize),
    /// It learns that one of its keys is gone.
    Learn(usize),
    /// A body ends, or a wait.
    LetGo(usize),
    /// A release lands (`release.lua` with `leave`), of one key; one may land again, and late.
    Release {
        process: usize,
        key: usize,
    },
    Die(usize),
    /// The lease of one who does not renew it ends.
    Expire(usize),
    /// A key goes that somebody has.
    Lose(usize),
}

impl<const P: usize, const K: usize> Ordered<P, K> {
    /// The keys of a process, in the order in which it takes them.
    fn order(&self, process: usize) -> impl Iterator<Item = usize> + use<P, K> {
        let mut order = self.wants[process];
        if self.bug != Bug::CallersOrder {
            // Those that are no keys come last.
            order.sort_unstable_by_key(|key| key.unwrap_or(K));
        }
        order.into_iter().flatten()
    }

    fn next_key(&self, process: usize, held: &Process<K>) -> Option<usize> {
        self.order(process).find(|key| !held.has[*key])
    }

    fn may_take_all(&self, state: &State<P, K>, process: usize) -> bool {
        let is_free = |key: usize| state.keys[key].holder.is_none() && state.keys[key].is_alone();
        self.at_once
            && state.processes[process].has == [false; K]
            && self.order(process).all(is_free)
    }

    fn own_actions(&self, state: &State<P, K>, at: usize, actions: &mut Vec<Action>) {
        let process = &state.processes[at];
        let is_known = state.keys.iter().any(|key| key.knows(at));
        match process.phase {
            Phase::Idle => actions.push(Action::Begin(at)),
            Phase::Over if !is_known => actions.push(Action::Begin(at)),
            Phase::Taking => {
                let at_once = self.may_take_all(state, at);
                let take = |heard| {
                    let process = at;
                    if at_once {
                        Action::TakeAll { process, heard }
                    } else {
                        Action::TakeNext { process, heard }
                    }
                };
                actions.extend([true, false].map(take));
            }
            Phase::Waiting(key) => {
                if state.keys[key].holder == Some(at) {
                    actions.push(Action::Hear(at));
                }
                if state.keys[key].holder.is_none() && self.bug != Bug::NobodyLooks {
                    actions.push(Action::Look(at));
                }
            }
            Phase::Over | Phase::Holding | Phase::Dead => {}
        }
        if process.is_at_work() {
            actions.push(Action::LetGo(at));
            if state.crashes > 0 {
                actions.push(Action::Die(at));
            }
            if state.lacks(at) {
                actions.push(Action::Learn(at));
            }
        }
        if process.phase == Phase::Over {
            let known = (0..K).filter(|key| state.keys[*key].knows(at));
            actions.extend(known.map(|key| Action::Release { process: at, key }));
        }
    }

    fn take_next(&self, state: &mut State<P, K>, at: usize, heard: bool) {
        let Some(key) = self.next_key(at, &state.processes[at]) else { return };
        if state.keys[key].holder.is_none() {
            state.hand_over(key);
        }
        let is_free = state.keys[key].holder.is_none();
        if is_free {
            state.keys[key].holder = Some(at);
        } else {
            state.keys[key].queue.push(at);
        }
        match (heard, is_free) {
            (true, true) => self.got(state, at, key),
            (true, false) => state.processes[at].phase = Phase::Waiting(key),
            (false, _) => self.fail(state, at),
        }
    }

    fn got(&self, state: &mut State<P, K>, at: usize, key: usize) {
        let process = &mut state.processes[at];
        process.has[key] = true;
        process.phase = Phase::Taking;
        let left = self.order(at).filter(|key| !process.has[*key]).count();
        if left == 0 || left == 1 && self.bug == Bug::BeginsEarly {
            process.phase = Phase::Holding;
        }
    }

    fn take_all(&self, state: &mut State<P, K>, at: usize, heard: bool) {
        self.order(at).for_each(|key| state.keys[key].holder = Some(at));
        if heard {
            self.order(at).for_each(|key| self.got(state, at, key));
        } else {
            self.fail(state, at);
        }
    }

    fn fail(&self, state: &mut State<P, K>, at: usize) {
        let process = &mut state.processes[at];
        if self.bug == Bug::KeepsAfterFailure && process.phase != Phase::Holding {
            state.keys.iter_mut().for_each(|key| key.queue.remove(at));
            // It goes on to renew them.
            process.phase = Phase::Idle;
            return;
        }
        *process = Process { phase: Phase::Over, has: [false; K] };
    }

    fn learn(&self, state: &mut State<P, K>, at: usize) {
        if self.bug == Bug::KeepsTheRest {
            for key in 0..K {
                state.processes[at].has[key] &= state.keys[key].holder == Some(at);
            }
        } else {
            self.fail(state, at);
        }
    }
}

impl<const P: usize, const K: usize> Model for Ordered<P, K> {
    type State = State<P, K>;
    type Action = Action;

    fn init_states(&self) -> Vec<State<P, K>> {
        vec![State {
            keys: [Key::FREE; K],
            processes: [Process::IDLE; P],
            crashes: self.crashes,
            losses: self.losses,
        }]
    }

    fn actions(&self, state: &State<P, K>, actions: &mut Vec<Action>) {
        (0..P).for_each(|at| self.own_actions(state, at, actions));
        for key in 0..K {
            let Some(holder) = state.keys[key].holder else { continue };
            match state.processes[holder].phase {
                Phase::Over | Phase::Dead => actions.push(Action::Expire(key)),
                _ if state.losses > 0 => actions.push(Action::Lose(key)),
                _ => {}
            }
        }
    }

    fn next_state(&self, last: &State<P, K>, action: Action) -> Option<State<P, K>> {
        let mut next = *last;
        let state = &mut next;
        match action {
            Action::Begin(at) => {
                state.processes[at] = Process { phase: Phase::Taking, has: [false; K] };
            }
            Action::TakeAll { process, heard } => self.take_all(state, process, heard),
            Action::TakeNext { process, heard } => self.take_next(state, process, heard),
            Action::Hear(at) | Action::Look(at) => {
                let Phase::Waiting(key) = state.processes[at].phase else { return None };
                state.keys[key].queue.remove(at);
                state.keys[key].holder = Some(at);
                self.got(state, at, key);
            }
            Action::Learn(at) => self.learn(state, at),
            Action::LetGo(at) => self.fail(state, at),
            Action::Release { process, key } => state.release(process, key),
            Action::Die(at) => {
                state.crashes -= 1;
                state.processes[at] = Process { phase: Phase::Dead, has: [false; K] };
            }
            Action::Expire(key) => state.keys[key].holder = None,
            Action::Lose(key) => {
                state.losses -= 1;
                state.keys[key].holder = None;
            }
        }
        (next != *last).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(HAS_ALL, |model: &Self, state| model.has_all(state)),
            Property::always(SERVED, |model: &Self, state| model.serves(state)),
            Property::always(NOTHING_KEPT, |model: &Self, state| model.keeps_nothing(state)),
            Property::always(LOST_AS_ONE, |model: &Self, state| model.loses_as_one(state)),
        ]
    }
}

impl<const P: usize, const K: usize> Ordered<P, K> {
    /// Unless one was lost, and it does not know yet.
    fn has_all(&self, state: &State<P, K>) -> bool {
        let has = |at: usize| self.order(at).all(|key| state.keys[key].holder == Some(at));
        let is_well = |at: &usize| state.processes[*at].phase == Phase::Holding;
        state.losses < self.losses || (0..P).filter(is_well).all(has)
    }
}

impl<const P: usize, const K: usize> Proof for Ordered<P, K> {
    const NAME: &'static str = "ordered keys";

    fn bound(&self) -> String {
        let Self { crashes, losses, .. } = self;
        let name = |keys: &[Option<usize>; K]| {
            keys.iter().flatten().map(ToString::to_string).collect::<String>()
        };
        let wants: Vec<_> = self.wants.iter().map(name).collect();
        format!(
            "{P} processes of {K} keys: {}; {crashes} crashes, {losses} losses",
            wants.join(" ")
        )
    }

    fn goals(&self) -> Vec<Goal<State<P, K>>> {
        let mut all: Vec<Goal<State<P, K>>> =
            vec![("one waits for a key and has another", |state| {
                let waits = |process: &Process<K>| {
                    matches!(process.phase, Phase::Waiting(_)) && process.has.contains(&true)
                };
                state.processes.iter().any(waits)
            })];
        if self.crashes > 0 {
            all.push(("one waits behind a dead one", |state| {
                let dead = |at: usize| state.processes[at].phase == Phase::Dead;
                let waits = |at: usize| matches!(state.processes[at].phase, Phase::Waiting(_));
                let is_behind =
                    |key: &Key<P>| key.holder.is_some_and(dead) && key.queue.iter().any(waits);
                state.keys.iter().any(is_behind)
            }));
        }
        if self.losses > 0 {
            all.push(("a body goes on without one of its keys, which another one has", |state| {
                let holds = |at: usize| state.processes[at].phase == Phase::Holding;
                let lacks = (0..P).any(|at| holds(at) && state.lacks(at));
                lacks && (0..P).filter(|at| holds(*at)).count() > 1
            }));
        }
        all
    }
}
