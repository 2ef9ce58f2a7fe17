//! The scripts, each in one step, as in the file that is named.

use super::messages::{Call, Command, Drawn, Reply};
use super::state::{DRIFT, Owner, RESERVE, State, process_of};
use super::{Bug, Line};

impl<const P: usize> Line<P> {
    /// A command of this process lands. Returns its reply.
    pub(super) fn land(&self, state: &mut State<P>, by: usize, command: Command) -> Reply {
        match command {
            Command::Join { owner } => self.join(state, owner, false),
            Command::Look { owner } => self.join(state, owner, true),
            Command::Claim { owner } => self.acquire(state, owner),
            Command::Renew { owner } => self.renew(state, owner),
            Command::Release { owner, drawn } => self.release(state, by, owner, Some(drawn)),
            Command::Leave { owner } => {
                if self.bug != Bug::LeaveStaysInLine {
                    state.line.remove(owner);
                }
                if self.bug == Bug::LeaveKeepsLock {
                    return Reply::Gone;
                }
                self.release(state, by, owner, None)
            }
            Command::Rotate { owner, drawn, next } => self.rotate(state, by, (owner, next), drawn),
            Command::GiveBack { owner, used } => {
                if state.lock.owner == Some(owner) {
                    state.lock.counter = used;
                }
                Reply::Gone
            }
        }
    }

    /// `enqueue.lua`.
    fn join(&self, state: &mut State<P>, owner: Owner, is_look: bool) -> Reply {
        if state.lock.owner == Some(owner) {
            self.set(state, owner);
            let last = state.lock.counter;
            return Reply::Granted { first: last, last };
        }
        let is_in_line = state.line.has(owner);
        if is_look && !is_in_line {
            return Reply::Gone;
        }
        // Whoever looks and finds the lock free has it, wherever it stands.
        if is_look && state.lock.owner.is_none() {
            state.line.remove(owner);
            let (first, last) = self.take(state, owner);
            return Reply::Granted { first, last };
        }
        while state.lock.owner.is_none() {
            let first = state.line.first();
            if first.is_none_or(|first| first == owner) {
                state.line.remove(owner);
                let (first, last) = self.take(state, owner);
                return Reply::Granted { first, last };
            }
            self.hand_over_first(state, process_of(owner));
        }
        if !is_in_line {
            state.enter(owner);
        }
        Reply::InLine
    }

    /// `acquire.lua`.
    fn acquire(&self, state: &mut State<P>, owner: Owner) -> Reply {
        match state.lock.owner {
            Some(holder) if holder != owner => Reply::Gone,
            Some(_) => {
                self.set(state, owner);
                let last = state.lock.counter;
                Reply::Granted { first: last, last }
            }
            None => {
                let (first, last) = self.take(state, owner);
                Reply::Granted { first, last }
            }
        }
    }

    /// `renew.lua`.
    fn renew(&self, state: &mut State<P>, owner: Owner) -> Reply {
        if state.lock.owner != Some(owner) {
            return Reply::Gone;
        }
        self.set(state, owner);
        Reply::Renewed
    }

    /// `release.lua`.
    fn release(
        &self,
        state: &mut State<P>,
        by: usize,
        owner: Owner,
        drawn: Option<Drawn>,
    ) -> Reply {
        if state.lock.owner == Some(owner) {
            state.lock.counter = Self::last_used(state, drawn);
            state.lock.owner = None;
            state.lock.left = 0;
            state.lock.watcher = None;
            self.hand_over(state, by);
        }
        Reply::Gone
    }

    /// `rotate.lua`.
    fn rotate(
        &self,
        state: &mut State<P>,
        by: usize,
        (owner, next): (Owner, Owner),
        drawn: Drawn,
    ) -> Reply {
        if state.lock.owner != Some(owner) {
            return Reply::Gone;
        }
        let used = Self::last_used(state, Some(drawn));
        state.lock.counter = used;
        self.hand_over(state, by);
        if state.lock.owner != Some(owner) {
            state.enter(next);
            return Reply::InLine;
        }
        self.set(state, owner);
        let first = used + 1;
        let last = used + RESERVE;
        if self.bug != Bug::Unreserved {
            state.lock.counter = last;
        }
        Reply::Granted { first, last }
    }

    /// `last_used` in `hand_over.lua`: what is left of a reserve is given back, unless somebody has
    /// drawn since.
    fn last_used(state: &State<P>, drawn: Option<Drawn>) -> i8 {
        let counter = state.lock.counter;
        let Some(Drawn { used, reserved }) = drawn else { return counter };
        if reserved == counter { used } else { used.max(counter) }
    }

    /// `nudge.lua`.
    pub(super) fn nudge(&self, state: &mut State<P>, by: usize) {
        if state.lock.owner.is_none() {
            self.hand_over(state, by);
        }
    }

    /// `hand_over.lua`: to the first in line whose process is there, if any.
    fn hand_over(&self, state: &mut State<P>, by: usize) {
        while !state.line.is_empty() {
            if self.hand_over_first(state, by) {
                return;
            }
        }
    }

    fn hand_over_first(&self, state: &mut State<P>, by: usize) -> bool {
        let Some(owner) = state.line.first() else { return false };
        state.line.remove(owner);
        let process = process_of(owner);
        let can_be_told = !self.is_untold(process);
        if can_be_told && !state.processes[process].listens {
            return false;
        }
        let (first, last) = self.take(state, owner);
        if self.bug != Bug::NoWindow {
            state.lock.left = self.window + DRIFT;
        }
        state.lock.watcher = u8::try_from(by).ok().filter(|_| self.is_fair);
        if can_be_told {
            state.processes[process].calls.insert(Call { owner, first, last });
        }
        true
    }

    /// A fresh tenure with a full lease. Returns its fencing tokens.
    fn take(&self, state: &mut State<P>, owner: Owner) -> (i8, i8) {
        self.set(state, owner);
        let first = state.lock.counter + 1;
        let last = first + RESERVE - 1;
        state.lock.counter = if self.bug == Bug::Unreserved { first } else { last };
        (first, last)
    }

    /// A full lease.
    fn set(&self, state: &mut State<P>, owner: Owner) {
        state.lock.owner = Some(owner);
        state.lock.left = self.expire + DRIFT;
        state.lock.watcher = None;
    }
}
