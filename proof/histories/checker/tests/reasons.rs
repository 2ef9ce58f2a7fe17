//! Logs of calls that fail, and of bodies that go on for too long.

use super::{FINE, lines};
use crate::checker::{Violation, check_failures, check_late, check_releases, holds};

fn said(found: &[Violation]) -> String {
    found.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn late(log: &str) -> String {
    let lines = lines(log);
    said(&check_late(&lines, &holds(&lines)).0)
}

fn forgiven(log: &str) -> usize {
    let lines = lines(log);
    check_late(&lines, &holds(&lines)).1
}

/// A hold with two steps of which the first is in time; its lease ends at 120.
const OUTLASTS: &str = "w0.0.1/1 10 begin k
    w0.0.1/1 20 granted 5
    w0.0.1/1 20 step 90000
    w0.0.1/1 50 step 120000
    w0.0.1/1 130 step 0
    w0.0.1/1 131 over -
    ";

#[test]
fn a_step_after_the_deadline_is_forgiven_to_the_frozen_only() {
    let once = "(c) w0.0.1/1 took 1 steps after its deadline";
    assert_eq!((late(FINE).as_str(), forgiven(FINE)), ("", 0));
    assert_eq!(late(OUTLASTS), once);
    assert_eq!(late(&OUTLASTS.replace("130 step", "120 step")), "", "stopped early, not late");
    let frozen = |from: u64, until: u64| {
        late(&format!("{OUTLASTS}w0.0 {from} frozen -\nw0.0 {until} thawed -"))
    };
    assert_eq!(frozen(60, 129), "");
    let log = format!("{OUTLASTS}w0.0 60 frozen -\nw0.0 129 thawed -");
    assert_eq!((forgiven(OUTLASTS), forgiven(&log)), (0, 1));
    assert_eq!(forgiven(&OUTLASTS.replace("130 step", "120 step")), 1);
    assert_eq!(frozen(40, 51), "", "the end of it was after the step before");
    assert_eq!(frozen(30, 50), once, "before the step before");
    assert_eq!(frozen(130, 140), once, "after it");
    assert_eq!(late(&format!("{OUTLASTS}w0.0 60 frozen -")), "");
    let other = format!("{OUTLASTS}w0.1 60 frozen -\nw1.0 60 frozen -");
    assert_eq!(late(&other), once, "of another process");
}

#[test]
fn two_late_steps_are_never_forgiven() {
    let twice = "(c) w0.0.1/1 took 2 steps after its deadline";
    let log = OUTLASTS.replace("131 over", "131 step 0\nw0.0.1/1 131 over");
    assert_eq!(late(&log), twice);
    assert_eq!(late(&format!("{log}w0.0 60 frozen -\nw0.0 129 thawed -")), twice);
    assert_eq!(late(&log.replace("130 step", "118 step").replace("131", "119")), twice);
}

#[test]
fn a_body_that_begins_after_its_deadline_is_late() {
    let log = "w0.0.1/1 10 begin k
        w0.0.1/1 20 granted 5
        w0.0.1/1 20 step 0
        w0.0.1/1 21 over -
        ";
    assert_eq!(late(log), "(c) w0.0.1/1 took 1 steps after its deadline");
    assert_eq!(late(&format!("{log}w0.0 15 frozen -\nw0.0 19 thawed -")), "");
}

#[test]
fn a_guard_that_is_kept_takes_no_step() {
    let kept = OUTLASTS.replace("130 step 0", "130 lapsed -").replace("131 over", "900 over");
    assert_eq!(late(&kept), "");
    assert_eq!(holds(&lines(&kept))[0].late_at, Some(130_000), "it is free for others");
}

#[test]
fn a_call_that_fails_for_no_reason_is_told() {
    let failed = |why: &str| {
        let log = lines(&format!("w0.0.1/1 10 begin k\nw0.0.1/1 61 failed {why}"));
        said(&check_failures(&log, &["Timeout", "Dropped"]))
    };
    assert_eq!(failed("Timeout"), "");
    assert_eq!(failed("Dropped"), "");
    assert_eq!(failed("Lost"), "(k) w0.0.1/1, for no reason: Lost");
    assert_eq!(failed("Unavailable"), "(k) w0.0.1/1, for no reason: Unavailable");
}

#[test]
fn a_release_that_does_not_find_its_lock_is_told() {
    let released =
        |found: &str| said(&check_releases(&lines(&format!("{FINE}a/1 61 released {found}"))));
    assert_eq!(released("Released"), "");
    assert_eq!(released("Expired"), "(k) a/1, for no reason: its release found Expired");
    assert_eq!(released("Unavailable"), "(k) a/1, for no reason: its release found Unavailable");
}
