//! Three workers add one to a fenced counter until it stands at the total, while everything that
//! can go wrong does: the total must be exact.

use std::collections::BTreeMap;

use crate::history::{Outcome, Run, Size};
use crate::log::now;
use crate::plan::{Plan, Precautions};
use crate::topology::Topology;

const WORKERS: u64 = 3;
const WAVE_MS: u64 = 4_000;
const HOUR_NS: u64 = 3_600_000_000_000;

pub(crate) async fn run(
    total: u64,
    topology: Topology,
    seed: u64,
    precautions: Precautions,
) -> Outcome {
    let size = Size { workers: 3, tasks: 1, keys: 1, length_ms: WAVE_MS };
    let mut plan = Plan::wave(seed, topology, WAVE_MS, precautions);
    let run = Run::start(&plan, size, now() + HOUR_NS, total / WORKERS).await;
    // Each wave is noted when it is over.
    plan.faults.clear();
    let mut faults = BTreeMap::new();
    for wave in seed.. {
        let next = Plan::wave(wave, topology, WAVE_MS, precautions);
        for (kind, count) in run.suffer(&next, WAVE_MS).await {
            *faults.entry(kind).or_default() += count;
        }
        plan.faults.extend(next.faults);
        let done = run.store.totals().writes;
        eprintln!("{done} of {total} after {} faults", faults.values().sum::<usize>());
        if done >= total / WORKERS * WORKERS {
            break;
        }
    }
    run.finish(plan, faults).await
}
