//! One subject in one scenario, once.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use fault_kit::Proxy;

use super::child::Worker;
use super::figures::{Figures, figures, increments};
use super::lab::Lab;
use super::scenario::{Kind, Scenario};
use super::subjects::{Program, Role, Subject};
use super::usage::Usage;
use super::{compile_time, idle, open, readers};
use crate::Failure;
use crate::plan::{Answer, Plan};

/// Connecting and warming up, on a loaded machine.
const READY_BOUND: Duration = Duration::from_secs(60);
/// Taking a million leases.
const LEASES_BOUND: Duration = Duration::from_secs(1_200);
/// What whoever polls may need after the end.
const ANSWER_BOUND: Duration = Duration::from_secs(90);

/// Long enough for the readers to be at different places of their bodies again.
const WRITER_PAUSE_MS: f64 = 20.0;

const KEY: &str = "bench";

pub async fn measure(
    lab: &mut Lab,
    scenario: &Scenario,
    subject: &Subject,
) -> Result<Figures, Failure> {
    let mut connection = lab.place(subject.role)?.connection.clone();
    redis::cmd("FLUSHALL").exec_async(&mut connection).await?;
    match scenario.kind {
        Kind::Compile => compile_time::measure(lab),
        Kind::Open(percent) => open::measure(lab, scenario, subject, percent).await,
        Kind::Batch => open::batch(lab, scenario, subject).await,
        Kind::Idle => idle::measure(lab, scenario, subject).await,
        _ => with_workers(lab, scenario, subject).await,
    }
}

async fn with_workers(
    lab: &mut Lab,
    scenario: &Scenario,
    subject: &Subject,
) -> Result<Figures, Failure> {
    let cell = Cell::new(lab, scenario, subject)?;
    let proxy = (scenario.delay_ms > 0.0).then(|| far_away(lab, scenario.delay_ms));
    let place = lab.place(subject.role)?;
    let mut connection = place.connection.clone();
    let url = proxy.as_ref().map_or_else(|| place.url.clone(), Proxy::url);
    let plan = Plan { url, ..plan(lab, scenario, subject, &cell) };
    let mut workers = start(lab, subject, &plan, scenario.processes).await?;
    let pids: Vec<_> = workers.iter().map(Worker::pid).collect();
    let before = Usage::now(&mut connection, &pids).await?;
    let begin = Instant::now();
    for worker in &mut workers {
        worker.go().await?;
    }
    let is_timed = !matches!(scenario.kind, Kind::Exact(_));
    let mut used = None;
    if is_timed {
        tokio::time::sleep(Duration::from_secs_f64(plan.seconds)).await;
        used = Some(Usage::now(&mut connection, &pids).await?);
    }
    let mut seconds = begin.elapsed().as_secs_f64();
    let mut answers = Vec::new();
    for worker in &mut workers {
        let answer: Answer = serde_json::from_str(&worker.line(ANSWER_BOUND).await?)?;
        answers.push(answer);
    }
    if !is_timed {
        seconds = begin.elapsed().as_secs_f64();
    }
    let used = match used {
        Some(used) => used,
        None => Usage::now(&mut connection, &pids).await?,
    };
    let used = used.since(&before);
    for worker in workers {
        worker.end().await;
    }
    tell_errors(subject, &answers);
    let mut figures = figures(&answers, &used, seconds);
    if matches!(scenario.kind, Kind::Hot | Kind::Exact(_)) {
        note_counter(&mut figures, cell.counter(&answers)?, increments(&answers));
    }
    if scenario.kind == Kind::Readers {
        readers::note(&mut figures, cell.counter(&answers)?, &answers, seconds);
    }
    if scenario.kind == Kind::Leases {
        figures.insert("leases".to_owned(), f64::from(plan.tasks));
    }
    Ok(figures)
}

/// The server behind a delay each way.
fn far_away(lab: &Lab, delay_ms: f64) -> Proxy {
    let proxy = Proxy::start(&lab.redis.server);
    let delay = Duration::from_secs_f64(delay_ms / 1_000.0);
    proxy.delay_requests(delay);
    proxy.delay_replies(delay);
    proxy
}

/// Workers that are connected and warm.
pub async fn start(
    lab: &Lab,
    subject: &Subject,
    plan: &Plan,
    processes: u32,
) -> Result<Vec<Worker>, Failure> {
    let command = lab.command(subject.program)?;
    let mut workers = Vec::new();
    for process in 0..processes {
        let first_worker = plan.first_worker + process * plan.tasks;
        workers.push(Worker::start(&command, &Plan { first_worker, ..plan.clone() })?);
    }
    let is_leases = subject.role == Role::Leases;
    for worker in &mut workers {
        worker.until_ready(if is_leases { LEASES_BOUND } else { READY_BOUND }).await?;
    }
    Ok(workers)
}

pub fn plan(lab: &Lab, scenario: &Scenario, subject: &Subject, cell: &Cell) -> Plan {
    let options = &lab.options;
    let is_leases = scenario.kind == Kind::Leases;
    let limit = if let Kind::Exact(limit) = scenario.kind { limit } else { 0 };
    let seconds = match scenario.kind {
        Kind::Leases => options.lease_seconds(),
        Kind::Exact(_) => scenario.seconds,
        _ => options.seconds(scenario.seconds),
    };
    Plan {
        subject: subject.name.to_owned(),
        url: lab.redis.url.clone(),
        key: KEY.to_owned(),
        is_distinct: scenario.kind == Kind::Uncontended,
        tasks: if is_leases { options.leases } else { scenario.tasks },
        first_worker: 0,
        tasks_per_process: if scenario.processes == 1 { 0 } else { scenario.tasks },
        client_each: scenario.client_each,
        warm_up_s: subject.warm_up_s,
        seconds,
        limit,
        body_ms: scenario.body_ms,
        has_writer: matches!(scenario.kind, Kind::Readers | Kind::Batch),
        pause_ms: WRITER_PAUSE_MS,
        is_open: false,
        outstanding: 0,
        cell: cell.0.as_ref().map(|path| path.to_string_lossy().into_owned()),
    }
}

/// The file of a cell; one process of this program has it in its memory.
pub struct Cell(Option<PathBuf>);

impl Cell {
    pub fn none() -> Cell {
        Cell(None)
    }

    pub fn new(lab: &Lab, scenario: &Scenario, subject: &Subject) -> Result<Cell, Failure> {
        let is_hot =
            matches!(scenario.kind, Kind::Hot | Kind::Exact(_) | Kind::Open(_) | Kind::Readers);
        if !is_hot || (scenario.processes == 1 && subject.program == Program::Own) {
            return Ok(Cell(None));
        }
        let path = lab.scratch.join("cell");
        std::fs::write(&path, [0; 24])?;
        Ok(Cell(Some(path)))
    }

    /// What the counter shows at the end.
    pub fn counter(&self, answers: &[Answer]) -> Result<u64, Failure> {
        let Some(path) = &self.0 else {
            return Ok(answers.iter().map(|answer| answer.counter).sum());
        };
        let bytes = std::fs::read(path)?;
        Ok(u64::from_le_bytes(bytes[..8].try_into()?))
    }
}

#[allow(clippy::cast_precision_loss)]
pub fn note_counter(figures: &mut Figures, counter: u64, expected: u64) {
    figures.insert("counter".to_owned(), counter as f64);
    figures.insert("increments".to_owned(), expected as f64);
}

pub fn tell_errors(subject: &Subject, answers: &[Answer]) {
    let mut tallies = answers.iter().flat_map(|answer| &answer.workers);
    if let Some(error) = tallies.find_map(|tally| tally.first_error.as_ref()) {
        eprintln!("bench: {}: {error}", subject.name);
    }
}
