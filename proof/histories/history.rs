//! One history from its first server to its verdict.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use fault_kit::{Server, ms, secs, time_passes};
use tokio::task::{JoinError, JoinSet};

use crate::arena::Arena;
use crate::checker::{
    Idle, Leftover, Violation, Ways, check_ends, check_failures, check_found, check_holds,
    check_idle, check_kept, check_late, check_leftovers, check_passing, check_releases,
    check_store, check_together, holds, idle_times,
};
use crate::fleet::{Fleet, Orders};
use crate::inspector::Inspector;
use crate::kind::Kind;
use crate::log::{Event, Line, now};
use crate::names::Names;
use crate::plan::Plan;
use crate::store::{Access, Store, Totals};
use crate::wanted::{call_of, is_first};
use crate::worker::LONGEST_MS;

/// By how much a call may go on beyond its wait: a last try of each key, on a machine with two
/// cores and other work.
const END_SLACK_MS: u64 = 2_000;

/// How much is done in a history.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub workers: usize,
    pub tasks: usize,
    pub keys: usize,
    pub length_ms: u64,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub plan: Plan,
    pub attempts: usize,
    pub failed: BTreeMap<String, usize>,
    /// What awaited releases found.
    pub released: BTreeMap<String, usize>,
    pub holds: usize,
    /// How many of these were of several keys.
    pub groups: usize,
    /// Late steps that may be no fault of the library.
    pub forgiven: usize,
    pub faults: BTreeMap<Kind, usize>,
    pub totals: Totals,
    /// All that were found, and those of them that must not be under these faults.
    pub violations: Vec<Violation>,
    pub failures: Vec<String>,
    /// Of a history without faults.
    pub idle: Option<Idleness>,
}

/// How long keys were free while somebody waited.
#[derive(Debug)]
pub(crate) struct Idleness {
    pub longest_ms: u64,
    /// How many such times were longer than 10 ms.
    pub noticeable: usize,
    pub bound_ms: u64,
    /// By how much the machine was late at most when it woke the parent: what an idle time may owe
    /// to other work.
    pub late_ms: u64,
    /// Where all are told.
    pub ways: Ways,
}

impl Outcome {
    /// Of a history that did not come to its end.
    pub(crate) fn broken(plan: Plan, panic: &JoinError) -> Outcome {
        Outcome {
            plan,
            attempts: 0,
            failed: BTreeMap::new(),
            released: BTreeMap::new(),
            holds: 0,
            groups: 0,
            forgiven: 0,
            faults: BTreeMap::new(),
            totals: Totals::default(),
            violations: Vec::new(),
            failures: vec![format!("it broke off: {panic}")],
            idle: None,
        }
    }
}

/// The servers, processes and resources of one run.
#[derive(Debug)]
pub(crate) struct Run {
    pub store: Store,
    names: Names,
    arena: Arc<Arena>,
    fleet: Arc<Fleet>,
    dir: PathBuf,
}

pub(crate) async fn run(plan: Plan, size: Size) -> Outcome {
    let until = now() + size.length_ms * 1_000_000;
    let run = Run::start(&plan, size, until, 0).await;
    let faults = run.suffer(&plan, size.length_ms).await;
    run.finish(plan, faults).await
}

impl Run {
    pub(crate) async fn start(plan: &Plan, size: Size, until: u64, goal: u64) -> Run {
        let dir = format!("redlock-history-{}-{}", std::process::id(), plan.seed);
        let dir = std::env::temp_dir().join(dir);
        std::fs::create_dir_all(&dir).expect("a temp directory can be made");
        let start = now();
        let names = Names::of(plan.seed, size.keys);
        let arena = Arena::start(plan.topology, plan.seed, &names.lock_keys()).await;
        let arena = Arc::new(arena);
        let inspector = Inspector::new(Arc::clone(&arena), plan, names.prefix);
        let store = Store::start(&Orders::socket(&dir), inspector);
        let orders = Orders {
            seed: plan.seed,
            dir: dir.clone(),
            urls: arena.urls(),
            tasks: size.tasks,
            names,
            topology: plan.topology,
            // The start of the servers does not count.
            until: until + (now() - start),
            goal,
            is_guarded: plan.is_guarded(),
            min_replicas: plan.min_replicas(),
        };
        let fleet = Fleet::start(orders, size.workers);
        Run { store, names, arena, fleet: Arc::new(fleet), dir }
    }

    /// Carries out all faults of a plan, and counts those that hit. One that would begin only when
    /// the work is over is left out.
    pub(crate) async fn suffer(&self, plan: &Plan, length_ms: u64) -> BTreeMap<Kind, usize> {
        let until = now() + length_ms * 1_000_000;
        let mut faults = JoinSet::new();
        for fault in plan.faults.clone() {
            let (arena, fleet) = (Arc::clone(&self.arena), Arc::clone(&self.fleet));
            faults.spawn(async move {
                time_passes(ms(fault.at_ms)).await;
                let hit = if fault.kind.hits_a_client() {
                    fleet.suffer(&fault, until).await
                } else {
                    arena.suffer(&fault, until).await
                };
                hit.then_some(fault.kind)
            });
        }
        let mut hit = BTreeMap::new();
        for kind in faults.join_all().await.into_iter().flatten() {
            *hit.entry(kind).or_default() += 1;
        }
        self.arena.heal();
        hit
    }

    /// Lets everybody finish, and judges.
    pub(crate) async fn finish(self, plan: Plan, faults: BTreeMap<Kind, usize>) -> Outcome {
        self.fleet.idle().await;
        self.arena.catch_up();
        self.arena.settle().await;
        let has_jumped = faults.contains_key(&Kind::Clock) || faults.contains_key(&Kind::Blip);
        let jumped_ms = if has_jumped { 60_000 } else { 0 };
        let lock_keys = self.names.lock_keys();
        let leftovers = leftovers(&self.arena, &lock_keys, LONGEST_MS + jumped_ms).await;
        let fleet = Arc::into_inner(self.fleet).expect("no fault is under way");
        let lines = fleet.logs().await;
        let verdict = Verdict::of(&plan, &lines, &self.store.accesses(), &leftovers);
        let outcome = outcome(plan, &lines, faults, self.store.totals(), verdict);
        tidy_up(&self.dir, &outcome);
        outcome
    }
}

/// What the checker says.
#[derive(Debug)]
pub(crate) struct Verdict {
    holds: usize,
    groups: usize,
    forgiven: usize,
    violations: Vec<Violation>,
    idle: Option<Idleness>,
}

impl Verdict {
    pub(crate) fn of(
        plan: &Plan,
        lines: &[Line],
        accesses: &[Access],
        left: &[Leftover],
    ) -> Verdict {
        let holds = holds(lines);
        let mut violations = check_holds(&holds);
        let (late, forgiven) = check_late(lines, &holds);
        violations.extend(late);
        violations.extend(check_store(accesses));
        violations.extend(check_kept(lines));
        violations.extend(check_leftovers(left));
        violations.extend(check_together(lines, &holds));
        violations.extend(check_found(lines, &holds));
        violations.extend(check_ends(lines, END_SLACK_MS));
        let idle = plan.calm.as_ref().map(|calm| {
            let idle = idle_times(lines, &holds);
            let start = lines.iter().map(|line| line.at).min().unwrap_or(0);
            let bound_ms = calm.bound_ms();
            violations.extend(check_idle(&idle, start, bound_ms));
            if let Some(queue_ms) = calm.queue_ms() {
                violations.extend(check_passing(lines, &holds, queue_ms));
            }
            violations.extend(check_failures(lines, &calm.reasons()));
            if calm.loses_nothing() {
                violations.extend(check_releases(lines));
            }
            Idleness {
                longest_ms: idle.iter().map(Idle::lasts).max().unwrap_or(0) / 1_000_000,
                noticeable: idle.iter().filter(|idle| idle.lasts() > 10_000_000).count(),
                bound_ms,
                late_ms: 0,
                ways: if calm.is_told() { Ways::of(&idle, &holds) } else { Ways::default() },
            }
        });
        let calls: Vec<_> = holds.iter().filter(|hold| is_first(&hold.attempt)).collect();
        let groups = calls.iter().filter(|hold| call_of(&hold.attempt) != hold.attempt).count();
        Verdict { holds: calls.len(), groups, forgiven, violations, idle }
    }
}

/// What the violations mean under the faults of this plan.
fn failures(plan: &Plan, violations: &[Violation], totals: Totals) -> Vec<String> {
    let promise = plan.promise();
    let is_promised = |violation: &&Violation| match violation {
        Violation::Overlap { .. } | Violation::Crowd { .. } | Violation::Absent { .. } => {
            promise.exclusion
        }
        Violation::View { .. } => promise.exclusion && promise.order,
        Violation::Order { .. } => promise.order,
        Violation::Late { .. }
        | Violation::Fence { .. }
        | Violation::Leftover(_)
        | Violation::Kept { .. }
        | Violation::Idle { .. }
        | Violation::Passed { .. }
        | Violation::Part { .. }
        | Violation::Endless { .. }
        | Violation::Baseless { .. } => true,
    };
    let mut failures: Vec<_> =
        violations.iter().filter(is_promised).map(ToString::to_string).collect();
    if totals.writes != totals.value {
        failures.push(format!("(d) {} writes made {}", totals.writes, totals.value));
    }
    failures
}

pub(crate) fn outcome(
    plan: Plan,
    lines: &[Line],
    faults: BTreeMap<Kind, usize>,
    totals: Totals,
    verdict: Verdict,
) -> Outcome {
    let calls = |line: &&Line| matches!(line.event, Event::Begin { .. }) && is_first(&line.attempt);
    let attempts = lines.iter().filter(calls).count();
    let (mut failed, mut released) = (BTreeMap::new(), BTreeMap::new());
    for line in lines.iter().filter(|line| is_first(&line.attempt)) {
        match &line.event {
            Event::Failed { why } => *failed.entry(why.clone()).or_default() += 1,
            Event::Released { found } => *released.entry(found.clone()).or_default() += 1,
            _ => {}
        }
    }
    let Verdict { holds, groups, forgiven, violations, idle } = verdict;
    let failures = failures(&plan, &violations, totals);
    Outcome {
        plan,
        attempts,
        failed,
        released,
        holds,
        groups,
        forgiven,
        faults,
        totals,
        violations,
        failures,
        idle,
    }
}

/// The lock keys that stand although nobody works any more. A few may be on their way out; those
/// that will not end by themselves, or do not, are returned, as are all other keys without an end.
pub(crate) async fn leftovers(
    arena: &Arena,
    lock_keys: &[String],
    longest_ms: u64,
) -> Vec<Leftover> {
    let start = Instant::now();
    loop {
        let mut left = Vec::new();
        for server in arena.masters().await {
            left.extend(left_on(server, lock_keys, longest_ms).await);
        }
        if left.is_empty() || !check_leftovers(&left).is_empty() {
            return left;
        }
        if start.elapsed() > ms(longest_ms) + secs(10) {
            // Somebody keeps them alive.
            return left.into_iter().map(|key| Leftover { left_ms: None, ..key }).collect();
        }
        time_passes(ms(20)).await;
    }
}

/// Milliseconds to the end of the last lease of readers or permits. Their key may last longer: for
/// a minute it shows who has not claimed what was handed over.
const LAST_LEASE: &str = "local last = redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2]
    local now = redis.call('TIME')
    return last and math.ceil(last / 1000 - now[1] * 1000 - now[2] / 1000) or 0";

async fn left_on(server: &Server, lock_keys: &[String], longest_ms: u64) -> Vec<Leftover> {
    let raw = server.raw();
    let mut left = Vec::new();
    for key in raw.keys("*").await {
        let is_group = !lock_keys.contains(&key) && key.ends_with(":holders");
        match u64::try_from(raw.int(&["PTTL", &key]).await) {
            Ok(_) if is_group => {
                let ms = raw.int(&["EVAL", LAST_LEASE, "1", &key]).await;
                let ms = u64::try_from(ms).ok().filter(|ms| *ms > 0);
                left.extend(ms.map(|ms| Leftover { key, left_ms: Some(ms), longest_ms }));
            }
            Ok(ms) if lock_keys.contains(&key) => {
                left.push(Leftover { key, left_ms: Some(ms), longest_ms });
            }
            // What is no lock stays for as long as the protocol says, but not for ever.
            Ok(_) => {}
            Err(_) if raw.int(&["EXISTS", &key]).await == 0 => {}
            Err(_) => left.push(Leftover { key, left_ms: None, longest_ms }),
        }
    }
    left
}

/// The logs of a good history are of no interest.
pub(crate) fn tidy_up(dir: &Path, outcome: &Outcome) {
    if outcome.failures.is_empty() {
        let _ = std::fs::remove_dir_all(dir);
    } else {
        eprintln!("seed {}: logs are in {}", outcome.plan.seed, dir.display());
    }
}
