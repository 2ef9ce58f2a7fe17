//! Looks after the command and its lease until both have ended.

use std::io;
use std::time::Duration;

use redlock::__operator::is_claimed;
use redlock::{LeaseState, LockGuard};
use rustix::process::Signal;

use super::deadline::{Condition, Deadline, Verdict};
use super::descendants::Descendants;
use super::group::{Change, Exit, Group};
use super::messages::Messages;
use super::moment::Moment;
use super::terminal::Terminal;
use super::watchdog::Watchdog;
use crate::duration::show;
use crate::ending::End;
use crate::output::PATIENCE;
use crate::signals::{Signals, is_ending};

mod stopped;

/// How often it is asked whether processes that the command left behind have ended.
const POLL: Duration = Duration::from_millis(10);
/// The same, of all processes below this one: to look at these takes longer.
const POLL_ALL: Duration = Duration::from_millis(50);
/// The lease of a lock that was handed over, until it is claimed.
const UNCLAIMED: Duration = Duration::from_secs(1);
/// How long a process that was killed may still exist.
const DYING: Duration = Duration::from_secs(1);

/// A command that is about to begin under a lock.
pub(super) struct Supervisor<'a> {
    pub(super) guard: &'a LockGuard,
    pub(super) max_renew: Option<u32>,
    pub(super) expire: Duration,
    pub(super) grace: Duration,
    pub(super) deadline: Deadline,
    pub(super) group: Group,
    pub(super) descendants: Descendants,
    pub(super) watchdog: Watchdog,
    pub(super) signals: &'a mut Signals,
    pub(super) terminal: Terminal,
    pub(super) phase: Phase,
}

/// How the end of the command has begun.
#[derive(Debug, Default)]
pub(super) struct Phase {
    /// The command was ended, since the lock was lost or could not be confirmed. This concerns all
    /// that has come from it, and not only its group.
    is_lost: bool,
    /// No process of the group is left.
    is_group_gone: bool,
    /// Once the command has ended by itself: did it before the lease could end?
    was_in_time: Option<bool>,
    /// When the group was killed first.
    killed: Option<Moment>,
    /// When what the command left behind is sent SIGTERM.
    rest: Option<Moment>,
    told: Told,
    /// How often the command has waited for a terminal that nothing could give it.
    waits_without_shell: usize,
    /// When this job went on the last time that the command had waited for the terminal.
    went_on: Option<Moment>,
    /// The signals that asked this process to end, and were passed on.
    asked_to_end: Vec<Signal>,
    /// The last of them, if it came after the end of the command.
    asked_after_end: Option<Signal>,
    messages: Messages,
}

/// What was said once.
#[derive(Debug, Default)]
struct Told {
    /// What the command left behind is sent SIGTERM.
    rest: bool,
    /// A process that was killed has not ended.
    dying: bool,
    /// The command was stopped.
    stop: bool,
}

/// How it ended.
#[derive(Debug)]
pub(super) struct Outcome {
    /// The end of this process that tells its caller of the command's.
    pub(super) end: End,
    /// The command was ended because of its lock.
    pub(super) is_lost: bool,
    /// A signal asked this process to end.
    pub(super) was_asked_to_end: bool,
}

impl Supervisor<'_> {
    /// Lets the command begin, and returns when no process of its group is left. After the loss of
    /// the lock, it returns when no process is left that has come from the command.
    pub(super) async fn supervise(mut self) -> io::Result<Outcome> {
        self.watchdog.guard(self.group.id());
        self.tell_deadline(self.deadline.until());
        self.begin();
        while !self.is_done() {
            let now = Moment::now();
            let next = self.deadline.next_look(now);
            let looks_at_all = self.phase.is_lost || self.phase.told.dying;
            let poll = if looks_at_all { POLL_ALL } else { POLL };
            let next = if self.group.exit().is_some() { next.min(now.plus(poll)) } else { next };
            let is_held = self.guard.state() != LeaseState::Lost;
            tokio::select! {
                biased;
                signal = self.signals.next() => self.received(signal),
                _ = self.guard.lost(), if is_held => {}
                () = next.sleep() => {}
            }
            self.look();
            while let Some(change) = self.change()? {
                self.changed(change);
            }
        }
        // The last ones that were killed: until they are reaped, their groups are not empty.
        while self.change()?.is_some() {}
        let had_terminal = self.terminal.take_back(self.group.id());
        self.phase.messages.say(PATIENCE);
        self.watchdog.end();
        let exit = self.group.exit().unwrap_or(Exit::Code(0));
        if matches!(exit, Exit::Signal(_)) {
            self.terminal.restore_modes();
        }
        let Phase { is_lost, asked_to_end, asked_after_end, .. } = self.phase;
        let end = match (exit.to_end(had_terminal, &asked_to_end), asked_after_end) {
            (End::Code(_), Some(signal)) => End::Signal(signal),
            (end, _) => end,
        };
        Ok(Outcome { end, is_lost, was_asked_to_end: !asked_to_end.is_empty() })
    }

    /// Lets the command begin, unless it would have to end at once.
    fn begin(&mut self) {
        let now = Moment::now();
        if self.verdict(now) == Verdict::GoOn {
            if self.terminal.is_for_command() {
                self.terminal.give(self.group.id());
            }
            return self.signal(Signal::CONT);
        }
        self.note_loss();
        self.kill(now);
        let why = self.why();
        self.phase.messages.tell(format!("{why}; the command is not started"));
    }

    fn is_done(&mut self) -> bool {
        let is_over = |killed: Moment| Moment::now() >= killed.plus(DYING);
        let is_empty = self.group.is_empty();
        if is_empty && !std::mem::replace(&mut self.phase.is_group_gone, true) {
            self.watchdog.after_group();
        }
        if is_empty && (!self.phase.is_lost || self.descendants.are_gone()) {
            return true;
        }
        if self.group.exit().is_none() || !self.phase.killed.is_some_and(is_over) {
            return false;
        }
        // What cannot be killed, as it belongs to another user, is not waited for.
        let is_lost = self.phase.is_lost;
        let has_dying = self.group.has_dying() || is_lost && self.descendants.have_dying();
        if has_dying && !std::mem::replace(&mut self.phase.told.dying, true) {
            let key = self.guard.key();
            let kept = format!(", and keeps lock `{key}` for as long as it can be renewed");
            let kept = if is_lost { String::new() } else { kept };
            self.phase.messages.tell(format!(
                "a process of the command was killed, and has not ended: it may wait for a disk; \
                 redlock waits for it{kept}"
            ));
        }
        !has_dying
    }

    /// Looks at the lease, and ends the command in time.
    fn look(&mut self) {
        self.phase.messages.say(Duration::ZERO);
        let now = Moment::now();
        match self.verdict(now) {
            Verdict::GoOn => self.end_rest(now),
            Verdict::Terminate(grace) => {
                self.lost(&format!("the command gets SIGTERM, and SIGKILL in {}", show(grace)));
            }
            Verdict::Kill => self.kill(now),
        }
    }

    /// What has to happen now, by the state of the lease.
    fn verdict(&mut self, now: Moment) -> Verdict {
        // What is left is asked for last: a renewal that is confirmed meanwhile has made it longer.
        let (lease, left) = (self.condition(), self.guard.remaining());
        let until = now.plus(left);
        let is_extended = !lease.is_over && until > self.deadline.until().plus(POLL);
        if is_extended && self.phase.killed.is_none() {
            self.deadline.extend(until);
            self.tell_deadline(until);
        }
        self.deadline.judge(now, lease)
    }

    /// Tells the watchdog when the group must be gone. The lease goes on for a twentieth of its
    /// length and more.
    fn tell_deadline(&mut self, until: Moment) {
        let is_claimed = is_claimed(self.guard.lease());
        let lease = if is_claimed { self.expire } else { self.expire.min(UNCLAIMED) };
        self.watchdog.until(until, lease / 25);
    }

    fn condition(&self) -> Condition {
        let (state, is_claimed) = (self.guard.state(), is_claimed(self.guard.lease()));
        let is_at_limit = self.max_renew.is_some_and(|most| self.guard.renewals() >= most);
        Condition {
            is_over: state == LeaseState::Lost,
            // The claim is no renewal.
            is_ending: state == LeaseState::Uncertain || is_claimed && is_at_limit,
            is_unclaimed: !is_claimed,
        }
    }

    fn lost(&mut self, what: &str) {
        let is_loss = self.note_loss();
        let why = self.why();
        self.terminate();
        if is_loss || self.group.exit().is_some() {
            self.phase.messages.tell(format!("{why}; {what}"));
        }
    }

    /// The lock is lost, or is about to be. Whether the command is ended because of that.
    fn note_loss(&mut self) -> bool {
        let is_loss = !self.phase.is_lost && !self.has_ended_in_time();
        if is_loss {
            self.phase.is_lost = true;
            self.watchdog.after_loss();
        }
        is_loss
    }

    /// Has the command ended by itself before its lease could end? If this process stood still
    /// meanwhile, only the watchdog knows; without its word, it counts as ended too late.
    fn has_ended_in_time(&mut self) -> bool {
        if self.phase.was_in_time.is_none() && self.group.has_ended_by_itself() {
            let is_early = Moment::now() < self.deadline.until();
            self.phase.was_in_time = Some(is_early || self.watchdog.has_seen_end());
        }
        self.phase.was_in_time == Some(true)
    }

    /// Why the command cannot go on.
    fn why(&self) -> String {
        let key = self.guard.key();
        match self.guard.check() {
            Err(error) => error.to_string(),
            Ok(()) if self.guard.state() == LeaseState::Uncertain => {
                format!("no renewal of lock `{key}` was confirmed; is Redis reachable?")
            }
            Ok(()) => format!("the lease of lock `{key}` ends, and no renewals are left"),
        }
    }

    /// Asks the command to end; once the lock is lost, also what has left its group.
    fn terminate(&mut self) {
        // A process that is stopped would not get SIGTERM.
        let signals = [Signal::TERM, Signal::CONT];
        for signal in signals {
            self.signal(signal);
        }
        if self.phase.is_lost {
            let sent = self.descendants.signal_outside(self.group.id(), &signals);
            self.check_sent("a process below the command", Signal::TERM, sent);
        }
    }

    fn kill(&mut self, now: Moment) {
        let is_loss = self.note_loss();
        self.signal(Signal::KILL);
        if self.phase.is_lost {
            let sent = self.descendants.kill();
            self.check_sent("a process below the command", Signal::KILL, sent);
        }
        if self.phase.killed.is_some() {
            return;
        }
        self.phase.killed = Some(now);
        self.watchdog.after_kill();
        if is_loss {
            self.phase
                .messages
                .tell(format!("lock `{}` was lost; the command is killed", self.guard.key()));
        }
    }

    /// Ends the processes that the command has left behind, some time after it: they must not run
    /// without the lock.
    fn end_rest(&mut self, now: Moment) {
        if self.phase.rest.is_some_and(|at| now >= at) && !self.phase.told.rest {
            self.phase.told.rest = true;
            if let Verdict::Terminate(grace) = self.deadline.terminate(now) {
                self.terminate();
                self.phase.messages.tell(format!(
                    "the command is over, and has left processes behind, which would go on \
                     without the lock; they get SIGTERM, and SIGKILL in {}",
                    show(grace)
                ));
            }
        }
    }

    fn change(&mut self) -> io::Result<Option<Change>> {
        let change = self.group.change();
        if change.is_err() {
            // A command that cannot be watched must not run.
            self.kill(Moment::now());
        }
        change
    }

    fn changed(&mut self, change: Change) {
        match change {
            Change::Exited(_) => {
                self.phase.rest = Some(Moment::now().plus(self.grace));
                if self.note_loss() {
                    let key = self.guard.key();
                    let told = format!("lock `{key}` may have been lost before the command ended");
                    self.phase.messages.tell(told);
                }
                if !self.phase.is_lost {
                    self.watchdog.after_command();
                }
            }
            Change::Stopped(signal) => self.stopped(signal),
        }
    }

    fn received(&mut self, signal: Signal) {
        match signal {
            Signal::CHILD => {}
            Signal::CONT => {
                self.look();
                if self.phase.killed.is_none() {
                    self.signal(Signal::CONT);
                }
            }
            other => {
                self.signal(other);
                if is_ending(other) {
                    self.phase.asked_to_end.push(other);
                    if self.group.exit().is_some() {
                        self.phase.asked_after_end = Some(other);
                    }
                    // A command that is stopped would not get the signal.
                    self.signal(Signal::CONT);
                }
            }
        }
    }

    fn signal(&mut self, signal: Signal) {
        let sent = self.group.signal(signal);
        self.check_sent("the command", signal, sent);
    }

    fn check_sent(&mut self, what: &str, signal: Signal, sent: io::Result<()>) {
        if let Err(error) = sent {
            let is_refused = error.kind() == io::ErrorKind::PermissionDenied;
            let advice = if is_refused { "; does it run as another user?" } else { "" };
            self.phase
                .messages
                .tell(format!("{what} cannot be sent signal {}: {error}{advice}", signal.as_raw()));
        }
    }
}
