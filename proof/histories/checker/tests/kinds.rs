//! Logs of readers, writers and permits.

use super::{classes, idle, lines};
use crate::checker::{Violation, check_passing, check_store, holds};
use crate::store::{Access, Verb};

/// Two readers side by side, and a writer behind them.
const READING: &str = "a/1 10 begin k read
    a/1 20 granted 5
    a/1 20 step 90000
    a/1 50 step 120000
    a/1 60 over -
    b/1 15 begin k read
    b/1 30 granted 6
    b/1 30 step 99000
    b/1 70 over -
    c/1 40 begin k
    c/1 70 granted 7
    c/1 70 step 99000
    c/1 80 over -
    ";

#[test]
fn readers_are_side_by_side_and_never_beside_a_writer() {
    assert_eq!(classes(READING), "");
    assert_eq!(classes(&READING.replace(" read", "")), "a", "two writers");
    assert_eq!(classes(&READING.replacen(" read", "", 1)), "a", "a writer, and a reader in it");
    let second = READING.replace("b/1 15 begin k read", "b/1 15 begin k");
    assert_eq!(classes(&second), "a", "a reader, and a writer in it");
    assert_eq!(classes(&READING.replace("c/1 70 granted", "c/1 69 granted")), "a");
    let first = READING.replace("b/1 70 over", "b/1 65 over").replace("c/1 70", "c/1 66");
    assert_eq!(classes(&first), "");
    let outlived = first.replace("a/1 60 over", "a/1 67 over");
    assert_eq!(classes(&outlived), "a", "the one that came first is the last to leave");
}

#[test]
fn a_reader_that_was_killed_reads_until_its_last_deadline() {
    let killed = READING.replace("b/1 70 over -", "");
    assert_eq!(classes(&killed), "a");
    assert_eq!(classes(&killed.replace("c/1 70", "c/1 99").replace("c/1 80", "c/1 110")), "");
}

/// Three holders of two permits, one after the other, and somebody who wants the key for itself.
const PERMITS: &str = "a/1 10 begin k permit-of-2
    a/1 20 granted 5
    a/1 20 step 90000
    a/1 60 over -
    b/1 15 begin k permit-of-2
    b/1 30 granted 6
    b/1 30 step 90000
    b/1 70 over -
    c/1 40 begin k permit-of-2
    c/1 60 granted 7
    c/1 60 step 90000
    c/1 80 over -
    d/1 45 begin k
    d/1 80 granted 8
    d/1 80 step 99000
    d/1 90 over -
    ";

#[test]
fn there_are_no_more_holders_than_permits() {
    assert_eq!(classes(PERMITS), "");
    let third = PERMITS.replace("c/1 60 granted", "c/1 59 granted");
    assert_eq!(classes(&third), "a");
    assert_eq!(classes(&third.replace("permit-of-2", "permit-of-3")), "");
    let one = third.replace("c/1 40 begin k permit-of-2", "c/1 40 begin k permit-of-3");
    assert_eq!(classes(&one), "", "who asks brings its own number");
    let first = third.replace("a/1 10 begin k permit-of-2", "a/1 10 begin k permit-of-3");
    assert_eq!(classes(&first), "", "it may have been granted last, and have heard of it first");
    assert_eq!(classes(&third.replace("permit-of-2", "permit-of-1")), "aa");
}

#[test]
fn a_key_has_one_kind_at_a_time() {
    assert_eq!(classes(&PERMITS.replace("d/1 80 granted", "d/1 79 granted")), "a");
    assert_eq!(classes(&PERMITS.replacen("permit-of-2", "read", 1)), "a");
}

/// A writer that becomes a reader, and a writer behind it.
const DOWNGRADE: &str = "a/1 10 begin k
    a/1 20 granted 5
    a/1 20 step 90000
    a/1 40 over -
    a/1+ 40 downgrade a/1
    a/1+ 50 granted 6
    a/1+ 50 step 90000
    a/1+ 60 over -
    b/1 30 begin k
    b/1 60 granted 7
    b/1 60 step 90000
    b/1 70 over -
    ";

#[test]
fn nobody_comes_in_while_a_writer_becomes_a_reader() {
    assert_eq!(classes(DOWNGRADE), "");
    let between = DOWNGRADE.replace("b/1 60", "b/1 42").replace("b/1 70 over", "b/1 48 over");
    let between = between.replace("granted 6", "granted 9");
    assert_eq!(classes(&between), "a");
    assert_eq!(classes(&between.replace("b/1 30 begin k", "b/1 30 begin k read")), "");
    let lost = between.replace("a/1+ 50", "x/1 50").replace("a/1+ 60", "x/1 60");
    let lost = format!("x/1 1 begin q\n{lost}a/1+ 50 failed Lost");
    assert_eq!(classes(&lost), "", "it lost its lease, and is told");
}

#[test]
fn tokens_grow_over_all_kinds() {
    let later = READING.replace("c/1 40 begin", "c/1 31 begin");
    assert_eq!(classes(&later), "");
    assert_eq!(classes(&later.replace("granted 7", "granted 6")), "b", "a writer behind readers");
    let reader = DOWNGRADE.replace("granted 6", "granted 5");
    assert_eq!(classes(&reader), "b", "a reader behind a writer");
    let readers = READING.replace("granted 6", "granted 5");
    assert_eq!(classes(&readers), "", "two readers that began before each other's grant");
    let after = readers.replace("b/1 15 begin", "b/1 25 begin");
    assert_eq!(classes(&after), "b");
}

#[test]
fn a_view_may_change_only_when_the_lease_is_over() {
    let seen = READING.replace("a/1 60 over", "a/1 55 view -\na/1 60 over");
    assert_eq!(classes(&seen), "");
    assert_eq!(classes(&seen.replace("view -", "view [0, 0, 0] became [7, 0, 7]")), "g");
    let late = seen.replace("a/1 55 view -", "a/1 121 view [0, 0, 0] became [7, 0, 7]");
    let late = late.replace("a/1 60 over", "a/1 122 over").replace("c/1 70", "c/1 120");
    assert_eq!(classes(&late.replace("c/1 80", "c/1 130").replace("99000", "199000")), "");
}

/// A writer that waits behind a reader, and a reader that begins later.
const PASSING: &str = "w0.0.1/1 10 begin k read
    w0.0.1/1 20 granted 5
    w0.0.1/1 20 step 9000000
    w0.0.1/1 900 over -
    w1.0.1/1 30 begin k
    w1.0.1/1 920 granted 6
    w0.0.2/1 500 begin k read
    w0.0.2/1 930 granted 7
    ";

fn passed(log: &str) -> String {
    let lines = lines(log);
    // In the slack of one part of a history, whose moments are microseconds here.
    let mut slow = lines.clone();
    for line in &mut slow {
        line.at *= 1_000;
    }
    let found = check_passing(&slow, &holds(&slow), 400);
    assert!(found.iter().all(|found| found.class() == 'h'), "{found:?}");
    found.iter().map(Violation::to_string).collect::<Vec<_>>().join(", ")
}

#[test]
fn a_reader_does_not_pass_a_writer_that_waits() {
    assert_eq!(passed(PASSING), "");
    let passes = PASSING.replace("w0.0.2/1 930", "w0.0.2/1 919");
    assert_eq!(passed(&passes), "(h) k: 1 readers, w0.0.2/1 first, passed w1.0.1/1");
    assert_eq!(passed(&passes.replace("w0.0.2/1 500", "w0.0.2/1 430")), "", "it began as early");
    assert_eq!(passed(&passes.replace("500 begin k read", "500 begin q read")), "", "another key");
    let gives_up = passes.replace("w1.0.1/1 920 granted 6", "w1.0.1/1 900 failed Timeout");
    assert_eq!(passed(&gives_up), "");
    let stalls =
        passes.replace("w1.0.1/1 30 begin k", "w1.0.1/1 30 begin k\nw1.0.1/1 31 stalled -");
    assert_eq!(passed(&stalls), "", "nobody polls it");
}

#[test]
fn a_key_is_idle_for_a_reader_while_only_readers_have_it() {
    assert_eq!(idle(READING), "k a/1 10-20, k b/1 20-30");
    let behind = READING.replace("c/1 40 begin", "c/1 18 begin");
    assert_eq!(idle(&behind), "k a/1 10-20", "a writer waits before it");
    let alone = READING.replacen(" read", "", 1).replace("b/1 30", "b/1 61");
    assert_eq!(idle(&alone), "k a/1 10-20, k b/1 60-61", "a writer has it");
}

#[test]
fn a_key_is_idle_while_a_permit_is_left() {
    assert_eq!(idle(PERMITS), "k a/1 10-20, k b/1 20-30");
    let left = PERMITS.replace("d/1 45 begin k", "d/1 75 begin k").replace("c/1 60", "c/1 64");
    assert_eq!(idle(&left), "k a/1 10-20, k b/1 20-30, k c/1 60-64");
    assert_eq!(
        idle(&left.replace("d/1 75 begin", "d/1 61 begin")),
        "k a/1 10-20, k b/1 20-30, k c/1 60-61"
    );
}

#[test]
fn the_store_lets_no_writer_behind_a_reader() {
    let access = |fencing, verb| Access { key: "k".to_owned(), fencing, verb, accepted: true };
    let sound = [access(5, Verb::Claim), access(7, Verb::Look), access(6, Verb::Look)];
    assert_eq!(check_store(&sound), []);
    for wrong in
        [access(4, Verb::Look), access(7, Verb::Claim), access(5, Verb::Write { value: 1 })]
    {
        let mut accesses = sound.to_vec();
        accesses.push(wrong.clone());
        let found = check_store(&accesses);
        assert!(matches!(found[..], [Violation::Fence { .. }]), "{wrong:?}: {found:?}");
    }
}
