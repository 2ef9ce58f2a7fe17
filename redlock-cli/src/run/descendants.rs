//! The processes below a redlock, also those that have left the process group of the command:
//! `timeout`, `setsid` and shells with job control put them into groups of their own. Those whose
//! parent has ended are adopted by redlock, so that they stay below it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use rustix::process::{Pid, Signal};

use super::process_table::{Process, Row, children, row, rows};

/// How often one `kill` looks for processes that were started while others were killed. Its caller
/// repeats it while there are any.
const LOOKS: usize = 10;

/// The processes that have come from the command of a redlock.
#[derive(Debug)]
pub(super) struct Descendants {
    redlock: i32,
    /// What was below redlock before: the watchdog, and what a shell has started before it became
    /// redlock (`exec`).
    others: BTreeSet<Process>,
}

impl Descendants {
    /// The processes that come from the command from here on.
    pub(super) fn from_now(redlock: Pid) -> Self {
        let redlock = redlock.as_raw_nonzero().get();
        let others = below(redlock, &BTreeSet::new(), rows());
        Self { redlock, others: others.iter().map(|row| row.process).collect() }
    }

    /// The descendants that have not ended. The table of processes is read twice: a process that
    /// gets another parent while the table is read may stand under a parent that is not in it, but
    /// not both times.
    pub(super) fn living(&self) -> BTreeSet<Process> {
        self.look_twice().into_iter().map(|row| row.process).collect()
    }

    /// Have all ended? The table of processes alone cannot tell: one that starts another and ends,
    /// again and again, can be missed by every look. But as long as one of them lives, redlock has
    /// a child, as it adopts those whose parents have ended.
    pub(super) fn are_gone(&self) -> bool {
        let is_other = |id: i32| self.others.iter().any(|other| other.id == id);
        self.living().is_empty() && children().into_iter().all(is_other)
    }

    /// Is one left that could be killed, and has not ended yet?
    pub(super) fn have_dying(&self) -> bool {
        self.living().into_iter().any(Process::may_be_killed)
    }

    fn look_twice(&self) -> Vec<Row> {
        let look = || below(self.redlock, &self.others, rows());
        let found = [look(), look()].concat();
        found.into_iter().filter(|row| !row.is_over).collect()
    }

    /// Sends signals to all that are outside of a process group.
    pub(super) fn signal_outside(&self, group: Pid, signals: &[Signal]) -> io::Result<()> {
        let group = group.as_raw_nonzero().get();
        let outside = self.look_twice().into_iter().filter(|row| row.group != group);
        let outside: BTreeSet<Process> = outside.map(|row| row.process).collect();
        let sent = signals.iter().map(|signal| send_all(&outside, *signal));
        sent.fold(Ok(()), io::Result::and)
    }

    /// Kills all, and those that they start meanwhile. The children of redlock are killed at once:
    /// what starts another process and ends would be over when the whole table has been read, and
    /// what it has started is a child by then.
    pub(super) fn kill(&self) -> io::Result<()> {
        let mut killed = BTreeSet::new();
        let mut outcome = Ok(());
        for _ in 0..LOOKS {
            let children = self.living_children();
            outcome = outcome.and(send_all(&children, Signal::KILL));
            let found: BTreeSet<Process> = self.living().difference(&killed).copied().collect();
            if found.is_empty() && children.is_empty() {
                break;
            }
            outcome = outcome.and(send_all(&found, Signal::KILL));
            killed.extend(found);
        }
        outcome
    }

    fn living_children(&self) -> BTreeSet<Process> {
        let rows = children().into_iter().filter_map(row).filter(|row| !row.is_over);
        rows.map(|row| row.process).filter(|process| !self.others.contains(process)).collect()
    }
}

/// Sends a signal to each; the first error of those who cannot be sent it.
pub(super) fn send_all(processes: &BTreeSet<Process>, signal: Signal) -> io::Result<()> {
    let sent = processes.iter().map(|process| process.send(signal));
    sent.fold(Ok(()), io::Result::and)
}

/// The processes that were started with a variable, `NAME=value`, except one of them.
pub(super) fn with_variable(variable: &str, except: Pid) -> BTreeSet<Process> {
    let except = except.as_raw_nonzero().get();
    let processes = rows().into_iter().map(|row| row.process);
    processes.filter(|process| process.id != except && process.has_variable(variable)).collect()
}

/// The processes below a process, without some of them and without those below these.
fn below(root: i32, except: &BTreeSet<Process>, rows: Vec<Row>) -> Vec<Row> {
    let mut children: BTreeMap<i32, Vec<Row>> = BTreeMap::new();
    for row in rows.into_iter().filter(|row| !except.contains(&row.process)) {
        children.entry(row.parent).or_default().push(row);
    }
    let (mut found, mut parents) = (Vec::new(), vec![root]);
    while let Some(parent) = parents.pop() {
        // Each parent is looked at once, though a table that changes may have a circle.
        let next = children.remove(&parent).unwrap_or_default();
        parents.extend(next.iter().map(|row| row.process.id));
        found.extend(next);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: i32, parent: i32) -> Row {
        Row { process: Process { id, start: 7 }, parent, group: id, is_over: false }
    }

    fn ids(found: &[Row]) -> BTreeSet<i32> {
        found.iter().map(|row| row.process.id).collect()
    }

    #[test]
    fn what_is_below_a_process() {
        let table =
            vec![entry(1, 0), entry(9, 1), entry(10, 9), entry(11, 10), entry(12, 1), entry(3, 11)];
        assert_eq!(ids(&below(9, &BTreeSet::new(), table.clone())), BTreeSet::from([10, 11, 3]));
        let except = BTreeSet::from([entry(11, 10).process]);
        assert_eq!(ids(&below(9, &except, table.clone())), BTreeSet::from([10]));
        let former = BTreeSet::from([Process { id: 11, start: 6 }]);
        assert_eq!(below(9, &former, table).len(), 3, "another process had that id");
        let circle = vec![entry(10, 9), entry(11, 10), entry(10, 11)];
        assert_eq!(ids(&below(9, &BTreeSet::new(), circle)), BTreeSet::from([10, 11]));
    }
}
