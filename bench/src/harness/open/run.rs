//! One open loop of one subject, from the arrivals to the figures.

use std::time::Duration;

use super::super::child::Worker;
use super::super::figures::Figures;
use super::super::lab::Lab;
use super::super::measure::{Cell, note_counter, plan, start, tell_errors};
use super::super::scenario::Scenario;
use super::super::subjects::{Role, Subject};
use super::{arrivals, pace, perfect, servers, summary};
use crate::Failure;
use crate::monotonic;
use crate::plan::{Answer, Plan, Start};

/// In all processes together: who cannot keep up drops what comes on top.
const OUTSTANDING: usize = 2_000;
/// Until every process has its list of arrivals.
const AHEAD: Duration = Duration::from_millis(150);
/// For the answer, after everybody has given up.
const ANSWER_BOUND: Duration = Duration::from_secs(30);

pub async fn measure(
    lab: &mut Lab,
    scenario: &Scenario,
    subject: &Subject,
    percent: u32,
) -> Result<Figures, Failure> {
    let pace = pace::of(lab).await?;
    let service = pace.service_ns(scenario.body_ms > 0.0);
    let window = lab.options.seconds(scenario.seconds) * 1e9;
    let workers = scenario.processes * scenario.tasks;
    let rate = f64::from(percent) / 100.0 / service;
    let each = rate / f64::from(workers);
    let lists: Vec<_> = (0..workers)
        .map(|worker| arrivals::by_chance(seed(lab.round, worker), each, window))
        .collect();
    let mut figures = if subject.role == Role::Perfect {
        let served = perfect::serve(&lists.concat(), service);
        let mut figures = summary::figures(&served, window, window);
        figures.extend(pace.figures());
        figures.insert("service_us".to_owned(), service / 1e3);
        figures
    } else {
        with_workers(lab, scenario, subject, &lists, window).await?
    };
    figures.insert("scheduled_per_s".to_owned(), rate * 1e9);
    Ok(figures)
}

/// The same for all subjects and for all loads, another one in each round.
fn seed(round: usize, worker: u32) -> u64 {
    let round = u64::try_from(round).expect("there are few rounds");
    (round << 32) | u64::from(worker)
}

async fn with_workers(
    lab: &mut Lab,
    scenario: &Scenario,
    subject: &Subject,
    lists: &[Vec<u64>],
    window: f64,
) -> Result<Figures, Failure> {
    let cell = Cell::new(lab, scenario, subject)?;
    // After the window there is half of its time for those who still wait.
    let gives_up = 1.5 * window;
    let answers = answers(lab, scenario, subject, &cell, lists, gives_up).await?;
    let arrivals: Vec<_> = answers.iter().flat_map(|answer| &answer.arrivals).copied().collect();
    let mut figures = summary::figures(&arrivals, window, gives_up);
    let errors = answers.iter().flat_map(|answer| &answer.workers);
    note(&mut figures, "errors", errors.map(|tally| tally.errors).sum());
    let bodies = arrivals.iter().filter(|[.., ended]| *ended > 0).count();
    note_counter(&mut figures, cell.counter(&answers)?, u64::try_from(bodies)?);
    Ok(figures)
}

/// What all processes tell of the arrivals in `lists`, one list a worker.
pub async fn answers(
    lab: &mut Lab,
    scenario: &Scenario,
    subject: &Subject,
    cell: &Cell,
    lists: &[Vec<u64>],
    gives_up: f64,
) -> Result<Vec<Answer>, Failure> {
    let servers = servers::start(&lab.cores, subject).await?;
    let plan = plan(lab, scenario, subject, cell);
    let plan = Plan {
        url: servers.url().unwrap_or(plan.url),
        seconds: gives_up / 1e9,
        is_open: true,
        outstanding: OUTSTANDING / usize::try_from(scenario.processes)?,
        ..plan
    };
    let mut workers = start(lab, subject, &plan, scenario.processes).await?;
    go(&mut workers, lists).await?;
    let bound = Duration::from_secs_f64(plan.seconds) + ANSWER_BOUND;
    let mut answers: Vec<Answer> = Vec::new();
    for worker in &mut workers {
        answers.push(serde_json::from_str(&worker.line(bound).await?)?);
    }
    for worker in workers {
        worker.end().await;
    }
    tell_errors(subject, &answers);
    let told: usize = answers.iter().map(|answer| answer.arrivals.len()).sum();
    let expected: usize = lists.iter().map(Vec::len).sum();
    if told != expected {
        return Err(format!("{told} of {expected} arrivals were told of").into());
    }
    Ok(answers)
}

/// Each process gets the lists of its workers, all the same moment to count from.
async fn go(workers: &mut [Worker], lists: &[Vec<u64>]) -> Result<(), Failure> {
    let begin = monotonic::now() + u64::try_from(AHEAD.as_nanos())?;
    let tasks = lists.len() / workers.len();
    for (worker, lists) in workers.iter_mut().zip(lists.chunks(tasks)) {
        let start = Start { begin, arrivals: lists.to_vec() };
        worker.go_with(&serde_json::to_string(&start)?).await?;
    }
    if monotonic::now() > begin {
        return Err("the lists of arrivals came too late".into());
    }
    Ok(())
}

#[allow(clippy::cast_precision_loss)]
fn note(figures: &mut Figures, name: &str, value: u64) {
    figures.insert(name.to_owned(), value as f64);
}
