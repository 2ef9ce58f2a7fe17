//! The loop that every Rust subject runs in.

use std::sync::Arc;
use std::time::Duration;

use super::cell::Cell;
use super::open::Generator;
use super::run::{say, wait_for_go};
use super::subject::{Body, Part, Subject, Visit};
use crate::Failure;
use crate::histogram::Recorder;
use crate::monotonic;
use crate::plan::{Answer, Plan, Span, Start, Tally};

/// Connects, warms up, waits for the start, works.
pub async fn drive<S: Subject>(plan: &Plan) -> Result<Answer, Failure> {
    let cell = match &plan.cell {
        Some(path) => Cell::open(path)?,
        None if plan.is_distinct => Cell::None,
        None => Cell::memory(),
    };
    let workers = workers::<S>(plan, &cell).await?;
    warm_up(plan, &workers).await?;
    say("ready");
    let line = wait_for_go().await?;
    let mut answer = if plan.is_open {
        open(plan, workers, serde_json::from_str(&line)?).await?
    } else {
        closed(plan, workers).await?
    };
    if matches!(cell, Cell::Memory(_)) {
        answer.counter = cell.read().counter;
    }
    Ok(answer)
}

/// Each worker repeats its cycle until the time is over.
async fn closed<S: Subject>(plan: &Plan, workers: Vec<Worker<S>>) -> Result<Answer, Failure> {
    let until = monotonic::now() + nanos(plan.seconds);
    let tasks = workers.into_iter().map(|worker| tokio::spawn(worker.work(until)));
    let tasks: Vec<_> = tasks.collect();
    let mut answer = Answer::default();
    for task in tasks {
        task.await?.finish(&mut answer);
    }
    Ok(answer)
}

/// Each worker starts its arrivals when they are due.
async fn open<S: Subject>(
    plan: &Plan,
    workers: Vec<Worker<S>>,
    start: Start,
) -> Result<Answer, Failure> {
    let outstanding = Arc::default();
    let generators = workers.into_iter().zip(start.arrivals).map(|(worker, scheduled)| Generator {
        subject: worker.subject,
        key: worker.key,
        body: worker.body,
        scheduled,
        begin: start.begin,
        gives_up: start.begin + nanos(plan.seconds),
        outstanding: Arc::clone(&outstanding),
        at_most: plan.outstanding,
    });
    let tasks: Vec<_> = generators.map(|one| tokio::spawn(one.work())).collect();
    let mut answer = Answer::default();
    for task in tasks {
        let (tally, arrivals) = task.await?;
        answer.workers.push(tally);
        answer.arrivals.extend(arrivals);
    }
    Ok(answer)
}

struct Worker<S> {
    subject: S,
    key: String,
    body: Body,
    tasks_per_process: u64,
    limit: u64,
    /// Between the cycles of a writer.
    pause: Duration,
    record: Record,
}

/// What a worker has measured.
struct Record {
    tally: Tally,
    wait: Recorder,
    cycle: Recorder,
    passed: Recorder,
    part: Part,
    /// The waits of a writer, the holds of a reader.
    spans: Vec<Span>,
}

async fn workers<S: Subject>(plan: &Plan, cell: &Cell) -> Result<Vec<Worker<S>>, Failure> {
    let shared = S::connect(&plan.url).await?;
    let mut workers = Vec::new();
    for number in plan.first_worker..plan.first_worker + plan.tasks {
        let subject = if plan.client_each { S::connect(&plan.url).await? } else { shared.clone() };
        let key =
            if plan.is_distinct { format!("{}-{number}", plan.key) } else { plan.key.clone() };
        let sleep = Duration::from_secs_f64(plan.body_ms / 1e3);
        let part = match number {
            _ if !plan.has_writer => Part::Any,
            0 => Part::Writer,
            _ => Part::Reader,
        };
        let pause = if part == Part::Writer { plan.pause_ms } else { 0.0 };
        workers.push(Worker {
            subject,
            key,
            body: Body { cell: cell.clone(), worker: number.into(), part, sleep, entry: None },
            tasks_per_process: plan.tasks_per_process.into(),
            limit: if plan.limit == 0 { u64::MAX } else { plan.limit },
            pause: Duration::from_secs_f64(pause / 1e3),
            record: Record {
                tally: Tally::default(),
                wait: Recorder::new(),
                cycle: Recorder::new(),
                passed: Recorder::new(),
                part,
                spans: Vec::new(),
            },
        });
    }
    Ok(workers)
}

/// On keys that nobody else takes, so that it ends whatever the others do.
async fn warm_up<S: Subject>(plan: &Plan, workers: &[Worker<S>]) -> Result<(), Failure> {
    let until = monotonic::now() + nanos(plan.warm_up_s);
    let mut tasks = Vec::new();
    for worker in workers {
        let subject = worker.subject.clone();
        let key = format!("warm-up-{}", worker.body.worker);
        let body = Body { cell: Cell::None, sleep: Duration::ZERO, ..worker.body.clone() };
        tasks.push(tokio::spawn(async move {
            loop {
                subject.visit(&key, body.clone()).await?;
                if monotonic::now() >= until {
                    return Ok::<(), Failure>(());
                }
            }
        }));
    }
    for task in tasks {
        task.await??;
    }
    Ok(())
}

impl<S: Subject> Worker<S> {
    async fn work(mut self, until: u64) -> Record {
        let mut cycles = 0;
        let mut called_at = monotonic::now();
        while cycles < self.limit && monotonic::now() < until {
            match self.subject.visit(&self.key, self.body.clone()).await {
                Ok(visit) => {
                    self.count(called_at, visit, until);
                    cycles += 1;
                    if !self.pause.is_zero() {
                        tokio::time::sleep(self.pause).await;
                    }
                    called_at = monotonic::now();
                }
                // It is called again, and its wait goes on.
                Err(error) => {
                    self.record.tally.errors += 1;
                    self.record.tally.first_error.get_or_insert_with(|| error.to_string());
                }
            }
        }
        self.record
    }

    fn count(&mut self, called_at: u64, visit: Visit, until: u64) {
        let Record { tally, wait, cycle, passed, part, spans } = &mut self.record;
        wait.count(visit.began_at.saturating_sub(called_at));
        tally.overlaps += u64::from(visit.is_torn);
        match part {
            Part::Any => {}
            Part::Writer => spans.push([called_at, visit.began_at]),
            Part::Reader => spans.push([visit.began_at, monotonic::now()]),
        }
        if visit.began_at >= until {
            tally.late += 1;
            return;
        }
        cycle.count(monotonic::now().saturating_sub(called_at));
        tally.holds += 1;
        let Some(last) = visit.before.last_worker.checked_sub(1) else { return };
        if last == self.body.worker {
            return;
        }
        tally.hand_overs += 1;
        // One process for all: any change of the worker counts.
        let process = |worker: u64| worker / self.tasks_per_process;
        if self.tasks_per_process == 0 || process(last) != process(self.body.worker) {
            passed.count(visit.began_at.saturating_sub(visit.before.ended_at));
        }
    }
}

impl Record {
    fn finish(self, answer: &mut Answer) {
        if self.part == Part::Writer {
            answer.write_waits.extend(self.spans);
        } else {
            answer.read_holds.extend(self.spans);
            self.wait.finish(&mut answer.wait);
        }
        self.cycle.finish(&mut answer.cycle);
        self.passed.finish(&mut answer.passed);
        answer.workers.push(self.tally);
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn nanos(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}
