//! What follows when the command is stopped.

use std::time::Duration;

use rustix::process::Signal;

use super::Supervisor;
use crate::run::moment::Moment;
use crate::run::terminal;

/// How soon a command that was continued in vain waits for the terminal again, at the latest.
const AT_ONCE: Duration = Duration::from_millis(100);

impl Supervisor<'_> {
    /// The command was stopped. By Ctrl-Z: this job is stopped as well, so that its shell goes on;
    /// the lease ends meanwhile if that takes long.
    pub(super) fn stopped(&mut self, signal: i32) {
        let is = |one: Signal| one.as_raw() == signal;
        // A stop from outside came first, and was taken for that of the process itself.
        if is(Signal::STOP) && !self.phase.is_lost && self.group.is_at_gate() {
            return self.signal(Signal::CONT);
        }
        let wants_terminal = is(Signal::TTIN) || is(Signal::TTOU);
        if wants_terminal && self.terminal.is_ours() {
            self.terminal.give(self.group.id());
            return self.signal(Signal::CONT);
        }
        if self.phase.is_lost {
            return;
        }
        // By STOP while it has the keyboard: some programs stop themselves so at Ctrl-Z, and so
        // does a `redlock run` below this one. Nobody could type until this job is stopped, too.
        let is_job_control =
            wants_terminal || is(Signal::TSTP) || self.terminal.is_of(self.group.id());
        if !is_job_control || !self.terminal.is_there() {
            return self.tell_stop();
        }
        let had_terminal = self.terminal.take_back(self.group.id());
        // SIGTTIN may have been without effect: then the command waits again at once.
        let waits_again = self.phase.went_on.is_some_and(|at| Moment::now() < at.plus(AT_ONCE));
        let was_suspended = if wants_terminal && !waits_again {
            terminal::suspend_as_reader()
        } else {
            terminal::suspend()
        };
        self.phase.went_on = wants_terminal.then(Moment::now);
        // It may be long after that. Without its lock the command must not go on.
        self.look();
        if self.phase.killed.is_some() {
            return;
        }
        if wants_terminal && !was_suspended && !self.terminal.is_ours() {
            return self.end_without_shell();
        }
        if is(Signal::STOP) && !was_suspended {
            // There is no shell. The keyboard is that of redlock, which passes Ctrl-C on.
            return self.tell_stop();
        }
        if self.terminal.is_ours() && (had_terminal || wants_terminal) {
            self.terminal.give(self.group.id());
        }
        self.signal(Signal::CONT);
    }

    /// The command stands still until somebody continues it, and its lease is renewed.
    fn tell_stop(&mut self) {
        if !std::mem::replace(&mut self.phase.told.stop, true) {
            let key = self.guard.key();
            self.phase.messages.tell(format!(
                "the command was stopped, and holds lock `{key}`; SIGCONT to redlock continues it"
            ));
        }
    }

    /// The command waits for the terminal, and nothing could continue it: it would stand still for
    /// ever, under its lock.
    fn end_without_shell(&mut self) {
        let (signal, name) = terminal::signal_without_shell(self.phase.waits_without_shell);
        self.phase.waits_without_shell += 1;
        self.signal(signal);
        self.signal(Signal::CONT);
        self.phase.messages.tell(format!(
            "the command waits for the terminal, and no shell is left that could give it the \
             terminal; it gets {name}. Redirect what it reads, or start redlock in the foreground"
        ));
    }
}
