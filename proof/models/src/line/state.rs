//! What there is: the lock with its counter and its line, and processes.
//!
//! Fencing tokens are kept relative to the one that began last, which is 0: what is larger may
//! begin. Those that are below it are all the same.

use crate::few::Few;

use super::messages::{Call, Command, Drawn, Reply};

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
    pub(super) line: Few<Owner, ENTRIES>,
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
    pub(super) commands: Few<Command, COMMANDS>,
    pub(super) calls: Few<Call, CALLS>,
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
        drawn: Drawn,
        next: Owner,
        sent: u8,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct History {
    pub(super) joined_twice: bool,
    pub(super) fence_not_above: bool,
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
            commands: Few::EMPTY,
            calls: Few::EMPTY,
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
    pub(super) fn change_fences(&mut self, change: impl Fn(&mut i8)) {
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
            Phase::Rotating { drawn, .. } => drawn.change(&change),
        }
        if let Some(Reply::Granted { first, last }) = &mut self.reply {
            change(first);
            change(last);
        }
        self.calls.iter_mut().for_each(change_call);
        self.commands.iter_mut().for_each(|command| match command {
            Command::Release { drawn, .. } | Command::Rotate { drawn, .. } => drawn.change(&change),
            Command::GiveBack { used, .. } => change(used),
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

    /// At the end of the line.
    pub(super) fn enter(&mut self, owner: Owner) {
        let joined = &mut self.processes[process_of(owner)].joined;
        let bit = 1 << (owner % OWNERS);
        self.history.joined_twice |= *joined & bit != 0;
        *joined |= bit;
        self.line.push(owner);
    }
}

/// Processes are few.
pub(super) fn number(process: usize) -> u8 {
    u8::try_from(process).unwrap_or(u8::MAX)
}

/// Whose owner it is.
pub(super) fn process_of(owner: Owner) -> usize {
    usize::from(owner / OWNERS)
}
