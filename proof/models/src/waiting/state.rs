//! One lock on a server, and what the processes that want it know of it.

use crate::few::Few;

/// An acquisition. A process numbers its own, and uses a number again once nothing is left of it.
pub(crate) type Slot = u8;

/// How many acquisitions a process has at a time.
pub(super) const SLOTS: u8 = 7;

/// An acquisition of a process, as the server knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Owner {
    pub(super) process: u8,
    pub(super) slot: Slot,
}

impl Owner {
    pub(super) fn at(self) -> usize {
        usize::from(self.process)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct State<const P: usize, const C: usize> {
    pub(super) server: Server<P>,
    pub(super) processes: [Process<C>; P],
    /// How many more callers are not polled any more, keys go, and messages are lost.
    pub(super) stalls: u8,
    pub(super) losses: u8,
    pub(super) cuts: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Server<const P: usize> {
    pub(super) key: Option<Owner>,
    /// How the last key went.
    pub(super) gone: Gone,
    pub(super) line: Few<Owner, P>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Gone {
    /// The lock is held.
    Not,
    /// This process released it.
    Released(u8),
    /// It was deleted or expired: the server told no process.
    Lost,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Process<const C: usize> {
    pub(super) callers: [Caller; C],
    /// The callers that wait.
    pub(super) queue: Few<u8, C>,
    pub(super) poller: Poller,
    /// The entry in the server's queue.
    pub(super) entry: Option<Slot>,
    /// The message that the server handed the lock to this entry.
    pub(super) told: Option<Slot>,
    /// The caller that holds the lock here, as far as this process knows.
    pub(super) holder: Option<u8>,
    /// A tenure that its holder left to the poller, which looks after other processes first.
    pub(super) returned: Option<Slot>,
    /// The last question was refused, and the pause behind it is not over.
    pub(super) is_pausing: bool,
    /// A release of this process arrived since then.
    pub(super) is_freed: bool,
    /// What is on its way to the server.
    pub(super) commands: Few<Command, 8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Caller {
    pub(super) phase: Phase,
    /// It is not polled any more.
    pub(super) is_stalled: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Phase {
    Away,
    /// It asks by itself.
    Asking {
        slot: Slot,
        /// The others of its process wait for the end of this question.
        counts: bool,
        /// Whether the lock was granted.
        reply: Option<bool>,
    },
    Waiting,
    /// It was granted the lock, and has not been polled since.
    Granted {
        slot: Slot,
    },
    Holding {
        slot: Slot,
        /// The process knows that the lease is lost.
        is_over: bool,
    },
    /// It has let go, found that no caller waits here, and has not sent the release yet.
    LettingGo {
        slot: Slot,
    },
}

impl Phase {
    pub(super) fn slot(mut self) -> Option<Slot> {
        self.slot_mut().copied()
    }

    pub(super) fn slot_mut(&mut self) -> Option<&mut Slot> {
        match self {
            Self::Away | Self::Waiting => None,
            Self::Asking { slot, .. }
            | Self::Granted { slot }
            | Self::Holding { slot, .. }
            | Self::LettingGo { slot } => Some(slot),
        }
    }
}

/// The task that asks the server for all who wait in a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Poller {
    Absent,
    /// It is about to look at everything: it has just been woken, or the permit of a notification
    /// is stored. `is_due`: its timer fired.
    Awake {
        is_due: bool,
    },
    Resting(Rest),
    /// It waits for a reply. A notification that comes now wakes it to no effect: it looks at
    /// everything when the reply is there.
    Asked(Asked, Option<Reply>),
}

/// Why it rests. Each kind of rest has one timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Rest {
    /// No caller waits.
    Lingers,
    TakenHere(Until),
    InQueue,
    /// A process that cannot be told asks at the pace of a poller.
    Pause,
}

/// What takes the lock here, and so how long the poller rests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Until {
    /// A question of a caller: it counts for 10 ms.
    Question,
    /// A holder: a look once a second whether the key is still there.
    Look,
    /// What is certain to end with a notification.
    News,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Asked {
    /// For a place in line, or at the pace of a poller.
    Lock(Slot),
    Look(Slot),
    /// Hands a tenure over to the next process, and queues behind it.
    Rotate(Slot),
    /// Has a holder of this process still got the key?
    Verify(Slot),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Reply {
    Granted,
    InLine,
    /// The server does not know the entry, or the key has another owner.
    Unknown,
    Refused,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Command {
    Acquire { slot: Slot },
    Join { slot: Slot },
    Look { slot: Slot },
    Leave { slot: Slot },
    Rotate { slot: Slot, next: Slot },
    Verify { slot: Slot },
    Release { slot: Slot },
}

impl Asked {
    /// The acquisition that is asked for.
    fn slot(self) -> Option<Slot> {
        match self {
            Self::Lock(slot) | Self::Look(slot) | Self::Rotate(slot) => Some(slot),
            Self::Verify(_) => None,
        }
    }
}

impl Command {
    pub(super) fn slots(self) -> [Slot; 2] {
        match self {
            Self::Acquire { slot }
            | Self::Join { slot }
            | Self::Look { slot }
            | Self::Leave { slot }
            | Self::Verify { slot }
            | Self::Release { slot } => [slot; 2],
            Self::Rotate { slot, next } => [slot, next],
        }
    }

    /// Both are sent by the poller, on one connection.
    fn is_of_poller(self) -> bool {
        !matches!(self, Self::Acquire { .. } | Self::Release { .. })
    }

    /// Does this command land before a later one?
    fn is_before(self, later: Self) -> bool {
        let is_same = self.slots().iter().any(|slot| later.slots().contains(slot));
        is_same || self.is_of_poller() && later.is_of_poller()
    }
}

impl<const C: usize> Process<C> {
    pub(super) const NEW: Self = Self {
        callers: [Caller { phase: Phase::Away, is_stalled: false }; C],
        queue: Few::EMPTY,
        poller: Poller::Absent,
        entry: None,
        told: None,
        holder: None,
        returned: None,
        is_pausing: false,
        is_freed: false,
        commands: Few::EMPTY,
    };

    /// Those that may land next.
    pub(super) fn landing(&self) -> impl Iterator<Item = Command> + '_ {
        self.commands.iter().enumerate().filter_map(|(at, command)| {
            let mut before = self.commands.iter().take(at);
            (!before.any(|earlier| earlier.is_before(command))).then_some(command)
        })
    }

    /// The lock of this holder, unless the process knows that it is lost.
    pub(super) fn held(&self) -> Option<Slot> {
        match self.callers[usize::from(self.holder?)].phase {
            Phase::Granted { slot } | Phase::Holding { slot, is_over: false } => Some(slot),
            _ => None,
        }
    }

    pub(super) fn has_question(&self) -> bool {
        let counts = |caller: &Caller| matches!(caller.phase, Phase::Asking { counts: true, .. });
        self.callers.iter().any(counts)
    }

    /// Does a caller use this acquisition, or the poller?
    pub(super) fn uses(&self, slot: Slot) -> bool {
        let is_callers = self.callers.iter().any(|caller| caller.phase.slot() == Some(slot));
        let is_sent = self.commands.iter().any(|command| command.slots().contains(&slot));
        let is_asked = match self.poller {
            Poller::Asked(Asked::Verify(asked), _) => asked == slot,
            Poller::Asked(asked, _) => asked.slot() == Some(slot),
            _ => false,
        };
        let places = [self.entry, self.told, self.returned];
        is_callers || is_sent || is_asked || places.contains(&Some(slot))
    }

    /// What this process has, or will believe to have once it reads what has arrived.
    pub(super) fn granted(&self) -> impl Iterator<Item = Slot> + '_ {
        let callers = self.callers.iter().filter_map(|caller| match caller.phase {
            Phase::Asking { slot, reply: Some(true), .. } | Phase::Holding { slot, .. } => {
                Some(slot)
            }
            Phase::Granted { slot } => Some(slot),
            _ => None,
        });
        let polled = match self.poller {
            Poller::Asked(asked, Some(Reply::Granted)) => asked.slot(),
            _ => None,
        };
        let sent = self.commands.iter().filter_map(|command| match command {
            Command::Rotate { slot, .. } => Some(slot),
            _ => None,
        });
        callers.chain(polled).chain(sent).chain(self.told).chain(self.returned)
    }

    /// Does the poller wait in the server's queue with this entry, or for the reply that says so?
    pub(super) fn listens(&self, entry: Slot) -> bool {
        let is_joining =
            matches!(self.poller, Poller::Asked(asked, _) if asked.slot() == Some(entry));
        is_joining || self.entry == Some(entry)
    }

    /// Does it stand there, also if it has not read so yet?
    pub(super) fn is_in_line(&self, entry: Slot) -> bool {
        let has_joined = matches!(
            self.poller,
            Poller::Asked(asked, Some(Reply::InLine)) if asked.slot() == Some(entry)
        );
        has_joined || self.entry == Some(entry)
    }

    pub(super) fn has_entry(&self) -> bool {
        self.entry.is_some() || matches!(self.poller, Poller::Asked(_, Some(Reply::InLine)))
    }

    /// Wakes the poller (`tokio::sync::Notify::notify_one`).
    pub(super) fn notify(&mut self) {
        if matches!(self.poller, Poller::Resting(_)) {
            self.poller = Poller::Awake { is_due: false };
        }
    }

    /// The same, if a caller waits for the poller.
    pub(super) fn notify_waiters(&mut self) {
        if !self.queue.is_empty() {
            self.notify();
        }
    }
}

impl<const P: usize, const C: usize> State<P, C> {
    /// A number for an acquisition that nothing is left of.
    pub(super) fn fresh(&self, process: usize) -> Option<Slot> {
        let is_known = |slot| {
            let is_this = |owner: Owner| owner.at() == process && owner.slot == slot;
            self.server.key.is_some_and(is_this) || self.server.line.iter().any(is_this)
        };
        (0..SLOTS).find(|slot| !is_known(*slot) && !self.processes[process].uses(*slot))
    }
}
