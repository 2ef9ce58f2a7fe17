//! One history without faults from its first server to its verdict.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fault_kit::{Process, ms, secs, time_passes};
use redlock::deadpool_redis::redis::Value;

use super::Calm;
use crate::arena::Arena;
use crate::history::{Outcome, Verdict, leftovers, outcome, tidy_up};
use crate::log::{Event, Line, Log, Moment, now, read_all};
use crate::plan::Plan;
use crate::store::Totals;
use crate::topology::Topology;
use crate::worker::LONGEST_MS;

/// The parent's log; the other logs are called after their processes.
const PARENT: &str = "parent";

#[derive(Debug)]
struct Crew<'a> {
    calm: &'a Calm,
    arena: Arena,
    /// `None`: it was killed.
    processes: Vec<Option<Process>>,
    log: Log,
}

pub(crate) async fn run(calm: Calm, length_ms: u64) -> Outcome {
    let dir = format!("redlock-calm-{}-{}", std::process::id(), calm.seed);
    let dir = std::env::temp_dir().join(dir);
    std::fs::create_dir_all(&dir).expect("a temp directory can be made");
    let arena = Arena::start(calm.topology, calm.seed, &calm.lock_keys()).await;
    let start = now();
    let mut crew = Crew::start(&calm, arena, &dir, start + length_ms * 1_000_000);
    let lateness = tokio::spawn(lateness(start + length_ms * 1_000_000));
    crew.strike().await;
    crew.idle().await;
    let longest_ms = calm.longest_expire_ms().max(LONGEST_MS);
    let left = leftovers(&crew.arena, &calm.lock_keys(), longest_ms).await;
    let lines = crew.end(&dir);
    let plan = Plan::calm(calm.clone());
    let verdict = Verdict::of(&plan, &lines, &[], &left);
    let mut outcome = outcome(plan, &lines, BTreeMap::new(), Totals::default(), verdict);
    if let Some(idle) = &mut outcome.idle {
        idle.late_ms = lateness.await.expect("it only looks at the clock");
    }
    tidy_up(&dir, &outcome);
    outcome
}

/// By how many milliseconds a timer of this process was late at most.
async fn lateness(until: Moment) -> u64 {
    let mut most = 0;
    while now() < until {
        let before = now();
        time_passes(ms(5)).await;
        most = most.max((now() - before) / 1_000_000 - 5);
    }
    most
}

impl Crew<'_> {
    fn start<'a>(calm: &'a Calm, arena: Arena, dir: &Path, until: Moment) -> Crew<'a> {
        let topology = Topology::ALL.iter().position(|one| *one == calm.topology);
        let spawn = |n: usize| {
            let log = path(dir, &format!("w{n}.0"));
            let args = [
                calm.seed.to_string(),
                topology.unwrap_or(0).to_string(),
                n.to_string(),
                log.to_str().expect("a temp directory is text").to_owned(),
                arena.urls().join(","),
                until.to_string(),
            ];
            Some(Process::spawn_program("calm", &args.each_ref().map(String::as_str)))
        };
        let processes = (0..calm.processes.len()).map(spawn).collect();
        Crew { calm, arena, processes, log: Log::open(&path(dir, PARENT)) }
    }

    /// What the parent does to keys and processes, at its moments. The moment before it acts is
    /// what counts.
    async fn strike(&mut self) {
        let mut passed = 0;
        for (n, &at) in self.calm.strikes.iter().enumerate() {
            time_passes(ms(at - passed)).await;
            passed = at;
            if self.calm.scene.kills() {
                // Neither the first nor any that is dead.
                let dead = n + 1;
                if let Some(mut process) = self.processes.get_mut(dead).and_then(Option::take) {
                    self.log.write(&format!("w{dead}.0"), now(), Event::Killed);
                    process.sigkill();
                }
            } else {
                self.delete("k-0").await;
            }
        }
    }

    async fn delete(&self, key: &str) {
        let at = now();
        let mut is_gone = false;
        for server in self.arena.masters().await {
            let deleted = server.raw().try_cmd(&["DEL", &format!("lock:{key}")]).await;
            is_gone |= deleted == Ok(Value::Int(1));
        }
        if is_gone {
            self.log.write(PARENT, at, Event::Gone { key: key.to_owned() });
        }
    }

    /// Waits until all who live have done their work and given back what they held.
    async fn idle(&mut self) {
        for process in self.processes.iter_mut().flatten() {
            process.event_within(secs(60), "idle").await;
        }
    }

    /// Ends all processes and reads what they wrote.
    fn end(mut self, dir: &Path) -> Vec<Line> {
        for process in self.processes.iter_mut().flatten() {
            process.sigkill();
        }
        read_all(dir)
    }
}

fn path(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.log"))
}
