//! Log lines for operators that may come by the hundred: the first few are written, the others are
//! counted, and a summary says how many they were.

use std::collections::BTreeMap;
use std::sync::MutexGuard;
use std::time::Duration;

use super::clock::{Clock, Moment};
use super::shield::tell;
use crate::mutex::Mutex;

/// How many lines of a topic are written in full, in each window.
const IN_FULL: u32 = 3;
const WINDOW: Duration = Duration::from_secs(60);
/// When the first summary of a window reports the counted lines; the next one ends the window.
const FIRST_SUMMARY: Duration = Duration::from_secs(5);

/// The events that lines report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Topic {
    /// A lease was lost.
    Lost,
    /// A body finished, and its lock had been lost.
    Unprotected,
    /// A lock could not be released.
    Unreleased,
    /// A call met a lock that does not end by itself.
    Endless,
}

const TOPICS: [Topic; 4] = [Topic::Lost, Topic::Unprotected, Topic::Unreleased, Topic::Endless];

/// The lines of one client.
#[derive(Debug)]
pub(crate) struct Reports {
    clock: Clock,
    topics: [Mutex<Lines>; TOPICS.len()],
}

/// What to do with a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Write,
    /// The line is counted. `Some`: the caller has to request a summary for this moment.
    Count(Option<Moment>),
}

#[derive(Debug, Default)]
struct Lines {
    /// When the window began.
    began: Option<Moment>,
    written: u32,
    /// By key template.
    counted: BTreeMap<&'static str, u64>,
    had_summary: bool,
    is_summary_due: bool,
}

impl Reports {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, topics: Default::default() }
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// Is one more line of this topic, about a lock of `template`, to be written?
    pub(crate) fn admit(&self, topic: Topic, template: &'static str) -> Admission {
        self.lines(topic).admit(self.clock.now(), template)
    }

    /// Writes a summary that was requested.
    pub(crate) fn summarize(&self, topic: Topic) {
        let counted = {
            let mut lines = self.lines(topic);
            lines.is_summary_due = false;
            lines.take()
        };
        write(topic, &counted);
    }

    /// Writes what was counted so far, before its summary.
    pub(crate) fn flush(&self) {
        for topic in TOPICS {
            let counted = self.lines(topic).take();
            write(topic, &counted);
        }
    }

    fn lines(&self, topic: Topic) -> MutexGuard<'_, Lines> {
        self.topics[topic as usize].lock()
    }
}

impl Lines {
    fn admit(&mut self, now: Moment, template: &'static str) -> Admission {
        let ends = self.began.map_or(Moment::ZERO, |began| began.plus(WINDOW));
        // A summary that is not written by then was lost together with its runtime.
        let is_summary_lost = self.is_summary_due && now >= ends.plus(2 * FIRST_SUMMARY);
        if now >= ends && self.counted.is_empty() || is_summary_lost {
            (self.began, self.written, self.had_summary) = (Some(now), 0, false);
            self.is_summary_due &= !is_summary_lost;
        }
        if self.written < IN_FULL {
            self.written += 1;
            return Admission::Write;
        }
        *self.counted.entry(template).or_default() += 1;
        if std::mem::replace(&mut self.is_summary_due, true) {
            return Admission::Count(None);
        }
        let soon = now.plus(FIRST_SUMMARY);
        Admission::Count(Some(if self.had_summary { soon.max(ends) } else { soon }))
    }

    fn take(&mut self) -> BTreeMap<&'static str, u64> {
        self.had_summary |= !self.counted.is_empty();
        std::mem::take(&mut self.counted)
    }
}

fn write(topic: Topic, counted: &BTreeMap<&'static str, u64>) {
    let count: u64 = counted.values().sum();
    if count == 0 {
        return;
    }
    let shares = counted.iter().filter(|(name, _)| !name.is_empty());
    let shares: Vec<_> = shares.map(|(name, count)| format!("{name}: {count}")).collect();
    let templates = shares.join(", ");
    let what = match topic {
        Topic::Lost => "more leases were lost",
        Topic::Unprotected => "more bodies finished after their lock had been lost",
        Topic::Unreleased => "more locks could not be released",
        Topic::Endless => "more calls met locks that do not end by themselves",
    };
    tell!(warn, count, templates, "{what}; each of them is told at DEBUG");
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_hundred_lines_become_three_and_a_summary() {
        let mut lines = Lines::default();
        let start = Moment::ZERO.plus(SECOND);
        for _ in 0..IN_FULL {
            assert_eq!(lines.admit(start, "a"), Admission::Write);
        }
        assert_eq!(lines.admit(start, "a"), Admission::Count(Some(start.plus(FIRST_SUMMARY))));
        for _ in 0..95 {
            assert_eq!(lines.admit(start, "b"), Admission::Count(None));
        }
        lines.is_summary_due = false;
        assert_eq!(lines.take(), BTreeMap::from([("a", 1), ("b", 95)]));
        let later = start.plus(9 * SECOND);
        assert_eq!(lines.admit(later, "a"), Admission::Count(Some(start.plus(WINDOW))));
        lines.is_summary_due = false;
        assert_eq!(lines.take().len(), 1);
        assert_eq!(lines.admit(start.plus(WINDOW), "a"), Admission::Write);
    }

    /// A client in memory can outlive the runtime with the paused clock that was to write it.
    #[test]
    fn a_summary_that_is_lost_silences_nobody() {
        let mut lines = Lines::default();
        let start = Moment::ZERO.plus(SECOND);
        for _ in 0..=IN_FULL {
            lines.admit(start, "a");
        }
        assert_eq!(lines.admit(start.plus(WINDOW), "a"), Admission::Count(None));
        let later = start.plus(2 * WINDOW);
        for _ in 0..IN_FULL {
            assert_eq!(lines.admit(later, "a"), Admission::Write);
        }
        assert_eq!(lines.admit(later, "a"), Admission::Count(Some(later.plus(FIRST_SUMMARY))));
        assert_eq!(lines.take(), BTreeMap::from([("a", 3)]), "none is forgotten");
    }

    #[test]
    fn a_flush_leaves_nothing_for_the_summary() {
        let reports = Reports::new(Clock::Boot);
        let admit = || reports.admit(Topic::Lost, "a");
        for _ in 0..=IN_FULL {
            admit();
        }
        assert_eq!(admit(), Admission::Count(None));
        assert_eq!(reports.admit(Topic::Unprotected, "a"), Admission::Write);
        reports.flush();
        assert!(reports.lines(Topic::Lost).counted.is_empty());
        assert_eq!(admit(), Admission::Count(None), "that one is still to come");
        reports.summarize(Topic::Lost);
        assert!(matches!(admit(), Admission::Count(Some(_))));
    }
}
