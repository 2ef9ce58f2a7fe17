//! What there is: the records of one lock on its server, and what its owners believe.

use crate::few::Few;

use super::Command;

/// What an owner asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Kind {
    Write,
    Read,
    /// One of so many permits.
    Permit(u8),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct State<const A: usize> {
    pub(super) server: Server<A>,
    pub(super) owners: [Owner; A],
    /// How many may still die, and how often the lock may still be deleted by hand.
    pub(super) crashes: u8,
    pub(super) wipes: u8,
    /// A reader came in though a writer waited that lives.
    pub(super) has_passed: bool,
    /// A renewal was confirmed of a lease that had been over.
    pub(super) has_revived: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Server<const A: usize> {
    pub(super) lock: Lock,
    /// How long the lock key lives.
    pub(super) left: u8,
    /// The leases of readers or permits (`:holders`); 0: none, or one that is over.
    pub(super) holders: [u8; A],
    /// The leases that ended otherwise than by a release of their owner.
    pub(super) lost: [bool; A],
    /// Entries in the order in which they came; an owner is in it once.
    pub(super) queue: Few<usize, A>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Lock {
    Free,
    Owner(usize),
    Readers,
    Permits,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Owner {
    pub(super) phase: Phase,
    /// How long it believes to hold; while asking: would believe, were it granted now.
    pub(super) left: u8,
    /// The same, once the look, claim, renewal or downgrade that is under way is confirmed.
    pub(super) next: u8,
    /// It was told of a hand-over, and has not claimed it yet.
    pub(super) is_told: bool,
    /// It was a writer.
    pub(super) is_downgraded: bool,
    pub(super) sent: Sent,
}

/// The commands that may still land, or land again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Sent(u8);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Phase {
    Idle,
    /// It does not know yet whether it is in the queue.
    Asking,
    Waiting,
    Holding,
    /// It has let go, or given up. Its release lands at any time, and again.
    Over,
    Dead,
}

impl Sent {
    pub(super) const NOTHING: Self = Self(0);

    pub(super) fn has(self, command: Command) -> bool {
        self.0 & 1 << command as u8 != 0
    }

    pub(super) fn add(&mut self, command: Command) {
        self.0 |= 1 << command as u8;
    }

    pub(super) fn remove(&mut self, command: Command) {
        self.0 &= !(1 << command as u8);
    }
}

impl Owner {
    pub(super) const IDLE: Self = Self {
        phase: Phase::Idle,
        left: 0,
        next: 0,
        is_told: false,
        is_downgraded: false,
        sent: Sent::NOTHING,
    };

    pub(super) fn end(&mut self) {
        let Self { is_downgraded, sent, .. } = *self;
        *self = Self { phase: Phase::Over, is_downgraded, sent, ..Self::IDLE };
    }

    pub(super) fn is_live(&self) -> bool {
        self.phase != Phase::Dead
    }
}

impl<const A: usize> Server<A> {
    pub(super) fn free(&mut self) {
        (self.lock, self.left) = (Lock::Free, 0);
    }

    /// Is it known to the server in any way?
    pub(super) fn knows(&self, owner: usize) -> bool {
        self.lock == Lock::Owner(owner) || self.holders[owner] > 0 || self.queue.has(owner)
    }

    pub(super) fn holds(&self, owner: usize) -> bool {
        match self.lock {
            Lock::Free => false,
            Lock::Owner(holder) => holder == owner,
            Lock::Readers | Lock::Permits => self.holders[owner] > 0,
        }
    }

    fn tick(&mut self) {
        for owner in 0..A {
            let held = self.holders[owner];
            self.holders[owner] = held.saturating_sub(1);
            self.lost[owner] |= held == 1;
        }
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            if let Lock::Owner(owner) = self.lock {
                self.lost[owner] = true;
            }
            self.free();
        }
    }
}

impl<const A: usize> State<A> {
    pub(super) fn new(crashes: u8, wipes: u8) -> Self {
        let server = Server {
            lock: Lock::Free,
            left: 0,
            holders: [0; A],
            lost: [false; A],
            queue: Few::EMPTY,
        };
        let owners = [Owner::IDLE; A];
        Self { server, owners, crashes, wipes, has_passed: false, has_revived: false }
    }

    pub(super) fn tick(&mut self) {
        self.server.tick();
        for owner in &mut self.owners {
            let was_under_way = owner.next > 0;
            owner.left = owner.left.saturating_sub(1);
            owner.next = owner.next.saturating_sub(1);
            let is_unanswered = was_under_way && owner.next == 0;
            match owner.phase {
                Phase::Asking | Phase::Holding if owner.left == 0 => owner.end(),
                // Whether it is a reader is not known: it lets go of both.
                Phase::Holding if is_unanswered && owner.sent.has(Command::Downgrade) => {
                    owner.end();
                }
                _ => {}
            }
        }
    }

    /// The same state, whatever owners of the same kind are called.
    pub(super) fn sorted(mut self, kinds: &[Kind; A]) -> Self {
        let mut order: [usize; A] = std::array::from_fn(|owner| owner);
        order.sort_by_key(|&owner| {
            let Server { lock, holders, lost, queue, .. } = &self.server;
            let place = queue.iter().position(|other| other == owner);
            let here = (*lock == Lock::Owner(owner), holders[owner], lost[owner], place);
            (kinds[owner], self.owners[owner], here)
        });
        if !order.is_sorted() {
            let mut names = [0; A];
            order.iter().enumerate().for_each(|(new, &old)| names[old] = new);
            let Server { lock, holders, lost, queue, .. } = &mut self.server;
            *holders = order.map(|old| holders[old]);
            *lost = order.map(|old| lost[old]);
            queue.iter_mut().for_each(|owner| *owner = names[*owner]);
            if let Lock::Owner(owner) = lock {
                *owner = names[*owner];
            }
            self.owners = order.map(|old| self.owners[old]);
        }
        self
    }
}
