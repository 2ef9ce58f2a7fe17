//! What there is: the task, its hold, the scheduler, the commands on their way, the server.

use super::Action;

/// What a lease lasts on the server, in ticks; the server's clock may be wrong by `DRIFT` in it.
pub(super) const EXPIRE: u8 = 8;
pub(super) const DRIFT: u8 = 1;
/// What a lease may be relied on, from before its command left (`validity::deadline`).
pub(super) const VALIDITY: u8 = EXPIRE - DRIFT;
/// The body is stopped so long before the deadline (`validity::stop`).
pub(super) const MARGIN: u8 = 1;
/// A renewal is due so long before the deadline: half of the lease (`validity::renewal_due`).
pub(super) const DUE: u8 = VALIDITY - EXPIRE / 2;
/// The pause before a renewal is tried again (`retry_at` in `hold/scheduler.rs`).
pub(super) const PAUSE: u8 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each is one fact")]
pub(crate) struct State {
    pub(super) task: Task,
    pub(super) hold: Hold,
    /// When the scheduler looks at the lease; `None`: it does not know it, or not any more.
    pub(super) look: Option<u8>,
    pub(super) renewal: Renewal,
    /// A renewal has left, and may land.
    pub(super) may_renew: bool,
    pub(super) release: Release,
    pub(super) key: Key,
    /// How long the key lives at most; it may go `2 * DRIFT` earlier.
    pub(super) key_left: u8,
    /// Somebody deleted the key by hand.
    pub(super) is_robbed: bool,
    /// The acquire was granted, and no answer has been read.
    pub(super) is_granted: bool,
    /// The scheduler has still to be told (only with the bug).
    pub(super) registers_later: bool,
    pub(super) history: History,
}

/// `hold/record.rs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Hold {
    /// Until the deadline.
    pub(super) left: u8,
    /// Until the longest hold is over (`validity::longest_hold`).
    pub(super) longest_left: u8,
    /// The body is stopped then.
    pub(super) is_bounded: bool,
    pub(super) renewals: u8,
    pub(super) ended: bool,
}

/// What has happened, for the properties.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is one fact")]
pub(super) struct History {
    pub(super) is_over: bool,
    pub(super) stepped_late: bool,
    pub(super) stepped_without: bool,
    pub(super) stepped_too_old: bool,
    pub(super) sent_beyond_limit: bool,
    pub(super) began_after_release: bool,
    pub(super) extended_a_stranger: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Task {
    Asking,
    /// The body runs.
    Running,
    /// `Watch::step` has looked at the clock (only with the bug).
    Polling,
    /// So many steps of the release are done.
    LettingGo(u8),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Renewal {
    None,
    /// Collected as due; its task has not run.
    Begun,
    /// Sent; would last `left` until the deadline.
    Sent {
        left: u8,
        answer: Option<Key>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Release {
    None,
    Sent,
    Answered,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Key {
    Free,
    Ours,
    Others,
}

impl Hold {
    pub(super) fn is_due_to_stop(&self) -> bool {
        self.until_stop() == 0
    }

    pub(super) fn until_stop(&self) -> u8 {
        let left = self.left.saturating_sub(MARGIN);
        if self.is_bounded { left.min(self.longest_left) } else { left }
    }
}

impl State {
    pub(super) fn set_key(&mut self, key: Key) {
        self.key = key;
        self.key_left = if key == Key::Free { 0 } else { EXPIRE + DRIFT };
    }

    pub(super) fn tick(&mut self) {
        self.hold.left = self.hold.left.saturating_sub(1);
        self.hold.longest_left = self.hold.longest_left.saturating_sub(1);
        self.look = self.look.map(|look| look.saturating_sub(1));
        if let Renewal::Sent { left, .. } = &mut self.renewal {
            *left = left.saturating_sub(1);
        }
        self.key_left = self.key_left.saturating_sub(1);
        if self.key_left == 0 {
            self.key = Key::Free;
        }
    }

    pub(super) fn process_actions(&self, actions: &mut Vec<Action>) {
        match self.task {
            Task::Asking if self.is_granted => actions.push(Action::Take),
            Task::Running => actions.extend([Action::Poll, Action::Finish, Action::Ask]),
            Task::Polling => actions.push(Action::Step),
            Task::LettingGo(done) if done < 3 => actions.push(Action::LetGo),
            Task::Asking | Task::LettingGo(_) => {}
        }
        if self.registers_later {
            actions.push(Action::Register);
        }
        if self.look.is_some() {
            actions.push(Action::Die);
        }
        if self.look == Some(0) {
            actions.push(Action::Look);
        }
        match self.renewal {
            Renewal::None => {}
            Renewal::Begun => actions.push(Action::Send),
            Renewal::Sent { answer: Some(_), .. } => {
                actions.extend([Action::Settle, Action::Doubt]);
            }
            Renewal::Sent { answer: None, .. } => actions.push(Action::Doubt),
        }
    }

    pub(super) fn server_actions(&self, actions: &mut Vec<Action>) {
        if self.task == Task::Asking && !self.is_granted && self.key == Key::Free {
            actions.push(Action::Grant);
        }
        if self.may_renew {
            actions.push(Action::Renew { heard: false });
            if matches!(self.renewal, Renewal::Sent { answer: None, .. }) {
                actions.push(Action::Renew { heard: true });
            }
        }
        if self.release == Release::Sent {
            actions.extend([false, true].map(|heard| Action::Release { heard }));
        }
        if self.key == Key::Free {
            actions.push(Action::Steal);
        } else if self.key_left <= 2 * DRIFT {
            actions.push(Action::Expire);
        }
        if self.key == Key::Ours {
            actions.push(Action::Rob);
        }
    }
}
