//! Logs made by hand, one for each way in which a history can be wrong.

use super::{
    Leftover, Violation, Ways, check_holds, check_idle, check_kept, check_leftovers, check_store,
    holds, idle_times,
};
use crate::log::{Line, parse};
use crate::store::{Access, Verb};

mod kinds;
mod reasons;
mod together;

/// Attempts by moments in microseconds, logs of several processes one after the other.
fn lines(log: &str) -> Vec<Line> {
    let lines: Vec<_> = log.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let mut lines = parse(&format!("{}\n", lines.join("\n")));
    for line in &mut lines {
        line.at *= 1_000;
    }
    lines
}

fn classes(log: &str) -> String {
    let found = check_holds(&holds(&lines(log)));
    found.iter().map(Violation::class).collect()
}

/// The idle times of a log: who waited, from when, and until when.
fn idle(log: &str) -> String {
    let lines = lines(log);
    let found = idle_times(&lines, &holds(&lines));
    let words = found.iter().map(|idle| {
        format!("{} {} {}-{}", idle.key, idle.waiter, idle.from / 1_000, idle.until / 1_000)
    });
    words.collect::<Vec<_>>().join(", ")
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

#[test]
fn nothing_is_held_when_all_work_is_done() {
    assert_eq!(check_kept(&lines("w0.0 90 kept 0")), []);
    let [found] = &check_kept(&lines("w0.0 90 kept 0\nw1.0 90 kept 2"))[..] else {
        panic!("it was not found")
    };
    assert_eq!(found.to_string(), "(e) w1.0 holds 2 locks though all of its work is done");
}

/// Two callers of two processes, one after the other.
const SERVED: &str = "w0.0.1/1 10 begin k
    w0.0.1/1 20 granted 5
    w0.0.1/1 20 step 90000
    w0.0.1/1 60 over -
    w1.0.1/1 15 begin k
    w1.0.1/1 65 granted 6
    w1.0.1/1 65 step 99000
    w1.0.1/1 70 over -
    ";

#[test]
fn a_key_is_idle_while_it_is_free_and_somebody_waits() {
    assert_eq!(idle(SERVED), "k w0.0.1/1 10-20, k w1.0.1/1 60-65");
    let nobody = SERVED.replace("w1.0.1/1 15 begin", "w1.0.1/1 64 begin");
    assert_eq!(idle(&nobody), "k w0.0.1/1 10-20, k w1.0.1/1 64-65");
    let other_key = SERVED.replace("15 begin k", "15 begin q");
    assert_eq!(idle(&other_key), "k w0.0.1/1 10-20, q w1.0.1/1 15-65");
    let at_once = SERVED.replace("w1.0.1/1 65", "w1.0.1/1 60");
    assert_eq!(idle(&at_once), "k w0.0.1/1 10-20");
}

#[test]
fn a_hand_over_leads_from_a_body_to_one_of_another_process() {
    let lengths = |log: &str| {
        let lines = lines(log);
        let holds = holds(&lines);
        let Ways { hand_overs, calls } = Ways::of(&idle_times(&lines, &holds), &holds);
        (hand_overs, calls)
    };
    let first = vec![10_000];
    assert_eq!(lengths(SERVED), (vec![5_000], first.clone()), "the first one took what was free");
    assert_eq!(lengths(&SERVED.replace("w1.0.1", "w0.0.2")), (vec![], first.clone()), "within one");
    let later = lengths(&SERVED.replace("w1.0.1/1 15 begin", "w1.0.1/1 61 begin"));
    assert_eq!(later, (vec![], vec![10_000, 4_000]), "it was free");
    let lapsed = SERVED.replace("w0.0.1/1 60 over", "w0.0.1/1 60 lapsed -\nw0.0.1/1 70 over");
    assert_eq!(lengths(&lapsed).0, [], "nobody let go");
}

#[test]
fn an_idle_time_goes_on_as_long_as_anybody_waits() {
    let fails = "w0.0.1/1 10 begin k
        w0.0.1/1 30 failed Timeout
        w1.0.1/1 30 begin k
        w1.0.1/1 50 failed Timeout
        w1.0.1/2 51 begin k";
    assert_eq!(idle(fails), "k w0.0.1/1 10-50", "what waits at the end has not waited long yet");
    assert_eq!(
        idle(&format!("{fails}\nw0.0.2/1 90 begin q")),
        "k w0.0.1/1 10-50, k w1.0.1/2 51-90"
    );
    let hold = "w2.0.1/1 5 begin q
        w2.0.1/1 40 granted 7
        w2.0.1/1 40 step 40
        w2.0.1/1 40 over -";
    let broken = format!("{fails}\n{}", hold.replace("begin q", "begin k"));
    assert_eq!(idle(&broken), "k w2.0.1/1 5-40, k w1.0.1/1 40-50", "even by a hold of no length");
}

#[test]
fn who_does_not_poll_does_not_wait() {
    let stalls = SERVED
        .replace(
            "w1.0.1/1 65 granted",
            "w1.0.1/1 16 stalled -\nw1.0.1/1 80 resumed -\nw1.0.1/1 85 granted",
        )
        .replace("w1.0.1/1 65 step", "w1.0.1/1 85 step")
        .replace("w1.0.1/1 70", "w1.0.1/1 90");
    assert_eq!(idle(&stalls), "k w0.0.1/1 10-20, k w1.0.1/1 80-85");
    let later = stalls.replace("16 stalled", "62 stalled");
    assert_eq!(idle(&later), "k w0.0.1/1 10-20, k w1.0.1/1 60-62, k w1.0.1/1 80-85");
    let other = format!("{stalls}w0.0.2/1 62 begin k\nw0.0.2/1 83 failed Timeout");
    assert_eq!(idle(&other), "k w0.0.1/1 10-20, k w0.0.2/1 62-85");
}

#[test]
fn a_killed_process_holds_until_its_lease_ends_and_waits_no_longer() {
    let killed = |at: u64| {
        let log = SERVED.replace("w0.0.1/1 60 over -", "").replace("90000", "61000");
        format!("{log}w0.0 {at} killed -\nw0.0.2/1 12 begin k")
    };
    assert_eq!(idle(&killed(40)), "k w0.0.1/1 10-20, k w1.0.1/1 61-65");
    let later = killed(80).replace("w1.0.1/1 15 begin", "w1.0.1/1 64 begin");
    assert_eq!(idle(&later), "k w0.0.1/1 10-20, k w0.0.2/1 61-65, k w0.0.2/1 70-80");
    assert_eq!(idle(&killed(8)), "k w1.0.1/1 15-20, k w1.0.1/1 61-65");
}

#[test]
fn a_hold_ends_for_others_with_its_lease_or_its_key() {
    let outstays = SERVED.replace("w0.0.1/1 60 over", "w0.0.1/1 55 step 0\nw0.0.1/1 500 over");
    assert_eq!(idle(&outstays), "k w0.0.1/1 10-20, k w1.0.1/1 55-65");
    let deleted = format!("{SERVED}parent 30 gone k\nparent 12 gone k\nparent 62 gone k");
    assert_eq!(idle(&deleted), "k w0.0.1/1 10-20, k w1.0.1/1 30-65", "once for each hold");
    assert_eq!(idle(&deleted.replace("gone k", "gone q")), idle(SERVED), "of its own key");
    let renewed = SERVED.replace("90000", "40000");
    assert_eq!(idle(&renewed), idle(SERVED), "no step has seen the renewal");
}

#[test]
fn an_idle_time_is_a_violation_beyond_the_bound_only() {
    let log = lines(&SERVED.replace("w1.0.1/1 65", "w1.0.1/1 460060"));
    let idle = idle_times(&log, &holds(&log));
    assert_eq!(check_idle(&idle, 10_000, 460), []);
    let [found] = &check_idle(&idle, 10_000, 459)[..] else { panic!("it was not found") };
    assert_eq!(found.class(), 'f');
    let said = "(f) k had room for w1.0.1/1 for 460 ms, from 0 ms on";
    assert_eq!(found.to_string(), said);
}
