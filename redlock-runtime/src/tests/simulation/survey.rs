//! Which promises are broken how often: for work on the engines, while a cure is not complete.
//!
//! `REDLOCK_HISTORIES=2000 cargo test --release -p redlock-runtime --lib -- --ignored survey --nocapture`

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use super::histories::number;
use super::history::play;

/// So many seeds are named for each kind of violation.
const NAMED: usize = 40;

#[test]
#[ignore = "breaks nothing: prints what is broken"]
fn survey_of_simulated_histories() {
    let histories = number("REDLOCK_HISTORIES").unwrap_or(2000);
    let next = AtomicU64::new(0);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut broken: Vec<(u64, String)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(|| work(histories, &next))).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    broken.sort_unstable();
    let mut kinds: BTreeMap<String, Vec<(u64, String)>> = BTreeMap::new();
    for (seed, violation) in broken {
        // Without the numbers, which differ.
        let words = violation.split_whitespace().skip(3);
        let kind: Vec<_> = words.filter(|word| word.parse::<u64>().is_err()).collect();
        kinds.entry(kind.join(" ")).or_default().push((seed, violation));
    }
    eprintln!("{histories} histories");
    for (kind, seeds) in kinds {
        eprintln!("{} times: {kind}", seeds.len());
        for (seed, violation) in seeds.iter().take(NAMED) {
            eprintln!("    seed {seed}: {violation}");
        }
    }
}

fn work(histories: u64, next: &AtomicU64) -> Vec<(u64, String)> {
    let seeds = std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)));
    let seeds = seeds.take_while(|seed| *seed < histories);
    seeds.filter_map(|seed| Some((seed, play(seed, false).violation?))).collect()
}
