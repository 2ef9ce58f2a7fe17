//! Plays many histories, on all cores.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::history::{ALL_KINDS, GROUPS, ONE_GUARDED, Played, has_long_leases, play};
use super::survey::survey;
use super::witness::Tally;

/// Enough for a look in passing; `scripts/simulate` plays more.
const HISTORIES: u64 = 200;
/// Among so many there are some dozens with long leases.
const SEEDS: u64 = 400;
/// For so many histories there is one more with groups of holders, or a crowd, one of all kinds,
/// and one of a guarded node.
const EACH: u64 = 3;

#[test]
fn simulated_histories_keep_every_promise() {
    if let Some(seed) = number("REDLOCK_SEED") {
        let Played { tally, violation, trace } = play(seed, true);
        eprintln!("{}{tally:#?}", trace.unwrap_or_default());
        assert_eq!(violation, None, "seed {seed}");
        return;
    }
    if let Some(histories) = number("REDLOCK_SURVEY") {
        return survey(histories);
    }
    let histories = number("REDLOCK_HISTORIES").unwrap_or(HISTORIES);
    let total = play_all(0, histories);
    eprintln!("{histories} histories: {total:?}");
    // Faults must not have kept everybody out, and there must have been some.
    assert!(total.holds > 5 * histories && total.renewals > histories / 2, "{total:?}");
    assert!(total.retained > histories / 4, "{total:?}");
    assert!(total.lost > histories / 10 && total.refused > histories, "{total:?}");
    assert!(total.handover_watchdog > histories && total.passes > histories / 4, "{total:?}");
    assert!(total.several > histories / 10 && total.re_entered > histories / 10, "{total:?}");
}

#[test]
fn simulated_histories_of_groups_and_crowds_keep_every_promise() {
    if number("REDLOCK_SEED").or_else(|| number("REDLOCK_SURVEY")).is_some() {
        return;
    }
    let histories = number("REDLOCK_HISTORIES").unwrap_or(HISTORIES) / EACH;
    let total = play_all(GROUPS, histories);
    eprintln!("{histories} histories of groups and crowds: {total:?}");
    assert!(total.holds > 5 * histories && total.renewals > histories / 2, "{total:?}");
    assert!(total.lost > histories / 10 && total.handover_watchdog > histories, "{total:?}");
    assert!(total.beside_others > histories && total.permits > histories / 4, "{total:?}");
    assert!(total.downgraded > histories / 10, "{total:?}");
}

#[test]
fn simulated_histories_of_all_kinds_keep_every_promise() {
    if number("REDLOCK_SEED").or_else(|| number("REDLOCK_SURVEY")).is_some() {
        return;
    }
    let histories = number("REDLOCK_HISTORIES").unwrap_or(HISTORIES) / EACH;
    let total = play_all(ALL_KINDS, histories);
    eprintln!("{histories} histories of all kinds: {total:?}");
    assert!(total.holds > 5 * histories && total.beside_others > histories / 4, "{total:?}");
    assert!(total.permits > histories / 4 && total.retained > histories / 10, "{total:?}");
    assert!(total.downgraded > histories / 10, "{total:?}");
}

#[test]
fn simulated_histories_of_one_guarded_node_keep_every_promise() {
    if number("REDLOCK_SEED").or_else(|| number("REDLOCK_SURVEY")).is_some() {
        return;
    }
    let histories = number("REDLOCK_HISTORIES").unwrap_or(HISTORIES) / EACH;
    let total = play_all(ONE_GUARDED, histories);
    eprintln!("{histories} histories of one guarded node: {total:?}");
    assert!(total.holds > 5 * histories && total.renewals > histories / 2, "{total:?}");
    assert!(total.lost > histories / 10, "{total:?}");
}

/// So many histories, from the seed `first` on, on all cores.
fn play_all(first: u64, histories: u64) -> Tally {
    let (next, end) = (AtomicU64::new(first), first + histories);
    let failed = Mutex::new(None::<(u64, String)>);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let total = std::thread::scope(|scope| {
        let workers: Vec<_> =
            (0..cores).map(|_| scope.spawn(|| work(end, &next, &failed))).collect();
        let tallies = workers.into_iter().map(|worker| worker.join().unwrap());
        tallies.fold(Tally::default(), Tally::plus)
    });
    if let Some((seed, violation)) = failed.into_inner().unwrap() {
        panic!("seed {seed}: {violation}\nto see it: scripts/simulate --seed {seed}");
    }
    total
}

fn work(end: u64, next: &AtomicU64, failed: &Mutex<Option<(u64, String)>>) -> Tally {
    let mut total = Tally::default();
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= end {
            return total;
        }
        let played = play(seed, false);
        total = total.plus(played.tally);
        if let Some(violation) = played.violation {
            // The lowest seed, so that the same code always names the same one.
            let mut failed = failed.lock().unwrap();
            if failed.as_ref().is_none_or(|(known, _)| seed < *known) {
                *failed = Some((seed, violation));
            }
            next.store(end, Ordering::Relaxed);
        }
    }
}

fn number(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|error| panic!("{variable}={value}: {error}")))
}

/// Enough long leases to find what is left behind: few histories have them.
#[test]
fn simulated_histories_of_long_leases_leave_nothing_behind() {
    if ["REDLOCK_SEED", "REDLOCK_SURVEY", "REDLOCK_HISTORIES"]
        .into_iter()
        .any(|name| number(name).is_some())
    {
        return;
    }
    let mut total = Tally::default();
    for seed in (HISTORIES..HISTORIES + SEEDS).filter(|seed| has_long_leases(*seed)) {
        let Played { tally, violation, .. } = play(seed, false);
        total = total.plus(tally);
        assert_eq!(violation, None, "seed {seed}; to see it: scripts/simulate --seed {seed}");
    }
    assert!(total.departures > SEEDS / 10, "{total:?}");
}

#[test]
fn a_simulated_history_is_replayed_by_its_seed() {
    let others = [GROUPS, ALL_KINDS, ONE_GUARDED].map(|first| first..first + 10);
    for seed in (0..20).chain(others.into_iter().flatten()) {
        let (once, again) = (play(seed, true), play(seed, true));
        let lines = |played: &Played| played.trace.clone().unwrap_or_default();
        let (once, again) = (lines(&once), lines(&again));
        let differ = once.lines().zip(again.lines()).find(|(one, other)| one != other);
        assert_eq!((differ, once.len()), (None, again.len()), "seed {seed}");
    }
}
