//! Who is let in before a writer that came earlier.
//!
//! A writer that waits stands in the queue of the lock within the slack of a plan. A reader whose
//! call begins later than that queues behind it. Both wait from their beginning to their grant, and
//! the writer is polled all the time; so a reader that has its lock before the writer has passed
//! it. Only histories without faults are judged: a connection that is cut may cost a place in the
//! queue.

use super::waits::waits;
use super::{Hold, Violation};
use crate::lock_kind::LockKind;
use crate::log::Line;

/// All violations of (h). `slack_ms`: so long may a writer take to its place in the queue.
pub(crate) fn check_passing(lines: &[Line], holds: &[Hold], slack_ms: u64) -> Vec<Violation> {
    let waits = waits(lines);
    let mut found = Vec::new();
    for wait in waits.iter().filter(|wait| wait.kind == LockKind::Exclusive) {
        let in_queue = wait.from + slack_ms * 1_000_000;
        let passes = |hold: &&Hold| {
            hold.kind == LockKind::Read
                && hold.key == wait.key
                && hold.since == hold.granted
                && hold.begun > in_queue
                && hold.granted < wait.until
        };
        let passing: Vec<_> = holds.iter().filter(passes).collect();
        if let Some(first) = passing.first() {
            found.push(Violation::Passed {
                key: wait.key.to_owned(),
                writer: wait.attempt.to_owned(),
                reader: first.attempt.clone(),
                readers: passing.len(),
            });
        }
    }
    found
}
