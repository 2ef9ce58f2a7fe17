//! Fencing tokens of N independent masters: do they grow from lock to lock?
//!
//! Time is not modelled: a key may go at any moment (it expired, or its owner released it), a
//! message may land at any later moment, or never, and an attempt may be abandoned at any step.
//! Every owner value is fresh, so a tenure of a node is one interval.
//!
//! The nodes are alike, and so are the attempts: nodes are kept sorted, and attempts are numbered
//! in the order in which they begin.

use stateright::{Model, Property};

use crate::check::{Goal, Proof};

pub(crate) const DISTINCT: &str = "no two locks have the same fencing token";
pub(crate) const GROWING: &str = "a fencing token is above all that were granted before";

/// How an attempt comes to its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Numbers {
    /// Each node counts its grants; the highest count of those that granted.
    MaxOfCounts,
    /// The same, their sum.
    SumOfCounts,
    /// One above the highest counter that was read, written back to all that granted.
    MaxPlusOne,
    /// `exclusive/acquire.lua` and `Quorum::agree` (`backend/quorum/backend.rs`): each node grants
    /// `max(last + 1, its clock)`, the highest grant is written back to those that granted less.
    /// At each grant the clock of the node says anything from 0 to `clock`: that covers clocks
    /// that are apart, jump, and go backwards. Up to 1 all of them are behind the counters.
    AsBuilt { clock: u8 },
}

/// A variant of the protocol on `N` nodes, and its bounds: `A` attempts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fencing<const N: usize, const A: usize> {
    pub(crate) numbers: Numbers,
    pub(crate) quorum: usize,
    /// Is the number written only where the lock is still the attempt's (`exclusive/raise.lua`)?
    pub(crate) checks_owner: bool,
    /// How often a node may lose all its data.
    pub(crate) losses: u8,
    /// How often a holder may take a node that has no lock key any more (`Quorum::win_back`).
    pub(crate) win_backs: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct State<const N: usize, const A: usize> {
    nodes: [Node<A>; N],
    attempts: [Attempt; A],
    losses: u8,
    win_backs: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Node<const A: usize> {
    /// Which attempt's owner value is in the lock key.
    owner: Option<u8>,
    /// The fencing counter.
    last: u8,
    legs: [Leg; A],
}

/// How far one attempt has come on one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Leg {
    /// The acquire is on its way, or lost.
    Asked,
    /// Granted with this number, and the attempt knows.
    Granted(u8),
    /// The write-back is on its way, or lost.
    Raising,
    /// Written back, and the attempt knows.
    Raised,
    /// Nothing more will come of it.
    Spent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Attempt {
    phase: Phase,
    fencing_token: u8,
    /// The highest fencing token that had been handed out when it began.
    floor: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Phase {
    Idle,
    Asking,
    Raising,
    /// Its caller has the fencing token.
    Granted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// An attempt begins: its acquires leave for all nodes.
    Begin { attempt: usize },
    /// An acquire lands on a node whose lock is free. `heard`: its reply is not lost.
    Grant { node: usize, attempt: usize, clock: u8, heard: bool },
    /// A quorum has granted (`tally::elect`).
    Elect { attempt: usize },
    /// A write-back lands.
    Raise { node: usize, attempt: usize, heard: bool },
    /// The holder takes a node back that has no lock key.
    WinBack { node: usize, attempt: usize, clock: u8 },
    /// The lock key goes: expired or released.
    Free { node: usize },
    /// The node comes back empty.
    Forget { node: usize },
}

impl<const N: usize, const A: usize> Fencing<N, A> {
    /// The highest clock that makes a difference at a node.
    fn clocks(&self, node: &Node<A>) -> std::ops::RangeInclusive<u8> {
        match self.numbers {
            // Up to `last + 1` the clock does not matter.
            Numbers::AsBuilt { clock } => node.last + 1..=clock.max(node.last + 1),
            _ => 0..=0,
        }
    }

    /// A free node gives its lock away. Returns what it answers.
    fn grant(&self, node: &mut Node<A>, attempt: usize, clock: u8) -> u8 {
        node.owner = Some(number(attempt));
        match self.numbers {
            Numbers::MaxOfCounts | Numbers::SumOfCounts => node.last += 1,
            Numbers::MaxPlusOne => {}
            Numbers::AsBuilt { .. } => node.last = clock.max(node.last + 1),
        }
        node.last
    }

    fn elect(&self, state: &mut State<N, A>, attempt: usize) {
        let highest = state.answers(attempt).max().unwrap_or_default();
        let fencing_token = match self.numbers {
            Numbers::MaxOfCounts | Numbers::AsBuilt { .. } => highest,
            Numbers::SumOfCounts => state.answers(attempt).sum(),
            Numbers::MaxPlusOne => highest + 1,
        };
        for node in &mut state.nodes {
            let Leg::Granted(answer) = node.legs[attempt] else { continue };
            let is_behind = match self.numbers {
                Numbers::MaxOfCounts | Numbers::SumOfCounts => false,
                Numbers::MaxPlusOne => true,
                Numbers::AsBuilt { .. } => answer < fencing_token,
            };
            node.legs[attempt] = if is_behind { Leg::Raising } else { Leg::Raised };
        }
        state.attempts[attempt].phase = Phase::Raising;
        state.attempts[attempt].fencing_token = fencing_token;
        self.agree(state, attempt);
    }

    /// The fencing token is valid once a quorum has it.
    fn agree(&self, state: &mut State<N, A>, attempt: usize) {
        let raised = state.nodes.iter().filter(|node| node.legs[attempt] == Leg::Raised).count();
        if state.attempts[attempt].phase != Phase::Raising || raised < self.quorum {
            return;
        }
        state.attempts[attempt].phase = Phase::Granted;
        for node in &mut state.nodes {
            if node.legs[attempt] == Leg::Raised {
                node.legs[attempt] = Leg::Spent;
            }
        }
    }

    fn node_actions(&self, state: &State<N, A>, node: usize, actions: &mut Vec<Action>) {
        let here = &state.nodes[node];
        for attempt in 0..A {
            let phase = state.attempts[attempt].phase;
            if here.legs[attempt] == Leg::Asked && phase != Phase::Idle && here.owner.is_none() {
                for clock in self.clocks(here) {
                    actions.push(Action::Grant { node, attempt, clock, heard: false });
                    if phase == Phase::Asking {
                        actions.push(Action::Grant { node, attempt, clock, heard: true });
                    }
                }
            }
            let may_write = !self.checks_owner || here.owner == Some(number(attempt));
            if here.legs[attempt] == Leg::Raising && may_write {
                actions.push(Action::Raise { node, attempt, heard: false });
                if phase == Phase::Raising {
                    actions.push(Action::Raise { node, attempt, heard: true });
                }
            }
            if state.win_backs > 0 && phase == Phase::Granted && here.owner.is_none() {
                let clocks = self.clocks(here);
                actions.extend(clocks.map(|clock| Action::WinBack { node, attempt, clock }));
            }
        }
        if here.owner.is_some() {
            actions.push(Action::Free { node });
        }
        if state.losses > 0 {
            actions.push(Action::Forget { node });
        }
    }
}

impl<const N: usize, const A: usize> State<N, A> {
    /// What the nodes answered that granted.
    fn answers(&self, attempt: usize) -> impl Iterator<Item = u8> {
        self.nodes.iter().filter_map(move |node| match node.legs[attempt] {
            Leg::Granted(answer) => Some(answer),
            _ => None,
        })
    }

    fn granted(&self) -> impl Iterator<Item = &Attempt> {
        self.attempts.iter().filter(|attempt| attempt.phase == Phase::Granted)
    }
}

impl<const N: usize, const A: usize> Model for Fencing<N, A> {
    type State = State<N, A>;
    type Action = Action;

    fn init_states(&self) -> Vec<State<N, A>> {
        let node = Node { owner: None, last: 0, legs: [Leg::Asked; A] };
        let attempt = Attempt { phase: Phase::Idle, fencing_token: 0, floor: 0 };
        let (losses, win_backs) = (self.losses, self.win_backs);
        vec![State { nodes: [node; N], attempts: [attempt; A], losses, win_backs }]
    }

    fn actions(&self, state: &State<N, A>, actions: &mut Vec<Action>) {
        let idle = state.attempts.iter().position(|attempt| attempt.phase == Phase::Idle);
        actions.extend(idle.map(|attempt| Action::Begin { attempt }));
        for attempt in 0..A {
            let is_asking = state.attempts[attempt].phase == Phase::Asking;
            if is_asking && state.answers(attempt).count() >= self.quorum {
                actions.push(Action::Elect { attempt });
            }
        }
        for node in 0..N {
            // Nodes in the same state have the same future.
            if node == 0 || state.nodes[node - 1] != state.nodes[node] {
                self.node_actions(state, node, actions);
            }
        }
    }

    fn next_state(&self, last: &State<N, A>, action: Action) -> Option<State<N, A>> {
        let mut state = *last;
        match action {
            Action::Begin { attempt } => {
                state.attempts[attempt].phase = Phase::Asking;
                let floor = last.granted().map(|granted| granted.fencing_token).max();
                state.attempts[attempt].floor = floor.unwrap_or_default();
            }
            Action::Grant { node, attempt, clock, heard } => {
                let here = &mut state.nodes[node];
                let answer = self.grant(here, attempt, clock);
                here.legs[attempt] = if heard { Leg::Granted(answer) } else { Leg::Spent };
            }
            Action::Elect { attempt } => self.elect(&mut state, attempt),
            Action::Raise { node, attempt, heard } => {
                let fencing_token = state.attempts[attempt].fencing_token;
                let here = &mut state.nodes[node];
                here.last = here.last.max(fencing_token);
                here.legs[attempt] = if heard { Leg::Raised } else { Leg::Spent };
                self.agree(&mut state, attempt);
            }
            Action::WinBack { node, attempt, clock } => {
                state.win_backs -= 1;
                self.grant(&mut state.nodes[node], attempt, clock);
            }
            Action::Free { node } => state.nodes[node].owner = None,
            Action::Forget { node } => {
                state.losses -= 1;
                (state.nodes[node].owner, state.nodes[node].last) = (None, 0);
            }
        }
        state.nodes.sort_unstable();
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(DISTINCT, |_, state: &State<N, A>| {
                let mut seen = 0_u128;
                state.granted().all(|attempt| {
                    let bit = 1 << attempt.fencing_token;
                    let is_new = seen & bit == 0;
                    seen |= bit;
                    is_new
                })
            }),
            Property::always(GROWING, |_, state: &State<N, A>| {
                state.granted().all(|attempt| attempt.fencing_token > attempt.floor)
            }),
        ]
    }
}

impl<const N: usize, const A: usize> Proof for Fencing<N, A> {
    const NAME: &'static str = "fencing";

    fn bound(&self) -> String {
        let Self { losses, win_backs, .. } = self;
        let clocks = match self.numbers {
            Numbers::AsBuilt { clock } => format!(", clocks 0..={clock}"),
            _ => String::new(),
        };
        format!(
            "N={N} q={}: {A} attempts, {losses} losses, {win_backs} win-backs{clocks}",
            self.quorum
        )
    }

    fn goals(&self) -> Vec<Goal<State<N, A>>> {
        let mut all: Vec<Goal<State<N, A>>> = vec![
            ("all attempts are granted", |state| state.granted().count() == A),
            ("a lock is granted after another", |state| {
                state.granted().any(|attempt| attempt.floor > 0)
            }),
        ];
        if self.losses > 0 {
            all.push((
                "nodes have forgotten as often as they may, and a later lock is granted",
                late,
            ));
        }
        if self.win_backs > 0 {
            all.push(("nodes were won back, and a later lock is granted", won_back));
        }
        if matches!(self.numbers, Numbers::AsBuilt { clock } if clock > 1) {
            all.push(("a fencing token is that of a clock", of_clock));
        }
        all
    }
}

fn is_later<const N: usize, const A: usize>(state: &State<N, A>) -> bool {
    state.granted().any(|attempt| attempt.floor > 0)
}

fn late<const N: usize, const A: usize>(state: &State<N, A>) -> bool {
    state.losses == 0 && is_later(state)
}

fn won_back<const N: usize, const A: usize>(state: &State<N, A>) -> bool {
    state.win_backs == 0 && is_later(state)
}

/// Counting alone gives the first attempt 1.
fn of_clock<const N: usize, const A: usize>(state: &State<N, A>) -> bool {
    let first = |attempt: &Attempt| attempt.phase == Phase::Granted && attempt.floor == 0;
    let is_alone = state.attempts[1..].iter().all(|attempt| attempt.phase == Phase::Idle);
    is_alone && state.attempts.first().is_some_and(|one| first(one) && one.fencing_token > 1)
}

/// Attempts are few.
fn number(attempt: usize) -> u8 {
    u8::try_from(attempt).unwrap_or(u8::MAX)
}
