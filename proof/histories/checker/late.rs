//! Steps of a body after its deadline.
//!
//! A process may be frozen, or have to wait for a processor, after the library has looked at the
//! clock and before the step that this look allowed. One late step of a hold is forgiven where its
//! process was frozen since the step before it; and one before the deadline, as a body is stopped a
//! twentieth of its lease earlier, from when on the lease says that it is over. Both are rare, so
//! those that are forgiven are counted.

use super::waits::{away, process_of};
use super::{Hold, Violation};
use crate::log::Line;

/// All violations of (c), and how many late steps are none.
pub(crate) fn check_late(lines: &[Line], holds: &[Hold]) -> (Vec<Violation>, usize) {
    let away = away(lines);
    let is_forgiven = |hold: &Hold, at| {
        // The deadline of a body that was never polled in time is not known.
        let has_stepped = hold.in_time_at > hold.begun;
        let frozen = away.get(process_of(&hold.attempt));
        let was_frozen = frozen.is_some_and(|spans| spans.within(hold.in_time_at, at).length() > 0);
        hold.late_steps == 1 && (was_frozen || has_stepped && at <= hold.deadline)
    };
    let (mut found, mut forgiven) = (Vec::new(), 0);
    for hold in holds.iter().filter(|hold| hold.late_steps > 0) {
        if hold.late_at.is_some_and(|at| is_forgiven(hold, at)) {
            forgiven += 1;
        } else {
            let (attempt, steps) = (hold.attempt.clone(), hold.late_steps);
            found.push(Violation::Late { attempt, steps });
        }
    }
    (found, forgiven)
}
