//! One worker: a number of tasks that serve customers. It is a process of its own, or, without a
//! server, a group of tasks in the orchestrator's process.

use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use redlock::LockError;
use tokio::sync::{Notify, mpsc, watch};

use crate::act::Act;
use crate::database::Database;
use crate::event::{self, Event};
use crate::shop::{self, Mishap, Phase, ShopError, Till, Visit};

/// The product on sale.
pub(crate) const PRODUCT: u64 = 7;
/// The first argument of a worker process.
pub(crate) const ROLE: &str = "worker";

/// What a worker needs to know.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) act: Act,
    pub(crate) proc: usize,
    pub(crate) tasks: usize,
    pub(crate) customers: u32,
    pub(crate) mishap: Mishap,
    pub(crate) mishap_at: i64,
    pub(crate) database: PathBuf,
}

impl Setup {
    pub(crate) fn to_args(&self) -> Vec<String> {
        vec![
            ROLE.to_owned(),
            self.act.name().to_owned(),
            self.proc.to_string(),
            self.tasks.to_string(),
            self.customers.to_string(),
            self.mishap_at.to_string(),
            self.database.to_string_lossy().into_owned(),
        ]
    }

    pub(crate) fn from_args(args: &[String]) -> Option<Self> {
        let [role, act, proc, tasks, customers, mishap_at, database] = args else { return None };
        let act = Act::parse(act).filter(|_| role == ROLE)?;
        Some(Self {
            act,
            mishap: act.mishap(),
            proc: proc.parse().ok()?,
            tasks: tasks.parse().ok()?,
            customers: customers.parse().ok()?,
            mishap_at: mishap_at.parse().ok()?,
            database: database.into(),
        })
    }
}

/// The life of a worker process: events go to stdout, the phase comes from stdin. When stdin ends
/// the orchestrator is gone, and so is the worker.
pub(crate) async fn run_process(setup: Setup) -> Result<(), Box<dyn std::error::Error>> {
    let redlock = redlock::init_from_env().await?;
    let (events, mut sent) = mpsc::unbounded_channel::<Event>();
    let (phase, seen) = watch::channel(Phase::Closed);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            phase.send_replace(if line == "thaw" { Phase::Thawed } else { Phase::Open });
        }
        std::process::exit(3);
    });
    let printer = tokio::task::spawn_blocking(move || {
        let mut out = std::io::stdout().lock();
        while let Some(event) = sent.blocking_recv() {
            if writeln!(out, "{event}").and_then(|()| out.flush()).is_err() {
                std::process::exit(3);
            }
        }
    });
    serve(setup, events, seen).await;
    redlock.shutdown(Duration::from_secs(2)).await;
    printer.await?;
    Ok(())
}

/// Serves all customers with the global client.
pub(crate) async fn serve(
    setup: Setup,
    events: mpsc::UnboundedSender<Event>,
    mut phase: watch::Receiver<Phase>,
) {
    let customers = Arc::new(AtomicU32::new(setup.customers));
    let mut tasks = tokio::task::JoinSet::new();
    let mut tills = Vec::new();
    for task in 0..setup.tasks {
        match Database::open(&setup.database) {
            Ok(database) => tills.push(till(&setup, task, database, &events, &phase)),
            Err(error) => tell_failure(&events, &error.to_string()),
        }
    }
    let _ = events.send(Event::Ready);
    let _ = phase.wait_for(|phase| *phase >= Phase::Open).await;
    for till in tills {
        tasks.spawn(serve_queue(setup.act, till, Arc::clone(&customers)));
    }
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended {
            tell_failure(&events, &error.to_string());
        }
    }
    let _ = events.send(Event::Done);
}

fn till(
    setup: &Setup,
    task: usize,
    database: Database,
    events: &mpsc::UnboundedSender<Event>,
    phase: &watch::Receiver<Phase>,
) -> Till {
    Till {
        database,
        proc: setup.proc,
        task,
        asked: Instant::now(),
        mishap: setup.mishap,
        mishap_at: setup.mishap_at,
        is_fenced: setup.act == Act::FencedZombie,
        events: events.clone(),
        phase: phase.clone(),
        death: Arc::new(Notify::new()),
    }
}

async fn serve_queue(act: Act, mut till: Till, customers: Arc<AtomicU32>) {
    let next = |left: u32| left.checked_sub(1);
    while customers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok() {
        till.asked = Instant::now();
        let Some(answer) = call(act, &till).await else { return };
        let total = till.asked.elapsed();
        let _ = till.events.send(report(&till, total, answer));
    }
}

/// `None`: the caller "died", see [`leak`].
async fn call(act: Act, till: &Till) -> Option<Result<Visit, ShopError>> {
    match act {
        Act::Unlocked => Some(shop::deduct_unlocked(PRODUCT, till).await),
        Act::Killed if till.mishap == Mishap::DiesAlone => leak(till).await,
        Act::Locked | Act::Killed | Act::Hung => Some(shop::deduct(PRODUCT, till).await),
        Act::Zombie | Act::FencedZombie => Some(shop::deduct_in_one_go(PRODUCT, till).await),
    }
}

/// A call whose holder "dies" without a process to kill: its future is leaked, so that nothing is
/// dropped and nothing released. `None`: that was this call.
async fn leak(till: &Till) -> Option<Result<Visit, ShopError>> {
    let mut call = Box::pin(shop::deduct_once(PRODUCT, till));
    tokio::select! {
        answer = &mut call => Some(answer),
        () = till.death.notified() => {
            std::mem::forget(call);
            None
        }
    }
}

fn report(till: &Till, total: Duration, answer: Result<Visit, ShopError>) -> Event {
    let at = event::now();
    match answer {
        Ok(Visit { waited, fence, seen }) => {
            let held = micros(total.saturating_sub(waited));
            Event::Served { task: till.task, at, waited: micros(waited), held, fence, seen }
        }
        Err(ShopError::Lock(LockError::Lost { reason, held_for, renewals, .. })) => {
            Event::Lost { at, held: micros(held_for), renewals, reason: reason.to_string() }
        }
        Err(error) => Event::Failed { at, text: error.to_string() },
    }
}

fn tell_failure(events: &mpsc::UnboundedSender<Event>, text: &str) {
    let _ = events.send(Event::Failed { at: event::now(), text: text.to_owned() });
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_worker_process_gets_what_it_needs() {
        let setup = Setup {
            act: Act::Hung,
            proc: 2,
            tasks: 8,
            customers: 250,
            mishap: Mishap::Hangs,
            mishap_at: 200,
            database: "target/a shop.db".into(),
        };
        let read = Setup::from_args(&setup.to_args()).unwrap();
        assert_eq!(format!("{read:?}"), format!("{setup:?}"));
        assert!(Setup::from_args(&["worker".to_owned()]).is_none());
    }
}
