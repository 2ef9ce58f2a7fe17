//! What there is: the lock with its counter and its line, processes, commands and calls on their way.
//!
//! Fencing tokens are kept relative to the one that began last, which is 0: what is larger may
//! begin. Those that are below it are all the same.

use std::cell::Cell;

/// What a server's clock may be wrong by in a lease, and what a client therefore subtracts.
pub(super) const DRIFT: u8 = 1;
/// How many fencing tokens a tenure reserves.
pub(super) const RESERVE: i8 = 2;
/// Fresh owners of a process are told apart by their number.
pub(super) const OWNERS: u8 = 32;
/// Commands of one process that may still land.
const COMMANDS: usize = 6;
const CALLS: usize = 3;
const ENTRIES: usize = 8;

/// An owner: `OWNERS * process + number`.
pub(super) type Owner = u8;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct State<const P: usize> {
    pub(super) lock: Lock,
    pub(super) line: Set<Owner, ENTRIES>,
    pub(super) processes: [Process; P],
    /// How many processes may die yet, and how many subscriptions break.
    pub(super) crashes: u8,
    pub(super) cuts: u8,
    /// How many fresh owners may be made yet.
    pub(super) owners: u8,
    /// How often yet a reply does not come in time, or somebody's time is up.
    pub(super) doubts: u8,
    pub(super) history: History,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Lock {
    pub(super) owner: Option<Owner>,
    /// How long the key lives at most; it may go `2 * DRIFT` earlier.
    pub(super) left: u8,
    /// The counter in the server.
    pub(super) counter: i8,
    /// Who handed the lock over, until it is claimed or deleted: he watches.
    pub(super) watcher: Option<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Process {
    pub(super) phase: Phase,
    /// Callers that wait.
    pub(super) waiting: u8,
    /// Fresh owners that were used.
    pub(super) owners: u8,
    /// Which of them have joined, a bit for each.
    pub(super) joined: u32,
    pub(super) is_dead: bool,
    /// The server has a subscription of it.
    pub(super) listens: bool,
    /// It was made anew, or a look was not answered: a call may be lost, and a look has to follow.
    pub(super) is_disturbed: bool,
    /// A reply that has arrived, and that nobody has looked at.
    pub(super) reply: Option<Reply>,
    pub(super) commands: Set<Command, COMMANDS>,
    pub(super) calls: Set<Call, CALLS>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Phase {
    Idle,
    /// A ticket is registered. `since`: how long ago the command left that proves that no hand-over
    /// was earlier. `asked`: the same of the join or look whose reply is to come.
    InLine {
        owner: Owner,
        since: u8,
        asked: Option<u8>,
        joined: bool,
    },
    /// The call came late: the lock is claimed before a body begins.
    Claiming {
        owner: Owner,
        sent: u8,
        call: Call,
    },
    /// A body runs. `next..=last` are the fencing tokens that are left, `left` is how long it may
    /// rely on its lease, `renewing` how long ago the renewal left whose reply is to come.
    Holding {
        owner: Owner,
        next: i8,
        last: i8,
        left: u8,
        renewing: Option<u8>,
    },
    Rotating {
        owner: Owner,
        used: i8,
        next: Owner,
        sent: u8,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Command {
    Join {
        owner: Owner,
    },
    Look {
        owner: Owner,
    },
    /// `acquire.lua` of one who was called.
    Claim {
        owner: Owner,
    },
    Renew {
        owner: Owner,
    },
    Release {
        owner: Owner,
        used: i8,
    },
    /// A release with an entry, and without a fencing token.
    Leave {
        owner: Owner,
    },
    Rotate {
        owner: Owner,
        used: i8,
        next: Owner,
    },
    /// Only with a bug.
    GiveBack {
        owner: Owner,
        used: i8,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Reply {
    Granted {
        first: i8,
        last: i8,
    },
    /// In line, or a rotate that moved on.
    InLine,
    /// The owner is not in line, or does not have the lock.
    Gone,
    Renewed,
}

/// A hand-over's message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Call {
    pub(super) owner: Owner,
    pub(super) first: i8,
    pub(super) last: i8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct History {
    pub(super) joined_twice: bool,
    pub(super) fence_not_above: bool,
}

/// A few items in order. One that does not fit is lost, as a message may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Set<T, const C: usize>([Option<T>; C]);

impl<T: Copy + Ord, const C: usize> Set<T, C> {
    pub(super) const EMPTY: Self = Self([None; C]);

    pub(super) fn iter(&self) -> impl Iterator<Item = T> + '_ {
        self.0.iter().map_while(|item| *item)
    }

    pub(super) fn has(&self, item: T) -> bool {
        self.iter().any(|other| other == item)
    }

    pub(super) fn first(&self) -> Option<T> {
        self.0[0]
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0[0].is_none()
    }

    pub(super) fn push(&mut self, item: T) {
        if let Some(place) = self.0.iter_mut().find(|place| place.is_none()) {
            *place = Some(item);
        }
    }

    /// Behind what is smaller; each item once.
    pub(super) fn insert(&mut self, item: T) {
        if !self.has(item) {
            self.push(item);
            self.0.sort_unstable_by_key(|item| (item.is_none(), *item));
        }
    }

    pub(super) fn retain(&mut self, keeps: impl Fn(T) -> bool) {
        let mut kept = Self::EMPTY;
        self.iter().filter(|item| keeps(*item)).for_each(|item| kept.push(item));
        *self = kept;
    }

    pub(super) fn remove(&mut self, item: T) {
        self.retain(|other| other != item);
    }

    fn change(&mut self, change: impl Fn(&mut T)) {
        self.0.iter_mut().flatten().for_each(change);
    }
}

impl Command {
    pub(super) fn owner(self) -> Owner {
        match self {
            Self::Join { owner }
            | Self::Look { owner }
            | Self::Claim { owner }
            | Self::Renew { owner }
            | Self::Release { owner, .. }
            | Self::Leave { owner }
            | Self::Rotate { owner, .. }
            | Self::GiveBack { owner, .. } => owner,
        }
    }

    /// May it give the lock, or a place in the line, to this owner?
    fn brings(self, to: Owner) -> bool {
        match self {
            Self::Join { owner } | Self::Look { owner } | Self::Claim { owner } => owner == to,
            Self::Rotate { next, .. } => next == to,
            _ => false,
        }
    }
}

impl Process {
    pub(super) fn new(callers: u8) -> Self {
        Self {
            phase: Phase::Idle,
            waiting: callers,
            owners: 0,
            joined: 0,
            is_dead: false,
            listens: true,
            is_disturbed: false,
            reply: None,
            commands: Set::EMPTY,
            calls: Set::EMPTY,
        }
    }

    pub(super) fn is_in_line(&self, owner: Owner) -> bool {
        matches!(self.phase, Phase::InLine { owner: own, .. } if own == owner)
    }

    /// Is this owner's tenure, claim or ticket alive?
    pub(super) fn knows(&self, of: Owner) -> bool {
        match self.phase {
            Phase::Idle => false,
            Phase::InLine { owner, .. }
            | Phase::Claiming { owner, .. }
            | Phase::Holding { owner, .. } => owner == of,
            Phase::Rotating { owner, next, .. } => owner == of || next == of,
        }
    }

    /// Does it wait for the reply of this command?
    pub(super) fn awaits(&self, command: Command) -> bool {
        let of = command.owner();
        match (command, self.phase) {
            (Command::Join { .. }, Phase::InLine { owner, asked: Some(_), joined: false, .. })
            | (Command::Look { .. }, Phase::InLine { owner, asked: Some(_), joined: true, .. })
            | (Command::Claim { .. }, Phase::Claiming { owner, .. })
            | (Command::Renew { .. }, Phase::Holding { owner, renewing: Some(_), .. })
            | (Command::Rotate { .. }, Phase::Rotating { owner, .. }) => {
                owner == of && self.reply.is_none() && !self.is_dead
            }
            _ => false,
        }
    }

    pub(super) fn relies(&self) -> bool {
        matches!(self.phase, Phase::Holding { left, .. } if left > 0)
    }

    fn tick(&mut self, longest: u8, window: u8) {
        let age = |age: &mut u8| *age = (*age + 1).min(longest);
        match &mut self.phase {
            Phase::Idle => {}
            Phase::InLine { since, asked, .. } => {
                *since = (*since + 1).min(window);
                asked.iter_mut().for_each(age);
            }
            Phase::Claiming { sent, .. } | Phase::Rotating { sent, .. } => age(sent),
            Phase::Holding { left, renewing, .. } => {
                *left = left.saturating_sub(1);
                renewing.iter_mut().for_each(age);
            }
        }
    }

    /// Every fencing token that the process has, or that is on its way.
    fn change_fences(&mut self, change: impl Fn(&mut i8)) {
        let change_call = |call: &mut Call| {
            change(&mut call.first);
            change(&mut call.last);
        };
        match &mut self.phase {
            Phase::Idle | Phase::InLine { .. } => {}
            Phase::Claiming { call, .. } => change_call(call),
            Phase::Holding { next, last, .. } => {
                change(next);
                change(last);
            }
            Phase::Rotating { used, .. } => change(used),
        }
        if let Some(Reply::Granted { first, last }) = &mut self.reply {
            change(first);
            change(last);
        }
        self.calls.change(change_call);
        self.commands.change(|command| match command {
            Command::Release { used, .. }
            | Command::Rotate { used, .. }
            | Command::GiveBack { used, .. } => change(used),
            _ => {}
        });
    }
}

impl<const P: usize> State<P> {
    /// Ages count up to what a lease may be relied on: beyond, they are all the same.
    pub(super) fn tick(&mut self, longest: u8, window: u8) {
        self.lock.left = self.lock.left.saturating_sub(1);
        if self.lock.left == 0 {
            self.lock.owner = None;
        }
        self.processes.iter_mut().for_each(|process| process.tick(longest, window));
    }

    /// A hold begins with this fencing token.
    pub(super) fn begin(&mut self, fence: i8) {
        self.history.fence_not_above |= fence <= 0;
        let change = |other: &mut i8| *other = (*other - fence).max(-1);
        change(&mut self.lock.counter);
        self.processes.iter_mut().for_each(|process| process.change_fences(change));
    }

    /// The same order of fencing tokens, in smaller numbers: what lies between two that are in use,
    /// and next to neither, is left out.
    fn with_small_fences(mut self) -> Self {
        let bits = Cell::new(0b11_u64);
        let note = |fence: &mut i8| bits.set(bits.get() | 1 << (*fence + 1));
        note(&mut self.lock.counter);
        self.processes.iter_mut().for_each(|process| process.change_fences(note));
        let (bits, starts) = (bits.get(), bits.get() & !(bits.get() << 1));
        let small = |fence: &mut i8| {
            let bit = 1 << (*fence + 1);
            let (below, up_to) = (bit - 1, bit | (bit - 1));
            let places = (bits & below).count_ones() + (starts & up_to).count_ones() - 1;
            *fence = i8::try_from(places).unwrap_or(i8::MAX) - 1;
        };
        small(&mut self.lock.counter);
        self.processes.iter_mut().for_each(|process| process.change_fences(small));
        self
    }

    /// May this owner have the lock, now or later?
    fn has_a_future(&self, owner: Owner) -> bool {
        let commands = self.processes.iter().flat_map(|process| process.commands.iter());
        self.lock.owner == Some(owner)
            || self.line.has(owner)
            || commands.into_iter().any(|command| command.brings(owner))
    }

    /// At the end of the line.
    pub(super) fn enter(&mut self, owner: Owner) {
        let joined = &mut self.processes[process_of(owner)].joined;
        let bit = 1 << (owner % OWNERS);
        self.history.joined_twice |= *joined & bit != 0;
        *joined |= bit;
        self.line.push(owner);
    }

    /// Forgets what cannot change anything any more.
    pub(super) fn without_echoes(mut self) -> Self {
        for at in 0..P {
            let process = self.processes[at];
            let keeps = |command: Command| match command {
                Command::Join { .. } | Command::Claim { .. } => true,
                _ => process.awaits(command) || self.has_a_future(command.owner()),
            };
            let mut kept = process;
            kept.commands.retain(keeps);
            kept.calls.retain(|call| process.knows(call.owner) || self.has_a_future(call.owner));
            let first = number(at) * OWNERS;
            let has_joined = |at: &u8| process.joined & (1 << at) != 0;
            let is_left = |at: &u8| has_joined(at) && self.has_a_future(first + at);
            kept.joined = (0..process.owners).filter(is_left).map(|at| 1 << at).sum();
            self.processes[at] = kept;
        }
        self.with_small_fences()
    }
}

impl<const P: usize> State<P> {
    /// The same state, whatever its processes are called.
    pub(super) fn sorted(mut self) -> Self {
        let place = |process: usize| {
            let is_of = |owner: &Owner| process_of(*owner) == process;
            let in_line = self.line.iter().position(|owner| is_of(&owner));
            let watches = self.lock.watcher == Some(number(process));
            (self.lock.owner.filter(is_of).is_some(), watches, in_line)
        };
        let mut order: [usize; P] = std::array::from_fn(|process| process);
        let keys: [_; P] = std::array::from_fn(|process| {
            (self.processes[process].named(number(process), 0), place(process))
        });
        order.sort_by(|one, other| keys[*one].cmp(&keys[*other]));
        if !order.is_sorted() {
            let rename = |owner: Owner| {
                let at = order.iter().position(|process| *process == process_of(owner));
                number(at.unwrap_or_default()) * OWNERS + owner % OWNERS
            };
            let mut line = Set::EMPTY;
            self.line.iter().for_each(|owner| line.push(rename(owner)));
            self.line = line;
            self.lock.owner = self.lock.owner.map(rename);
            self.lock.watcher = self.lock.watcher.map(|watcher| rename(watcher * OWNERS) / OWNERS);
            let old = self.processes;
            for (at, process) in order.into_iter().enumerate() {
                self.processes[at] = old[process].named(number(process), number(at));
            }
        }
        self
    }
}

impl Process {
    /// Its owners are those of process `from`; now they are those of process `to`.
    fn named(mut self, from: u8, to: u8) -> Self {
        let rename = |owner: &mut Owner| *owner = *owner - from * OWNERS + to * OWNERS;
        match &mut self.phase {
            Phase::Idle => {}
            Phase::InLine { owner, .. } | Phase::Holding { owner, .. } => rename(owner),
            Phase::Claiming { owner, call, .. } => {
                rename(owner);
                rename(&mut call.owner);
            }
            Phase::Rotating { owner, next, .. } => {
                rename(owner);
                rename(next);
            }
        }
        self.calls.change(|call| rename(&mut call.owner));
        self.commands.change(|command| match command {
            Command::Join { owner }
            | Command::Look { owner }
            | Command::Claim { owner }
            | Command::Renew { owner }
            | Command::Release { owner, .. }
            | Command::Leave { owner }
            | Command::GiveBack { owner, .. } => rename(owner),
            Command::Rotate { owner, next, .. } => {
                rename(owner);
                rename(next);
            }
        });
        self
    }
}

/// Processes are few.
fn number(process: usize) -> u8 {
    u8::try_from(process).unwrap_or(u8::MAX)
}

/// Whose owner it is.
pub(super) fn process_of(owner: Owner) -> usize {
    usize::from(owner / OWNERS)
}
