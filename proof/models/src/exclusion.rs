//! Mutual exclusion on N independent masters: is there ever a second client that believes it holds?
//!
//! Time goes in ticks, and as long as it likes between any two steps. A message may land at any
//! later tick, or never; a reply that takes long is a client that decides late. Each client's own
//! clock is right, the node's may be wrong by one tick in a lease, either way.
//!
//! An owner slot is used again, as a fresh owner, when its last lock is over and no node has its
//! key: histories have any length, with at most `A` owners alive at a time. The nodes are alike,
//! and so are the owners: both are kept sorted.

use stateright::{Model, Property};

use crate::check::{Goal, Proof};

mod state;

use state::{Leg, Node, Owner, Phase, State};

/// What a node's clock may be wrong by in a lease, and what a client therefore subtracts
/// (`validity::drift`).
const DRIFT: u8 = 1;

pub(crate) const ONE_HOLDER: &str = "at most one client believes that it holds";

/// What is wrong with the protocol: the negative controls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    None,
    /// The deadline counts from the reply, not from before the command left.
    DeadlineFromReply,
    /// Nothing is subtracted for clocks of different rates.
    NoDrift,
    /// A release deletes the key of whoever has it.
    ReleaseUnchecked,
    /// A renewal extends the key of whoever has it.
    RenewUnchecked,
    /// A node that has no vote for an acquire counts in renewals all the same.
    RenewUnjudged,
}

/// A variant of the protocol on `N` nodes with `A` owners alive at a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Exclusion<const N: usize, const A: usize> {
    pub(crate) quorum: usize,
    /// What a lease lasts on a node, in ticks of the node.
    pub(crate) expire: u8,
    pub(crate) bug: Bug,
    pub(crate) restarts: Restarts,
    /// Does a holder take a node back that has no lock key any more (`Quorum::win_back`)?
    pub(crate) wins_back: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Restarts {
    Never,
    /// Any node may come back empty at any time, and has no vote for so many ticks then
    /// (`quorum/restart_guard.rs`): as long as the longest lease that it may have forgotten.
    Guarded {
        quarantine: u8,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Tick,
    /// A fresh owner asks all nodes (`Quorum::acquire_within`).
    Ask {
        owner: usize,
    },
    /// Its acquire lands (`exclusive/acquire.lua`).
    Grant {
        node: usize,
        owner: usize,
        heard: bool,
    },
    /// It counts its votes (`tally::elect`, `Hold::new`).
    Elect {
        owner: usize,
    },
    /// A renewal leaves for all nodes (`Scheduler::renew`).
    AskAgain {
        owner: usize,
    },
    /// A renewal lands (`exclusive/renew.lua`); one may land again and again, and late.
    Renew {
        node: usize,
        owner: usize,
        heard: bool,
    },
    /// The holder counts again (`tally::verdict`, `Hold::extend`).
    Confirm {
        owner: usize,
    },
    /// The holder sends an acquire to a node (`Quorum::win_back`).
    WinBack {
        node: usize,
        owner: usize,
    },
    /// It lets go, or gives up asking: releases leave for all nodes (`Ownership::let_go`).
    LetGo {
        owner: usize,
    },
    /// A release lands (`exclusive/release.lua`); one may land again and again, and late.
    Release {
        node: usize,
        owner: usize,
    },
    /// A key goes that is close to its end.
    Expire {
        node: usize,
    },
    /// A node comes back empty.
    Restart {
        node: usize,
    },
}

impl<const N: usize, const A: usize> Exclusion<N, A> {
    /// What an owner may rely on, were its command sent now.
    fn validity(&self) -> u8 {
        if self.bug == Bug::NoDrift { self.expire } else { self.expire - DRIFT }
    }

    fn owner_actions(&self, state: &State<N, A>, owner: usize, actions: &mut Vec<Action>) {
        let this = &state.owners[owner];
        let has_quorum = state.votes(owner) >= self.quorum;
        match this.phase {
            Phase::Asking if has_quorum => actions.push(Action::Elect { owner }),
            Phase::Holding if this.next.is_none() => actions.push(Action::AskAgain { owner }),
            Phase::Holding if has_quorum => actions.push(Action::Confirm { owner }),
            // Nothing was confirmed in time: asked again.
            Phase::Holding => actions.push(Action::AskAgain { owner }),
            Phase::Idle | Phase::Asking | Phase::Over => {}
        }
        if matches!(this.phase, Phase::Asking | Phase::Holding) {
            actions.push(Action::LetGo { owner });
        }
    }

    fn meeting_actions(&self, state: &State<N, A>, at: (usize, usize), actions: &mut Vec<Action>) {
        let (node, owner) = at;
        let (here, this) = (&state.nodes[node], &state.owners[owner]);
        let leg = here.legs[owner];
        let has_vote = here.quarantine == 0;
        if leg.is_asked && (here.owner.is_none() || here.is_of(owner)) {
            actions.push(Action::Grant { node, owner, heard: false });
            if this.phase == Phase::Asking && has_vote {
                actions.push(Action::Grant { node, owner, heard: true });
            }
        }
        let may_extend = match self.bug {
            Bug::RenewUnchecked => here.owner.is_some(),
            _ => here.is_of(owner),
        };
        if this.has_renewed && may_extend {
            actions.push(Action::Renew { node, owner, heard: false });
            if this.next.is_some()
                && !leg.is_counted
                && (has_vote || self.bug == Bug::RenewUnjudged)
            {
                actions.push(Action::Renew { node, owner, heard: true });
            }
        }
        let is_gone = here.owner.is_none() && !leg.is_asked;
        if self.wins_back && this.is_holding() && this.has_renewed && is_gone {
            actions.push(Action::WinBack { node, owner });
        }
        let may_delete = match self.bug {
            Bug::ReleaseUnchecked => here.owner.is_some(),
            _ => here.is_of(owner),
        };
        if this.phase == Phase::Over && may_delete {
            actions.push(Action::Release { node, owner });
        }
    }

    fn ask(&self, state: &mut State<N, A>, owner: usize) {
        let (phase, left) = (Phase::Asking, self.validity());
        state.owners[owner] = Owner { phase, left, ..Owner::IDLE };
        for node in &mut state.nodes {
            node.legs[owner] = Leg { is_asked: true, is_counted: false };
        }
    }
}

impl<const N: usize, const A: usize> Model for Exclusion<N, A> {
    type State = State<N, A>;
    type Action = Action;

    fn init_states(&self) -> Vec<State<N, A>> {
        vec![State { nodes: [Node::EMPTY; N], owners: [Owner::IDLE; A] }]
    }

    fn actions(&self, state: &State<N, A>, actions: &mut Vec<Action>) {
        actions.push(Action::Tick);
        // One slot is as good as another.
        let is_unused = |owner: &usize| match state.owners[*owner].phase {
            Phase::Idle => true,
            Phase::Over => !state.nodes.iter().any(|node| node.is_of(*owner)),
            Phase::Asking | Phase::Holding => false,
        };
        actions.extend((0..A).filter(is_unused).map(|owner| Action::Ask { owner }));
        for owner in 0..A {
            self.owner_actions(state, owner, actions);
        }
        for node in 0..N {
            let here = &state.nodes[node];
            // Nodes in the same state have the same future.
            if node > 0 && state.nodes[node - 1] == *here {
                continue;
            }
            (0..A).for_each(|owner| self.meeting_actions(state, (node, owner), actions));
            if here.owner.is_some() && here.left <= 2 * DRIFT {
                actions.push(Action::Expire { node });
            }
            if self.restarts != Restarts::Never {
                actions.push(Action::Restart { node });
            }
        }
    }

    fn next_state(&self, last: &State<N, A>, action: Action) -> Option<State<N, A>> {
        let mut state = *last;
        match action {
            Action::Tick => state.tick(),
            Action::Ask { owner } => self.ask(&mut state, owner),
            Action::Grant { node, owner, heard } => {
                state.nodes[node].take(owner, self.expire + DRIFT);
                state.nodes[node].legs[owner] = Leg { is_asked: false, is_counted: heard };
            }
            Action::Elect { owner } => {
                state.owners[owner].phase = Phase::Holding;
                if self.bug == Bug::DeadlineFromReply {
                    state.owners[owner].left = self.validity();
                }
                state.forget_votes(owner);
            }
            Action::AskAgain { owner } => {
                state.forget_votes(owner);
                let this = &mut state.owners[owner];
                (this.next, this.has_renewed) = (Some(self.validity()), true);
            }
            Action::Renew { node, owner, heard } => {
                state.nodes[node].left = self.expire + DRIFT;
                state.nodes[node].legs[owner].is_counted |= heard;
            }
            Action::Confirm { owner } => {
                state.forget_votes(owner);
                let this = &mut state.owners[owner];
                let next = this.next.take().unwrap_or_default();
                let is_late = self.bug == Bug::DeadlineFromReply;
                this.left = if is_late { self.validity() } else { next };
            }
            Action::WinBack { node, owner } => state.nodes[node].legs[owner].is_asked = true,
            Action::LetGo { owner } => state.end(owner),
            Action::Release { node, .. } | Action::Expire { node } => state.nodes[node].free(),
            Action::Restart { node } => {
                state.nodes[node].free();
                if let Restarts::Guarded { quarantine } = self.restarts {
                    state.nodes[node].quarantine = quarantine;
                }
            }
        }
        Some(state.sorted())
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always(ONE_HOLDER, |_, state: &State<N, A>| {
            state.owners.iter().filter(|owner| owner.is_holding()).count() <= 1
        })]
    }
}

impl<const N: usize, const A: usize> Proof for Exclusion<N, A> {
    const NAME: &'static str = "exclusion";

    fn bound(&self) -> String {
        format!("N={N} q={}: {A} owners at a time, lease of {} ticks", self.quorum, self.expire)
    }

    fn goals(&self) -> Vec<Goal<State<N, A>>> {
        let mut all: Vec<Goal<State<N, A>>> = vec![
            ("a holder that was confirmed has every node", |state| {
                let has = |owner: usize| state.nodes.iter().all(|node| node.is_of(owner));
                (0..A).any(|owner| state.owners[owner].is_renewed() && has(owner))
            }),
            ("a renewal may land while somebody else holds", |state| {
                let is_left = |owner: &Owner| owner.phase == Phase::Over && owner.has_renewed;
                let is_held = state.owners.iter().any(Owner::is_holding);
                is_held && state.owners.iter().any(is_left)
            }),
        ];
        if self.restarts != Restarts::Never {
            all.push((
                "a node has no vote while somebody holds and another one asks",
                without_vote,
            ));
            all.push(("a holder has fewer nodes than a quorum, which have forgotten", forgotten));
        }
        if self.wins_back {
            all.push(("a node that had forgotten has the key of its holder again", won_back));
        }
        all
    }
}

fn without_vote<const N: usize, const A: usize>(state: &State<N, A>) -> bool {
    let has = |phase: Phase| state.owners.iter().any(|owner| owner.phase == phase);
    let is_out = state.nodes.iter().any(|node| node.quarantine > 0);
    is_out && has(Phase::Holding) && has(Phase::Asking)
}

fn forgotten<const N: usize, const A: usize>(state: &State<N, A>) -> bool {
    let is_free = |node: &&Node<A>| node.owner.is_none() && node.quarantine > 0;
    let is_held = state.owners.iter().any(Owner::is_holding);
    is_held && 2 * state.nodes.iter().filter(is_free).count() > N
}

fn won_back<const N: usize, const A: usize>(state: &State<N, A>) -> bool {
    let holds = |owner: usize| state.owners[owner].is_renewed();
    let is_back =
        |node: &Node<A>| node.quarantine > 0 && (0..A).any(|at| node.is_of(at) && holds(at));
    state.nodes.iter().any(is_back)
}
