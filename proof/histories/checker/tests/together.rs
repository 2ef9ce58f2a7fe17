//! Logs of calls for several keys.

use super::{classes, idle, lines};
use crate::checker::{check_ends, check_found, check_together, holds, idle_times};
use crate::log::parse;

/// A call for two keys between plain ones of each.
const GROUP: &str = "w0.0.1/1 10 waits 800
    w0.0.1/1 10 together 2 100
    w0.0.1/1&1 10 begin q
    w0.0.1/1&2 10 begin k
    w0.0.1/1&1 40 granted 7
    w0.0.1/1&2 40 granted 7
    w0.0.1/1&1 40 step 90000
    w0.0.1/1&2 40 step 90000
    w0.0.1/1&1 60 over -
    w0.0.1/1&2 60 over -
    w1.0.1/1 5 begin k
    w1.0.1/1 10 granted 5
    w1.0.1/1 10 step 90000
    w1.0.1/1 30 over -
    w1.0.2/1 5 begin q
    w1.0.2/1 10 granted 6
    w1.0.2/1 10 step 90000
    w1.0.2/1 40 over -
    w2.0.1/1 50 begin k
    w2.0.1/1 60 granted 8
    w2.0.1/1 60 step 99000
    w2.0.1/1 70 over -
    ";

/// What is said of calls for several keys.
fn said(log: &str) -> String {
    let lines = lines(log);
    let holds = holds(&lines);
    let mut found = check_together(&lines, &holds);
    found.extend(check_found(&lines, &holds));
    assert!(found.iter().all(|found| found.class() == 'i'), "{found:?}");
    let said = found.iter().map(ToString::to_string);
    said.map(|said| said.replace("(i) ", "")).collect::<Vec<_>>().join(", ")
}

#[test]
fn each_key_of_a_call_is_judged_as_any_other() {
    assert_eq!(classes(GROUP), "");
    assert_eq!(said(GROUP), "");
    assert_eq!(classes(&GROUP.replace("w1.0.1/1 30 over", "w1.0.1/1 41 over")), "a", "k");
    assert_eq!(classes(&GROUP.replace("w1.0.2/1 40 over", "w1.0.2/1 41 over")), "a", "q");
    assert_eq!(classes(&GROUP.replace("w2.0.1/1 60", "w2.0.1/1 59")), "a", "behind it");
    let killed = GROUP.replace("w0.0.1/1&1 60 over -", "").replace("w0.0.1/1&2 60 over -", "");
    assert_eq!(classes(&killed), "a", "it has them until its last deadline");
}

#[test]
fn the_token_of_a_call_is_above_those_of_each_key_before_it() {
    let begun = GROUP.replace("1 10 begin", "1 11 begin").replace("2 10 begin", "2 11 begin");
    assert_eq!(classes(&begun), "");
    assert_eq!(classes(&begun.replace("granted 7", "granted 6")), "b", "not above the one of q");
    assert_eq!(classes(&begun.replace("granted 5", "granted 7")), "b", "not above the one of k");
    let behind = begun.replace("w2.0.1/1 50", "w2.0.1/1 55").replace("granted 8", "granted 7");
    assert_eq!(classes(&behind), "b", "of whoever comes behind it");
}

#[test]
fn a_body_has_all_keys_under_one_token() {
    let one = "w0.0.1/1, for several keys: its body ran without [\"q\"], with 1 keys";
    assert_eq!(said(&GROUP.replace("w0.0.1/1&1 40 granted 7", "")), one);
    let one = "w0.0.1/1, for several keys: its body ran without [], with 1 keys";
    let twice = GROUP.replace("w0.0.1/1&1 10 begin q", "w0.0.1/1&1 10 begin k");
    assert_eq!(said(&twice), one, "it wanted one key twice");
    let tokens = GROUP.replace("w0.0.1/1&2 40 granted 7", "w0.0.1/1&2 40 granted 8");
    assert_eq!(said(&tokens), "w0.0.1/1, for several keys: q has token 7, and k has 8");
    let before = GROUP.replace("w0.0.1/1&2 40 granted 7", "w0.0.1/1&2 35 granted 7");
    assert_eq!(said(&before), "w0.0.1/1, for several keys: its body had q and k one by one");
    let after = GROUP.replace("w0.0.1/1&2 60 over", "w0.0.1/1&2 55 over");
    assert_eq!(said(&after), "w0.0.1/1, for several keys: q and k were let go one by one");
    let none = GROUP.replace("40 granted 7", "40 failed Timeout").replace("40 step", "41 stalled");
    assert_eq!(said(&none), "", "it has none");
}

#[test]
fn a_key_of_a_body_stands_on_the_servers() {
    let found = |at: u64, what: &str| format!("{GROUP}w0.0.1/1&2 {at} found {what}");
    assert_eq!(said(&found(42, "-")), "");
    let none = "0 have it, 1 do not, 0 may, and 1 are needed";
    let absent = format!("w0.0.1/1&2 had begun without its key on the servers: {none}");
    assert_eq!(said(&found(42, none)), absent);
    assert_eq!(said(&found(90, none)), absent);
    assert_eq!(said(&found(91, none)), "", "the answer came behind its deadline");
}

#[test]
fn a_call_may_have_a_key_while_it_waits_for_a_larger_one() {
    // It may have k from 30 on, as q is held until 40.
    assert_eq!(idle(GROUP), "k w1.0.1/1 5-10, q w1.0.2/1 5-10");
    let sooner = GROUP.replace("w2.0.1/1 50 begin", "w2.0.1/1 32 begin");
    assert_eq!(idle(&sooner), idle(GROUP), "others have to wait for that");
    let last = GROUP.replace("w1.0.2/1 40 over", "w1.0.2/1 34 over");
    let behind = "k w1.0.1/1 5-10, k w0.0.1/1&2 34-40, q w1.0.2/1 5-10, q w0.0.1/1&1 34-40";
    assert_eq!(idle(&last), behind, "both are free");
    let first = last.replace("w1.0.1/1 30 over", "w1.0.1/1 36 over");
    let behind = "k w1.0.1/1 5-10, k w0.0.1/1&2 36-40, q w1.0.2/1 5-10, q w0.0.1/1&1 36-40";
    assert_eq!(idle(&first), behind, "it does not wait for q as long as k is held");
    let other = format!("{first}w2.0.2/1 30 begin q\nw2.0.2/1 38 failed Timeout");
    let behind = behind.replace("q w0.0.1/1&1 36-40", "q w2.0.2/1 34-40");
    assert_eq!(idle(&other), behind, "q is not kept for it meanwhile");
}

#[test]
fn a_call_that_has_ended_has_no_key() {
    let failed =
        GROUP.replace("40 granted 7", "35 failed Timeout").replace("w2.0.1/1 50", "w2.0.1/1 32");
    assert_eq!(idle(&failed), "k w1.0.1/1 5-10, k w2.0.1/1 35-60, q w1.0.2/1 5-10");
    // What the dead have ends with a lease, of 100 ms here.
    let killed = failed.replace("w0.0.1/1&1 35 failed Timeout", "w0.0 35 killed -");
    let killed = lines(
        &killed
            .replace("w0.0.1/1&2 35 failed Timeout", "")
            .replace("w2.0.1/1 60", "w2.0.1/1 100060"),
    );
    let found = idle_times(&killed, &holds(&killed));
    let of_k: Vec<_> = found.iter().filter(|idle| idle.key == "k").collect();
    assert_eq!((of_k.len(), of_k[1].from), (2, 35_000 + 100_000_000), "{found:?}");
}

#[test]
fn calls_that_wait_for_each_other_are_found() {
    let one = "w0.0.1/1 10 together 2 100
        w0.0.1/1&1 10 begin q
        w0.0.1/1&2 10 begin k
        w0.0.1/1&1 500 failed Timeout
        w0.0.1/1&2 500 failed Timeout";
    let other = one.replace("w0.0.1/1", "w1.0.1/1").replace("begin q", "begin p");
    let other = other.replace("begin k", "begin q").replace("begin p", "begin k");
    assert_eq!(idle(&format!("{one}\n{other}")), "k w0.0.1/1&2 10-500, q w0.0.1/1&1 10-500");
    // Three in a row, of which the last waits for a body.
    let chain = "w2.0.1/1 10 together 2 100
        w2.0.1/1&1 10 begin q
        w2.0.1/1&2 10 begin z
        w2.0.1/1&1 500 failed Timeout
        w2.0.1/1&2 500 failed Timeout
        w3.0.1/1 1 begin z
        w3.0.1/1 1 granted 5
        w3.0.1/1 1 step 90000
        w3.0.1/1 500 over -";
    assert_eq!(idle(&format!("{one}\n{chain}")), "");
    let ends = chain.replace("w3.0.1/1 500 over", "w3.0.1/1 400 over");
    let all = "k w0.0.1/1&2 400-500, q w0.0.1/1&1 400-500, z w2.0.1/1&2 400-500";
    assert_eq!(idle(&format!("{one}\n{ends}")), all);
}

/// A call that waits for 100 ms, in a process that may be frozen: in nanoseconds.
fn endless(more: &str, ends_ms: u64) -> String {
    let log = format!(
        "w0.0.1/1 1000000 waits 100
        w0.0.1/1&1 1000000 begin k
        w0.0.1/1&2 1000000 begin q
        {more}
        w0.0.1/1&1 {ends_ms}000000 failed Timeout
        w0.0.1/1&2 {ends_ms}000000 failed Timeout\n"
    );
    let log: Vec<_> = log.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let found = check_ends(&parse(&format!("{}\n", log.join("\n"))), 50);
    assert!(found.iter().all(|found| found.class() == 'j'), "{found:?}");
    found.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[test]
fn a_call_ends_with_its_wait() {
    assert_eq!(endless("", 151), "");
    let late = "(j) w0.0.1/1 was to wait for 100 ms, and waited for 151";
    assert_eq!(endless("", 152), late);
    let frozen = "w0.0 50000000 frozen -\nw0.0 60000000 thawed -";
    assert_eq!(endless(frozen, 161), "");
    assert_eq!(endless(frozen, 162), late);
    assert_eq!(endless(&frozen.replace("w0.0", "w0.1"), 161), late.replace("151", "160"));
    let stalled = "w0.0.1/1&1 55000000 stalled -\nw0.0.1/1&1 70000000 resumed -";
    assert_eq!(endless(&format!("{frozen}\n{stalled}"), 171), "", "20 ms by both");
    assert_eq!(endless(&format!("{frozen}\n{stalled}"), 172), late);
    assert_eq!(endless("w0.0 50000000 frozen -", 900), "", "it was killed then");
}
