//! The scripts, each in one step, as in the file that is named.

use super::state::{Kind, Lock, Phase, Server, State};
use super::{Bug, Sharing};

/// What a script answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reply {
    Granted,
    InQueue,
    Refused,
    /// The lease, or the entry in the queue, is gone.
    Gone,
}

impl<const A: usize> Sharing<A> {
    /// What stands in the lock for an owner.
    fn marker(&self, owner: usize) -> Lock {
        match self.kinds[owner] {
            // A writer that has become one.
            Kind::Write | Kind::Read => Lock::Readers,
            Kind::Permit(_) => Lock::Permits,
        }
    }

    fn is_reader(&self, owner: usize) -> bool {
        self.kinds[owner] == Kind::Read
    }

    /// Does the owner hold the lock that it first asked for? A writer that has become a reader does
    /// not: that one has another owner value.
    fn has(&self, server: &Server<A>, owner: usize) -> bool {
        match self.kinds[owner] {
            Kind::Write => server.lock == Lock::Owner(owner),
            Kind::Read | Kind::Permit(_) => server.holds(owner),
        }
    }

    /// `holders.lua`, `group.has_room`.
    fn has_room_beside(&self, server: &Server<A>, owner: usize) -> bool {
        let Kind::Permit(permits) = self.kinds[owner] else { return true };
        let held = match self.bug {
            // Nobody counts those whose lease is over out, while a marker stands.
            Bug::CrashKeepsPermit => {
                (0..A).filter(|&other| server.holders[other] > 0 || server.lost[other]).count()
            }
            _ => server.holders.iter().filter(|left| **left > 0).count(),
        };
        let permits = usize::from(permits) + usize::from(self.bug == Bug::OneTooMany);
        held < permits
    }

    /// `holders.lua`, `group.enter`.
    fn enter(&self, server: &mut Server<A>, owner: usize, lease: u8) {
        let marker = self.marker(owner);
        let mut left = server.left;
        if server.lock != marker {
            left = 0;
            if self.bug != Bug::OldReaderStays {
                server.holders = [0; A];
            }
        }
        server.holders[owner] = lease;
        server.lost[owner] = false;
        let is_cut = self.bug == Bug::MarkerMovesInwards;
        (server.lock, server.left) = (marker, if is_cut { lease } else { left.max(lease) });
    }

    fn take(server: &mut Server<A>, owner: usize, lease: u8) {
        (server.lock, server.left) = (Lock::Owner(owner), lease);
        server.lost[owner] = false;
    }

    fn grant(&self, server: &mut Server<A>, owner: usize, lease: u8) {
        match self.kinds[owner] {
            Kind::Write => Self::take(server, owner, lease),
            Kind::Read | Kind::Permit(_) => self.enter(server, owner, lease),
        }
    }

    /// `holders.lua`, `group.let_in`. A process that is gone does not hear of it.
    fn give(&self, state: &mut State<A>, owner: usize) -> bool {
        self.grant(&mut state.server, owner, self.window);
        let is_heard = state.owners[owner].is_live();
        state.owners[owner].is_told |= is_heard && state.owners[owner].phase == Phase::Waiting;
        if !is_heard {
            state.server.holders[owner] = 0;
        }
        state.server.queue.remove(owner);
        is_heard
    }

    /// `holders.lua`, `group.admit`.
    fn admit(&self, state: &mut State<A>) {
        while let Some(first) = state.server.queue.first() {
            let is_like = self.kinds[first] != Kind::Write
                && self.marker(first) == state.server.lock
                && self.has_room_beside(&state.server, first);
            if !is_like {
                return;
            }
            self.give(state, first);
        }
    }

    /// `hand_over.lua`, `queue.hand_over`. False: nobody was there to have it.
    fn hand_over(&self, state: &mut State<A>) -> bool {
        while let Some(first) = state.server.queue.first() {
            if self.give(state, first) {
                if self.kinds[first] != Kind::Write {
                    self.admit(state);
                }
                return true;
            }
        }
        state.server.free();
        false
    }

    /// `shared/join.lua`, `may_enter`; for a writer `enqueue.lua`. An owner without an entry comes.
    fn may_enter(&self, state: &mut State<A>, owner: usize) -> bool {
        let mut first = state.server.queue;
        if state.server.lock == Lock::Free && first.first().is_some() && !self.hand_over(state) {
            first = state.server.queue;
        }
        if self.kinds[owner] == Kind::Write {
            return state.server.lock == Lock::Free;
        }
        let both_read = |other| self.is_reader(owner) && self.is_reader(other);
        let is_kept_out = first.iter().any(|other| !both_read(other));
        (!is_kept_out || self.bug == Bug::ReaderPasses) && self.has_room(&state.server, owner)
    }

    /// `shared/join.lua`, `has_room`.
    fn has_room(&self, server: &Server<A>, owner: usize) -> bool {
        let is_like = server.lock == self.marker(owner) && self.has_room_beside(server, owner);
        server.lock == Lock::Free || is_like
    }

    /// `enqueue.lua` and `shared/enqueue.lua`, of an owner that comes.
    pub(super) fn enqueue(&self, state: &mut State<A>, owner: usize) -> Reply {
        let before = state.server.queue;
        if !self.may_enter(state, owner) {
            state.server.queue.push(owner);
            return Reply::InQueue;
        }
        let waits = |other: usize| {
            self.kinds[other] == Kind::Write && state.owners[other].phase == Phase::Waiting
        };
        state.has_passed |= self.is_reader(owner) && before.iter().any(waits);
        self.grant(&mut state.server, owner, self.expire);
        Reply::Granted
    }

    /// The same, of an owner that looks.
    pub(super) fn look(&self, state: &mut State<A>, owner: usize) -> Reply {
        let (is_in, is_held) = (state.server.queue.has(owner), self.has(&state.server, owner));
        if !is_in && !is_held {
            return Reply::Gone;
        }
        let is_writer = self.kinds[owner] == Kind::Write;
        if !is_writer && !is_held && self.has_room(&state.server, owner) {
            // `drop_dead`: those ahead that nobody hears. Others keep it where it is.
            let ahead = state.server.queue;
            for other in ahead.iter().take_while(|other| *other != owner) {
                if !state.owners[other].is_live() {
                    state.server.queue.remove(other);
                }
            }
        }
        let is_first = state.server.queue.first() == Some(owner);
        let enters = !is_writer && is_first && self.has_room(&state.server, owner);
        if is_held || state.server.lock == Lock::Free || enters {
            self.grant(&mut state.server, owner, self.expire);
            state.server.queue.remove(owner);
            if !is_writer {
                self.admit(state);
            }
            return Reply::Granted;
        }
        Reply::InQueue
    }

    /// `acquire.lua` and `shared/acquire.lua`: what was handed over becomes a whole lease.
    pub(super) fn claim(&self, state: &mut State<A>, owner: usize) -> Reply {
        let is_free = match self.kinds[owner] {
            Kind::Write => state.server.lock == Lock::Free,
            Kind::Read | Kind::Permit(_) => {
                !self.has(&state.server, owner) && self.may_enter(state, owner)
            }
        };
        if !is_free && !self.has(&state.server, owner) {
            return Reply::Refused;
        }
        self.grant(&mut state.server, owner, self.expire);
        Reply::Granted
    }

    /// `renew.lua` and `shared/renew.lua`.
    pub(super) fn renew(&self, state: &mut State<A>, owner: usize) -> Reply {
        let server = &mut state.server;
        if !server.holds(owner) {
            return Reply::Gone;
        }
        if server.lock != Lock::Owner(owner) {
            server.holders[owner] = self.expire;
        }
        let is_unmoved = self.bug == Bug::MarkerNotRenewed && server.lock != Lock::Owner(owner);
        server.left = if is_unmoved { server.left } else { server.left.max(self.expire) };
        Reply::Granted
    }

    /// `release.lua` and `shared/release.lua`, with `leave`: of a writer and of a reader that it
    /// may have become.
    pub(super) fn release(&self, state: &mut State<A>, owner: usize) {
        state.server.queue.remove(owner);
        let server = &mut state.server;
        if !server.holds(owner) {
            return;
        }
        if server.lock == Lock::Owner(owner) {
            server.free();
            self.hand_over(state);
            return;
        }
        server.holders[owner] = 0;
        let last = server.holders.iter().copied().max().unwrap_or(0);
        if last == 0 || self.bug == Bug::FirstFrees {
            server.free();
            server.holders = [0; A];
            self.hand_over(state);
        } else {
            server.left = server.left.min(last);
            self.admit(state);
        }
    }

    /// `shared/downgrade.lua`.
    pub(super) fn downgrade(&self, state: &mut State<A>, owner: usize) -> Reply {
        let is_reader = state.server.lock == Lock::Readers && state.server.holds(owner);
        if !is_reader && state.server.lock != Lock::Owner(owner) {
            return Reply::Gone;
        }
        self.enter(&mut state.server, owner, self.expire);
        self.admit(state);
        Reply::Granted
    }
}
