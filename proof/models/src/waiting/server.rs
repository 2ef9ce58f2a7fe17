//! The scripts of the server, each in one step, as in the file that is named.

use super::state::{Asked, Command, Gone, Owner, Phase, Poller, Reply, Slot, State};
use super::{Bug, Waiting};

impl<const P: usize, const C: usize> Waiting<P, C> {
    /// A command of this process lands, and its reply is there.
    pub(super) fn land(&self, state: &mut State<P, C>, at: usize, command: Command) {
        state.processes[at].commands.remove_first(command);
        let owner = |slot| Owner { process: at.try_into().unwrap_or(u8::MAX), slot };
        let reply = match command {
            Command::Acquire { slot } => Self::acquire(state, owner(slot)),
            Command::Join { slot } => Self::join(state, owner(slot)),
            Command::Look { slot } => Self::look(state, owner(slot)),
            Command::Rotate { slot, next } => Self::rotate(state, owner(slot), owner(next)),
            Command::Verify { slot } if state.server.key == Some(owner(slot)) => Reply::Granted,
            Command::Verify { .. } => Reply::Unknown,
            Command::Leave { slot } => {
                state.server.line.remove_first(owner(slot));
                return Self::release(state, owner(slot));
            }
            Command::Release { slot } => {
                Self::release(state, owner(slot));
                if self.is_untold(at) {
                    // `ReleaseUnderWay::drop`: where no server tells of a release, its end is news.
                    state.processes[at].is_freed = true;
                    state.processes[at].notify();
                }
                return;
            }
        };
        Self::answer(state, at, command, reply);
    }

    fn answer(state: &mut State<P, C>, at: usize, command: Command, answer: Reply) {
        let this = &mut state.processes[at];
        if let Poller::Asked(asked, reply) = &mut this.poller
            && asked.is(command)
        {
            *reply = Some(answer);
            return;
        }
        for caller in &mut this.callers {
            if let Phase::Asking { slot, reply, .. } = &mut caller.phase
                && command == (Command::Acquire { slot: *slot })
            {
                *reply = Some(answer == Reply::Granted);
            }
        }
    }

    fn set(state: &mut State<P, C>, owner: Owner) -> Reply {
        (state.server.key, state.server.gone) = (Some(owner), Gone::Not);
        Reply::Granted
    }

    /// `acquire.lua`.
    fn acquire(state: &mut State<P, C>, owner: Owner) -> Reply {
        if state.server.key.is_none() { Self::set(state, owner) } else { Reply::Refused }
    }

    /// `enqueue.lua`.
    fn join(state: &mut State<P, C>, owner: Owner) -> Reply {
        if state.server.key.is_none() {
            Self::hand_over(state, owner.process);
        }
        if state.server.key.is_none() {
            return Self::set(state, owner);
        }
        state.server.line.must_push(owner);
        Reply::InLine
    }

    /// `enqueue.lua` of an entry: a lock that is free is granted, whoever stands before it.
    fn look(state: &mut State<P, C>, owner: Owner) -> Reply {
        if state.server.key == Some(owner) {
            return Reply::Granted;
        }
        if !state.server.line.iter().any(|entry| entry == owner) {
            return Reply::Unknown;
        }
        if state.server.key.is_some() {
            return Reply::InLine;
        }
        state.server.line.remove_first(owner);
        Self::set(state, owner)
    }

    /// `release.lua`.
    fn release(state: &mut State<P, C>, owner: Owner) {
        if state.server.key == Some(owner) {
            Self::hand_over(state, owner.process);
        }
    }

    /// `rotate.lua`.
    fn rotate(state: &mut State<P, C>, owner: Owner, next: Owner) -> Reply {
        if state.server.key != Some(owner) {
            return Reply::Unknown;
        }
        if state.server.line.is_empty() {
            return Self::set(state, next);
        }
        Self::hand_over(state, owner.process);
        state.server.line.must_push(next);
        Reply::InLine
    }

    /// `hand_over.lua`: the first in line has the lock, and is told.
    fn hand_over(state: &mut State<P, C>, by: u8) {
        let Some(next) = state.server.line.pop() else {
            let is_lost = state.server.gone == Gone::Lost;
            state.server.gone = if is_lost { Gone::Lost } else { Gone::Released(by) };
            state.server.key = None;
            return;
        };
        Self::set(state, next);
        let process = &mut state.processes[next.at()];
        if process.listens(next.slot) {
            process.told = Some(next.slot);
        }
    }

    /// The key of this acquisition goes, and the server tells no process.
    pub(super) fn lose_key(state: &mut State<P, C>) {
        state.losses -= 1;
        (state.server.key, state.server.gone) = (None, Gone::Lost);
    }

    /// The lease of a holder is lost, and its process knows.
    pub(super) fn lose_lease(&self, state: &mut State<P, C>, at: usize, lost: Slot) {
        Self::lose_key(state);
        self.learn_loss(state, at, lost);
    }

    pub(super) fn learn_loss(&self, state: &mut State<P, C>, at: usize, lost: Slot) {
        let this = &mut state.processes[at];
        for caller in &mut this.callers {
            match &mut caller.phase {
                Phase::Holding { slot, is_over } if *slot == lost => *is_over = true,
                // Its caller is told so, and asks again.
                Phase::Granted { slot } if *slot == lost => caller.phase = Phase::Away,
                _ => {}
            }
        }
        this.holder = None;
        if self.bug != Bug::LossUnheard {
            this.notify();
        }
    }
}

impl Asked {
    fn is(self, command: Command) -> bool {
        match (self, command) {
            (
                Self::Lock(slot),
                Command::Acquire { slot: other } | Command::Join { slot: other },
            )
            | (Self::Look(slot), Command::Look { slot: other })
            | (Self::Rotate(slot), Command::Rotate { next: other, .. })
            | (Self::Verify(slot), Command::Verify { slot: other }) => slot == other,
            _ => false,
        }
    }
}
