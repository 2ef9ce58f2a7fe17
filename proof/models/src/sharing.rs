//! Readers, writers and permits of one lock on one server: leases of their own, one queue, groups
//! that are let in together, writers that become readers, and whoever dies in between.
//!
//! Time goes in ticks, and as long as it likes between any two steps. A command may land at any
//! later tick, or never; its answer is heard at once or not at all. Clocks agree (*exclusion* has
//! the others). An owner slot is used again, as a fresh owner of the same kind, when the server
//! does not know its last one any more: histories have any length, with at most `A` owners alive at
//! a time.

use stateright::{Model, Property};

use crate::check::{Goal, Proof};

mod fair;
mod server;
mod state;

use server::Reply;
pub(crate) use state::Kind;
use state::{Lock, Owner, Phase, State};

pub(crate) const WRITER_ALONE: &str = "a writer is beside nobody, and permits beside permits only";
pub(crate) const WITHIN_PERMITS: &str = "no more believe to hold a permit than there are permits";
pub(crate) const NOT_PASSED: &str = "no reader comes in past a writer that waits";
pub(crate) const STAYS_LOST: &str = "a lease that was over is not renewed";
pub(crate) const SERVED: &str = "who waits is served once faults stop";
pub(crate) const PERMIT_BACK: &str = "a permit comes back while others hold on to theirs";

/// What is wrong with the protocol: the negative controls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    None,
    /// A reader comes in though a writer waits.
    ReaderPasses,
    /// There is room for one more.
    OneTooMany,
    /// The end of the marker is that of the last reader who came, not of the last to go.
    MarkerMovesInwards,
    /// A renewal extends the lease, and not the marker.
    MarkerNotRenewed,
    /// The first reader who leaves frees the lock.
    FirstFrees,
    /// A group begins with what is left of the one before.
    OldReaderStays,
    /// A downgrade releases, and acquires then.
    GapInDowngrade,
    /// The permits of those whose leases are over are counted.
    CrashKeepsPermit,
    /// Nobody in the queue ever looks.
    NobodyLooks,
}

/// A variant of the protocol with `A` owners alive at a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sharing<const A: usize> {
    pub(crate) bug: Bug,
    /// Sorted, what each owner slot is for.
    pub(crate) kinds: [Kind; A],
    /// What a lease lasts, and one that was handed over, in ticks.
    pub(crate) expire: u8,
    pub(crate) window: u8,
    pub(crate) downgrades: bool,
    /// How many owners die, and how often the lock is deleted by hand.
    pub(crate) crashes: u8,
    pub(crate) wipes: u8,
    /// Also what must come about is asked, from every state.
    pub(crate) is_fair: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Tick,
    /// A fresh owner enqueues.
    Ask(usize),
    /// One in the queue looks.
    Look(usize),
    /// One that was told of a hand-over claims it.
    Claim(usize),
    Renew(usize),
    Downgrade(usize),
    /// A body ends, or a wait.
    LetGo(usize),
    Die(usize),
    /// Somebody deletes the lock key.
    Wipe,
    /// A command lands (`*.lua`).
    Land {
        owner: usize,
        command: Command,
        heard: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Command {
    Enqueue,
    Look,
    Claim,
    Renew,
    Downgrade,
    Release,
}

impl Command {
    const ALL: [Self; 6] =
        [Self::Enqueue, Self::Look, Self::Claim, Self::Renew, Self::Downgrade, Self::Release];
}

impl<const A: usize> Sharing<A> {
    fn own_actions(&self, state: &State<A>, at: usize, actions: &mut Vec<Action>) {
        let owner = &state.owners[at];
        match owner.phase {
            Phase::Idle => actions.push(Action::Ask(at)),
            Phase::Over if !state.server.knows(at) => actions.push(Action::Ask(at)),
            Phase::Waiting if owner.next == 0 && owner.is_told => actions.push(Action::Claim(at)),
            Phase::Waiting if owner.next == 0 => actions.push(Action::Look(at)),
            Phase::Holding if owner.next == 0 => {
                // Before that it would change nothing that matters.
                if owner.left < self.expire {
                    actions.push(Action::Renew(at));
                }
                if self.downgrades && self.kinds[at] == Kind::Write && !owner.is_downgraded {
                    actions.push(Action::Downgrade(at));
                }
            }
            _ => {}
        }
        if matches!(owner.phase, Phase::Asking | Phase::Waiting | Phase::Holding) {
            actions.push(Action::LetGo(at));
            if state.crashes > 0 {
                actions.push(Action::Die(at));
            }
        }
    }

    fn landing_actions(state: &State<A>, at: usize, actions: &mut Vec<Action>) {
        let owner = &state.owners[at];
        let is_let_go = owner.phase == Phase::Over && state.server.knows(at);
        for command in Command::ALL {
            let may_land = match command {
                Command::Release => is_let_go,
                _ => owner.sent.has(command),
            };
            if may_land {
                actions.push(Action::Land { owner: at, command, heard: false });
                if owner.awaits(command) {
                    actions.push(Action::Land { owner: at, command, heard: true });
                }
            }
        }
    }

    fn land(&self, state: &mut State<A>, at: usize, command: Command, heard: bool) {
        let reply = match command {
            Command::Enqueue => {
                // It is not repeated.
                state.owners[at].sent.remove(command);
                self.enqueue(state, at)
            }
            Command::Look => self.look(state, at),
            Command::Claim => self.claim(state, at),
            Command::Renew => {
                let reply = self.renew(state, at);
                state.has_revived |= heard && reply == Reply::Granted && state.server.lost[at];
                reply
            }
            Command::Downgrade if self.bug == Bug::GapInDowngrade => {
                self.release(state, at);
                Reply::Refused
            }
            Command::Downgrade => self.downgrade(state, at),
            Command::Release => {
                self.release(state, at);
                return;
            }
        };
        if heard {
            Self::hear(&mut state.owners[at], command, reply);
        }
    }

    fn hear(owner: &mut Owner, command: Command, reply: Reply) {
        let lease = if command == Command::Enqueue { owner.left } else { owner.next };
        match (command, reply) {
            (_, Reply::Granted) => {
                owner.is_downgraded |= command == Command::Downgrade;
                (owner.phase, owner.left, owner.next) = (Phase::Holding, lease, 0);
                owner.is_told = false;
                owner.sent.remove(command);
            }
            (Command::Renew | Command::Downgrade | Command::Look, Reply::Gone) => owner.end(),
            (Command::Enqueue, _) => (owner.phase, owner.left) = (Phase::Waiting, 0),
            (Command::Look | Command::Claim, _) => {
                (owner.next, owner.is_told) = (0, false);
                owner.sent.remove(command);
            }
            // As a reader it asks again, while it relies on the lease of the writer.
            (Command::Renew | Command::Downgrade | Command::Release, _) => owner.next = 0,
        }
    }

    /// What an owner sends may be granted to it from now on for a whole lease.
    fn send(&self, owner: &mut Owner, command: Command) {
        owner.sent.add(command);
        owner.next = self.expire;
    }
}

impl Owner {
    /// Does it hear of the answer to this command?
    fn awaits(&self, command: Command) -> bool {
        match (self.phase, command) {
            (Phase::Asking, Command::Enqueue) => true,
            (Phase::Waiting, Command::Look | Command::Claim)
            | (Phase::Holding, Command::Downgrade) => self.next > 0,
            (Phase::Holding, Command::Renew) => self.next > 0 && !self.sent.has(Command::Downgrade),
            _ => false,
        }
    }

    fn only_reads(&self) -> bool {
        self.is_downgraded || self.sent.has(Command::Downgrade)
    }

    fn believes(&self) -> bool {
        self.phase == Phase::Holding && self.left > 0
    }
}

impl<const A: usize> Model for Sharing<A> {
    type State = State<A>;
    type Action = Action;

    fn init_states(&self) -> Vec<State<A>> {
        vec![State::new(self.crashes, self.wipes)]
    }

    fn actions(&self, state: &State<A>, actions: &mut Vec<Action>) {
        actions.push(Action::Tick);
        if state.wipes > 0 && state.server.lock != Lock::Free {
            actions.push(Action::Wipe);
        }
        for at in 0..A {
            self.own_actions(state, at, actions);
            Self::landing_actions(state, at, actions);
        }
    }

    fn next_state(&self, last: &State<A>, action: Action) -> Option<State<A>> {
        let mut next = *last;
        let state = &mut next;
        match action {
            Action::Tick => state.tick(),
            Action::Ask(at) => {
                let (phase, left) = (Phase::Asking, self.expire);
                state.owners[at] = Owner { phase, left, ..Owner::IDLE };
                state.owners[at].sent.add(Command::Enqueue);
                state.server.lost[at] = false;
            }
            Action::Look(at) => self.send(&mut state.owners[at], Command::Look),
            Action::Claim(at) => self.send(&mut state.owners[at], Command::Claim),
            Action::Renew(at) => self.send(&mut state.owners[at], Command::Renew),
            Action::Downgrade(at) => self.send(&mut state.owners[at], Command::Downgrade),
            Action::LetGo(at) => state.owners[at].end(),
            Action::Die(at) => {
                state.crashes -= 1;
                let sent = state.owners[at].sent;
                state.owners[at] = Owner { phase: Phase::Dead, sent, ..Owner::IDLE };
            }
            Action::Wipe => {
                state.wipes -= 1;
                for at in 0..A {
                    state.server.lost[at] |= state.server.holds(at);
                }
                state.server.free();
            }
            Action::Land { owner, command, heard } => self.land(state, owner, command, heard),
        }
        let next = next.sorted(&self.kinds);
        (next != *last).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = vec![Property::always(NOT_PASSED, |_, state: &State<A>| !state.has_passed)];
        if self.wipes > 0 {
            // Who deletes a lock by hand breaks the others.
            all.push(Property::always(STAYS_LOST, |_, state: &State<A>| !state.has_revived));
            return all;
        }
        all.push(Property::always(WRITER_ALONE, |model: &Self, state| model.are_alike(state)));
        all.push(Property::always(WITHIN_PERMITS, |model: &Self, state| model.are_few(state)));
        if self.is_fair {
            all.push(Property::always(SERVED, |model: &Self, state| model.serves(state)));
            all.push(Property::always(PERMIT_BACK, |model: &Self, state| model.gives_back(state)));
        }
        all
    }
}

impl<const A: usize> Sharing<A> {
    fn believers(state: &State<A>) -> impl Iterator<Item = usize> {
        (0..A).filter(|at| state.owners[*at].believes())
    }

    fn are_alike(&self, state: &State<A>) -> bool {
        let kind = |at: usize| match self.kinds[at] {
            // From the call of the downgrade on nobody has a guard to write under.
            Kind::Write if state.owners[at].only_reads() => Kind::Read,
            kind => kind,
        };
        let mut kinds = Self::believers(state).map(kind);
        let Some(first) = kinds.next() else { return true };
        kinds.all(|other| {
            matches!((first, other), (Kind::Read, Kind::Read) | (Kind::Permit(_), Kind::Permit(_)))
        })
    }

    fn are_few(&self, state: &State<A>) -> bool {
        let permits =
            |at| if let Kind::Permit(count) = self.kinds[at] { Some(count) } else { None };
        let most = Self::believers(state).filter_map(permits).max();
        let held = Self::believers(state).filter_map(permits).count();
        most.is_none_or(|most| held <= usize::from(most))
    }
}

impl<const A: usize> Proof for Sharing<A> {
    const NAME: &'static str = "sharing";

    fn bound(&self) -> String {
        let Self { kinds, expire, window, crashes, wipes, .. } = self;
        let name = |kind: &Kind| match kind {
            Kind::Write => "w".to_owned(),
            Kind::Read => "r".to_owned(),
            Kind::Permit(count) => format!("p{count}"),
        };
        let kinds: Vec<_> = kinds.iter().map(name).collect();
        let faults = format!("{crashes} crashes, {wipes} deletions");
        format!("{} at a time; {faults}; {window} of {expire} ticks", kinds.join(" "))
    }

    fn goals(&self) -> Vec<Goal<State<A>>> {
        let beside = |state: &State<A>| Self::believers(state).count() > 1;
        let late = |state: &State<A>| {
            let is_late =
                |owner: &Owner| owner.phase == Phase::Over && owner.sent.has(Command::Renew);
            state.owners.iter().any(is_late) && Self::believers(state).next().is_some()
        };
        let told = |state: &State<A>| state.owners.iter().any(|owner| owner.is_told);
        let mut all: Vec<Goal<State<A>>> = vec![
            ("a renewal may land while somebody else holds", late),
            ("somebody was handed the lock", told),
        ];
        if self.kinds.iter().filter(|kind| **kind != Kind::Write).count() > 1 {
            all.push(("two hold at a time", beside));
        }
        if self.downgrades {
            all.push(("a writer has become a reader", |state| {
                state.owners.iter().any(|owner| owner.is_downgraded && owner.believes())
            }));
        }
        if self.crashes > 0 {
            all.push(("somebody waits for what a dead one has", |state| {
                let is_dead = |at: usize| !state.owners[at].is_live() && state.server.holds(at);
                let waits = state.owners.iter().any(|owner| owner.phase == Phase::Waiting);
                waits && (0..A).any(is_dead)
            }));
        }
        if self.wipes > 0 {
            all.push((
                "one holds a lock that was deleted by hand, and another one has it",
                |state| {
                    let lacks = |at: usize| state.owners[at].believes() && !state.server.holds(at);
                    state.wipes == 0 && (0..A).any(lacks) && state.server.lock != Lock::Free
                },
            ));
        }
        if self.kinds.contains(&Kind::Write) && self.kinds.contains(&Kind::Permit(2)) {
            all.push(("a writer waits for permits", |state| {
                let waits = state.server.queue.iter().any(|at| state.server.holders[at] == 0);
                state.server.lock == Lock::Permits && waits
            }));
        }
        all
    }
}
