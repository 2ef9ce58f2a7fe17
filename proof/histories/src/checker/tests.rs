//! Logs made by hand, one for each way in which a history can be wrong.

use super::{Leftover, Violation, check_holds, check_leftovers, check_store, holds};
use crate::log::parse;
use crate::store::{Access, Verb};

/// Attempts by moments in microseconds, logs of several processes one after the other.
fn classes(log: &str) -> String {
    let lines: Vec<_> = log.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let mut lines = parse(&format!("{}\n", lines.join("\n")));
    for line in &mut lines {
        line.at *= 1_000;
    }
    let found = check_holds(&holds(&lines));
    found.iter().map(Violation::class).collect()
}

const FINE: &str = "a/1 10 begin k
    a/1 20 granted 5
    a/1 20 step 90000
    a/1 50 step 120000
    a/1 60 over -
    b/1 15 begin k
    b/1 60 granted 6
    b/1 60 step 99000
    b/1 70 over -
    ";

#[test]
fn holds_that_follow_each_other_are_fine() {
    assert_eq!(classes(FINE), "");
    assert_eq!(classes(&FINE.replace("b/1 15 begin k", "b/1 15 begin other")), "");
}

#[test]
fn two_holds_at_once_are_an_overlap() {
    assert_eq!(classes(&FINE.replace("b/1 60 granted", "b/1 59 granted")), "a");
    let other_key = FINE.replace("b/1 60 granted", "b/1 59 granted").replace("begin k", "begin q");
    assert_eq!(classes(&other_key.replacen("begin q", "begin k", 1)), "");
}

#[test]
fn a_killed_process_holds_until_its_last_deadline() {
    let killed = FINE.replace("a/1 60 over -", "");
    assert_eq!(classes(&killed), "a");
    let after = killed.replace("b/1 60", "b/1 120").replace("99000", "199000");
    assert_eq!(classes(&after.replace("b/1 70", "b/1 130")), "");
}

#[test]
fn a_hold_ends_with_its_deadline_though_the_body_goes_on() {
    let frozen = FINE.replace("a/1 60 over", "a/1 500 step 0\na/1 500 over");
    let later = frozen.replace("b/1 60", "b/1 120").replace("b/1 70 over", "b/1 700 over");
    assert_eq!(classes(&later.replace("99000", "999000")), "");
    let sooner = frozen.replace("b/1 60", "b/1 110").replace("b/1 70 over", "b/1 700 over");
    assert_eq!(classes(&sooner.replace("99000", "999000")), "a");
}

#[test]
fn a_token_must_exceed_those_granted_before_its_attempt() {
    let later = FINE.replace("b/1 15 begin", "b/1 21 begin");
    assert_eq!(classes(&later), "");
    assert_eq!(classes(&later.replace("granted 6", "granted 5")), "b");
    assert_eq!(classes(&later.replace("granted 6", "granted 4")), "b");
    assert_eq!(classes(&FINE.replace("granted 6", "granted 4")), "", "it began before the grant");
    assert_eq!(classes(&FINE.replace("granted 6", "granted 5")), "b", "shared all the same");
}

#[test]
fn one_step_may_be_late_and_two_may_not() {
    let late = FINE.replace("a/1 60 over", "a/1 130 step 0\na/1 130 over");
    let late = late.replace("b/1 60", "b/1 150").replace("b/1 70", "b/1 160");
    assert_eq!(classes(&late.replace("99000", "199000")), "");
    let twice = late.replace("a/1 130 over", "a/1 131 step 0\na/1 131 over");
    assert_eq!(classes(&twice.replace("99000", "199000")), "c");
}

#[test]
fn a_line_that_was_cut_by_a_kill_is_ignored() {
    assert_eq!(parse("a/1 10 begin k\na/1 20 gran").len(), 1);
    assert_eq!(parse("a/1 10 beg"), []);
}

fn access(fencing: u64, verb: Verb, accepted: bool) -> Access {
    Access { key: "k".to_owned(), fencing, verb, accepted }
}

#[test]
fn the_store_must_refuse_late_claims_and_writes() {
    let (claim, write) = (Verb::Claim, |value| Verb::Write { value });
    let sound = [access(5, claim, true), access(5, write(1), true), access(4, claim, false)];
    assert_eq!(check_store(&sound), []);
    for (wrong, what) in [
        (access(4, claim, true), "claim 4 accepted after 5"),
        (access(5, claim, true), "claim 5 accepted after 5"),
        (access(4, write(2), true), "write of 4 accepted under the claim 5"),
        (access(5, write(1), true), "1 was written over 1: an update is lost"),
    ] {
        let mut accesses = sound.to_vec();
        accesses.push(wrong);
        let [Violation::Fence { what: said, .. }] = &check_store(&accesses)[..] else {
            panic!("{what} was not found")
        };
        assert_eq!(said, what);
    }
}

#[test]
fn what_is_left_must_expire_within_a_lease() {
    let left = |left_ms| Leftover { key: "k".to_owned(), left_ms, longest_ms: 1_000 };
    assert_eq!(check_leftovers(&[left(Some(1_000))]), []);
    assert_eq!(check_leftovers(&[left(Some(1_001)), left(None)]).len(), 2);
}
