//! What a process does: the poller of its waiters, and its holds. Between any two steps it may be
//! frozen for as long as it likes.

use super::messages::{Call, Command, Drawn, Reply};
use super::state::{DRIFT, OWNERS, Owner, Phase, Process, State};
use super::{Bug, Line};

impl<const P: usize> Line<P> {
    /// How long a lease may be relied on whose command left `age` ago.
    fn rest(lease: u8, age: u8) -> u8 {
        (lease - DRIFT).saturating_sub(age)
    }

    pub(super) fn may_ask(&self, process: usize, this: &Process) -> bool {
        this.phase == Phase::Idle
            && this.waiting > 0
            && (this.listens || self.is_untold(process))
            && !this.is_dead
    }

    fn fresh_owner(state: &mut State<P>, process: usize) -> Owner {
        state.owners = state.owners.saturating_sub(1);
        let this = &mut state.processes[process];
        let owner = u8::try_from(process).unwrap_or(u8::MAX) * OWNERS + this.owners;
        this.owners += 1;
        owner
    }

    /// Joins the line.
    pub(super) fn ask(state: &mut State<P>, process: usize) {
        let owner = Self::fresh_owner(state, process);
        let this = &mut state.processes[process];
        this.phase = Phase::InLine { owner, since: 0, asked: Some(0), joined: false };
        this.is_disturbed = false;
        this.commands.insert(Command::Join { owner });
    }

    pub(super) fn look(this: &mut Process) {
        if let Phase::InLine { owner, asked, .. } = &mut this.phase {
            *asked = Some(0);
            this.is_disturbed = false;
            this.commands.insert(Command::Look { owner: *owner });
        }
    }

    /// A caller's time is up: the ticket leaves the line. Who waits still begins anew.
    pub(super) fn give_up(this: &mut Process) {
        if let Phase::InLine { owner, .. } = this.phase {
            this.waiting -= 1;
            Self::leave(this, owner);
        }
    }

    fn leave(this: &mut Process, owner: Owner) {
        this.commands.insert(Command::Leave { owner });
        (this.phase, this.reply) = (Phase::Idle, None);
    }

    /// A body begins, with the first of these fencing tokens.
    fn begin(state: &mut State<P>, process: usize, hold: (Owner, u8), (first, last): (i8, i8)) {
        let this = &mut state.processes[process];
        let (owner, left) = hold;
        this.reply = None;
        if left == 0 {
            Self::leave(this, owner);
            return;
        }
        this.waiting -= 1;
        this.phase = Phase::Holding { owner, next: first + 1, last, left, renewing: None };
        state.begin(first);
    }

    /// The oldest call is read: `claims` says whether the lock is claimed before a body begins.
    pub(super) fn hear(&self, state: &mut State<P>, process: usize, call: Call, claims: bool) {
        let this = &mut state.processes[process];
        this.calls.remove(call);
        let Some(since) = Self::called_since(this, call.owner) else {
            let is_unknown = match self.bug {
                Bug::LateCallReleases => !this.is_in_line(call.owner),
                _ => !this.knows(call.owner),
            };
            if is_unknown {
                this.commands.insert(Command::Leave { owner: call.owner });
            }
            return;
        };
        if claims {
            (this.phase, this.reply) = (Phase::Claiming { owner: call.owner, sent: 0, call }, None);
            this.commands.insert(Command::Claim { owner: call.owner });
            return;
        }
        let left = self.called_rest(since);
        Self::begin(state, process, (call.owner, left), (call.first, call.last));
    }

    /// How long a lease may be relied on that a call has brought.
    pub(super) fn called_rest(&self, since: u8) -> u8 {
        match self.bug {
            Bug::LeaseFromReceipt => Self::rest(self.window, 0),
            Bug::ShortLeaseIsFull => Self::rest(self.expire, since),
            _ => Self::rest(self.window, since),
        }
    }

    /// The hand-over to this owner was so long ago at most, if a ticket waits for it.
    pub(super) fn called_since(this: &Process, called: Owner) -> Option<u8> {
        match this.phase {
            Phase::InLine { owner, since, .. } if owner == called => Some(since),
            Phase::Rotating { next, sent, .. } if next == called => Some(sent),
            _ => None,
        }
    }

    /// A reply is read.
    pub(super) fn read(&self, state: &mut State<P>, process: usize) {
        let this = &mut state.processes[process];
        let Some(reply) = this.reply.take() else { return };
        match (this.phase, reply) {
            (Phase::InLine { owner, asked, .. }, Reply::Granted { first, last }) => {
                let left = Self::rest(self.expire, asked.unwrap_or(u8::MAX));
                Self::begin(state, process, (owner, left), (first, last));
            }
            (Phase::InLine { owner, asked, since, .. }, Reply::InLine) => {
                let since = asked.unwrap_or(since);
                this.phase = Phase::InLine { owner, since, asked: None, joined: true };
            }
            (Phase::Claiming { owner, sent, call }, Reply::Granted { last, .. }) => {
                let is_intact = last == call.last || self.bug == Bug::RangeOfLateCall;
                let range = if is_intact { (call.first, call.last) } else { (last, last) };
                Self::begin(state, process, (owner, Self::rest(self.expire, sent)), range);
            }
            (Phase::Rotating { owner, sent, .. }, Reply::Granted { first, last }) => {
                let left = Self::rest(self.expire, sent);
                Self::begin(state, process, (owner, left), (first, last));
            }
            (Phase::Rotating { next, sent, .. }, Reply::InLine) => {
                this.phase = Phase::InLine { owner: next, since: sent, asked: None, joined: true };
            }
            (Phase::Holding { owner, next, last, left, renewing }, Reply::Renewed) => {
                let renewed = Self::rest(self.expire, renewing.unwrap_or(u8::MAX));
                let left = if left > 0 { left.max(renewed) } else { 0 };
                this.phase = Phase::Holding { owner, next, last, left, renewing: None };
            }
            (Phase::Holding { owner, next, last, .. }, Reply::Gone) => {
                this.phase = Phase::Holding { owner, next, last, left: 0, renewing: None };
            }
            // Somebody else has the lock, or the line was lost: asked again as a fresh owner.
            _ => this.phase = Phase::Idle,
        }
    }

    /// No reply has come in time: whatever the command did is undone.
    pub(super) fn doubt(&self, this: &mut Process) {
        match &mut this.phase {
            Phase::InLine { owner, since, joined: false, asked } if self.bug == Bug::JoinAgain => {
                (*since, *asked) = (0, Some(0));
                this.commands.insert(Command::Join { owner: *owner });
            }
            Phase::InLine { asked, joined: true, .. } => {
                *asked = None;
                this.is_disturbed = self.is_fair;
            }
            Phase::InLine { owner, .. } | Phase::Claiming { owner, .. } => {
                let owner = *owner;
                Self::leave(this, owner);
            }
            Phase::Rotating { sent, .. } if self.bug == Bug::RotateAgain => *sent = 0,
            Phase::Rotating { owner, drawn, next, .. } => {
                let (owner, drawn, next) = (*owner, *drawn, *next);
                this.commands.insert(Command::Release { owner, drawn });
                Self::leave(this, next);
            }
            Phase::Holding { renewing, .. } => *renewing = None,
            Phase::Idle => {}
        }
    }

    /// The body has ended, and the next one of this process begins.
    pub(super) fn pass(&self, state: &mut State<P>, process: usize) {
        let this = &mut state.processes[process];
        let Phase::Holding { owner, next, .. } = &mut this.phase else { return };
        let fence = *next;
        *next += 1;
        if self.bug == Bug::GiveBackOnPass {
            this.commands.insert(Command::GiveBack { owner: *owner, used: fence - 1 });
        }
        this.waiting -= 1;
        state.begin(fence);
    }

    pub(super) fn may_pass(&self, this: &Process) -> bool {
        let Phase::Holding { next, last, left, .. } = this.phase else { return false };
        this.waiting > 0 && next <= last && (left > 0 || self.bug == Bug::PassLost)
    }

    /// The body has ended; the lock goes to the next process, or stays here.
    pub(super) fn move_on(state: &mut State<P>, process: usize) {
        let Phase::Holding { owner, next, last, .. } = state.processes[process].phase else {
            return;
        };
        let drawn = Drawn { used: next - 1, reserved: last };
        let next = Self::fresh_owner(state, process);
        let this = &mut state.processes[process];
        this.commands.insert(Command::Rotate { owner, drawn, next });
        (this.phase, this.reply) = (Phase::Rotating { owner, drawn, next, sent: 0 }, None);
    }

    /// The body has ended, or was stopped.
    pub(super) fn let_go(state: &mut State<P>, process: usize) {
        let this = &mut state.processes[process];
        let Phase::Holding { owner, next, last, .. } = this.phase else { return };
        let drawn = Drawn { used: next - 1, reserved: last };
        this.commands.insert(Command::Release { owner, drawn });
        (this.phase, this.reply) = (Phase::Idle, None);
    }

    pub(super) fn extend(this: &mut Process) {
        if let Phase::Holding { owner, renewing, .. } = &mut this.phase {
            *renewing = Some(0);
            this.commands.insert(Command::Renew { owner: *owner });
        }
    }

    pub(super) fn die(this: &mut Process) {
        let commands = this.commands;
        *this = Process { commands, is_dead: true, listens: this.listens, ..Process::new(0) };
    }
}
