//! Which promises are broken how often, in what kind of history: for work on the engines, while a
//! cure is not complete.
//!
//! `REDLOCK_SURVEY=2000 scripts/simulate` surveys so many.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use super::history::play;
use super::witness::Tally;

/// So many seeds are named for each kind of violation.
const NAMED: usize = 20;
/// What a history is sorted by.
const TAGS: [&str; 4] =
    ["is_calm: true", "has_staller: true", "keeps_guards: true", "can_hear: false"];

struct Broken {
    seed: u64,
    violation: String,
    tags: String,
}

/// Plays so many histories to their ends, whatever is broken in them, and prints it.
pub(super) fn survey(histories: u64) {
    let next = AtomicU64::new(0);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (mut total, mut broken) = (Tally::default(), Vec::new());
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(|| work(histories, &next))).collect();
        for (tally, found) in workers.into_iter().map(|worker| worker.join().unwrap()) {
            total = total.plus(tally);
            broken.extend(found);
        }
    });
    broken.sort_unstable_by_key(|broken| broken.seed);
    let mut kinds: BTreeMap<String, Vec<Broken>> = BTreeMap::new();
    for broken in broken {
        // Without the numbers, which differ.
        let words = broken.violation.split_whitespace().skip(3).take(8);
        let words: Vec<_> = words.filter(|word| word.parse::<u64>().is_err()).collect();
        kinds.entry(format!("{} {}", words.join(" "), broken.tags)).or_default().push(broken);
    }
    eprintln!("{histories} histories: {total:?}");
    for (kind, found) in kinds {
        eprintln!("{} times: {kind}", found.len());
        for Broken { seed, violation, .. } in found.iter().take(NAMED) {
            eprintln!("    seed {seed}: {violation}");
        }
    }
}

fn work(histories: u64, next: &AtomicU64) -> (Tally, Vec<Broken>) {
    let (mut total, mut broken) = (Tally::default(), Vec::new());
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= histories {
            return (total, broken);
        }
        let played = play(seed, false);
        total = total.plus(played.tally);
        if let Some(violation) = played.violation {
            let trace = play(seed, true).trace.unwrap_or_default();
            let tags: Vec<_> = TAGS.into_iter().filter(|tag| trace.contains(tag)).collect();
            let nodes = trace.matches("NodePlan").count();
            let tags = format!("[{}; {nodes} nodes]", tags.join(", "));
            broken.push(Broken { seed, violation, tags });
        }
    }
}
