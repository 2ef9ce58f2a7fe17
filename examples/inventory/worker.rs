//! One worker: a number of tasks that serve customers. It is a process of its own, or, without a
//! server, a group of tasks in the orchestrator's process.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use redlock::LockError;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

use crate::Result;
use crate::act::{ACTS, Accident, Moves};
use crate::database::Database;
use crate::shop::{self, Till, Visit};

/// The product on sale.
pub(crate) const PRODUCT: u64 = 7;
/// The second shelf of act 6.
pub(crate) const SHELF: u64 = 8;
/// The first argument of a worker process; the second one is a [`Setup`].
pub(crate) const ROLE: &str = "worker";

/// What a worker needs to know.
#[derive(Serialize, Deserialize)]
pub(crate) struct Setup {
    pub(crate) act: String,
    pub(crate) proc: usize,
    pub(crate) tasks: u32,
    pub(crate) customers: u32,
    pub(crate) accident_at: i64,
    pub(crate) database: PathBuf,
    pub(crate) is_process: bool,
}

/// Which worker, and what it tells the orchestrator. One message is one line of JSON.
pub(crate) type Message = (usize, Event);

#[derive(Serialize, Deserialize)]
pub(crate) enum Event {
    /// A customer got an answer: `seen` is the stock that was read, 0 means sold out.
    Served { waited: Duration, fence: u64, seen: i64 },
    /// The unlucky holder of the act has read the stock and does not get to its write.
    Accident { fence: u64 },
    /// A body was stopped because its lease was over.
    Lost { held: Duration, renewals: u32, reason: String },
    /// A holder whose lease was over wrote what it had read long ago, or was refused.
    Late { fence: u64, seen: i64, is_refused: bool },
    /// A customer got an error.
    Failed { text: String },
    /// All customers have been served.
    Done,
    /// The worker is not there any more. Never sent, only observed.
    Gone,
}

/// The life of a worker process: messages go to stdout. When stdin ends the orchestrator is gone,
/// and so is the worker.
pub(crate) async fn run_process(setup: &str) -> Result<()> {
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(3);
    });
    let redlock = redlock::init_from_env().await?;
    let (events, mut sent) = unbounded_channel();
    let printer = tokio::task::spawn_blocking(move || -> Result<()> {
        let mut out = std::io::stdout().lock();
        while let Some(message) = sent.blocking_recv() {
            writeln!(out, "{}", serde_json::to_string(&message)?)?;
        }
        Ok(())
    });
    serve(serde_json::from_str(setup)?, events).await;
    redlock.shutdown(Duration::from_secs(2)).await;
    printer.await?
}

/// Serves all customers with the global client.
pub(crate) async fn serve(setup: Setup, events: UnboundedSender<Message>) {
    let fail = |text: String| drop(events.send((setup.proc, Event::Failed { text })));
    let till = || -> Result<Till> {
        Ok(Till {
            database: Database::open(&setup.database)?,
            proc: setup.proc,
            asked: Instant::now(),
            act: ACTS.iter().find(|act| act.title == setup.act).ok_or("no such act")?,
            accident_at: setup.accident_at,
            events: events.clone(),
            death: Notify::new(),
        })
    };
    let customers = Arc::new(AtomicU32::new(setup.customers));
    let mut tasks = JoinSet::new();
    for _ in 0..setup.tasks {
        match till() {
            Ok(till) => drop(tasks.spawn(serve_queue(till, customers.clone(), setup.is_process))),
            Err(error) => fail(error.to_string()),
        }
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap_or_else(|error| fail(error.to_string()));
    }
    let _ = events.send((setup.proc, Event::Done));
}

async fn serve_queue(mut till: Till, customers: Arc<AtomicU32>, is_process: bool) {
    let next = |left: u32| left.checked_sub(1);
    while let Ok(left) = customers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next) {
        till.asked = Instant::now();
        let (from, to) = if left % 2 == 0 { (PRODUCT, SHELF) } else { (SHELF, PRODUCT) };
        let answer = match till.act.accident {
            _ if till.act.moves == Some(Moves::OneKey) => {
                shop::carry_under_one_key(from, to, &till).await
            }
            _ if till.act.moves == Some(Moves::BothKeys) => shop::carry(from, to, &till).await,
            _ if till.act.number == 1 => shop::deduct_unlocked(PRODUCT, &till).await,
            Some(Accident::Kill) if !is_process => {
                let mut call = Box::pin(shop::deduct_unrenewed(PRODUCT, &till));
                tokio::select! {
                    answer = &mut call => answer,
                    // Dead without a process: nothing is dropped and nothing released.
                    () = till.death.notified() => return std::mem::forget(call),
                }
            }
            Some(Accident::Freeze) => shop::deduct_unrenewed(PRODUCT, &till).await,
            _ => shop::deduct(PRODUCT, &till).await,
        };
        till.tell(report(answer));
    }
}

fn report(answer: Result<Visit>) -> Event {
    let error = match answer {
        Ok(Visit { waited, fence, seen }) => return Event::Served { waited, fence, seen },
        Err(error) => error,
    };
    match error.downcast_ref() {
        Some(LockError::Lost { reason, held_for, renewals, .. }) => {
            Event::Lost { held: *held_for, renewals: *renewals, reason: reason.to_string() }
        }
        _ => Event::Failed { text: error.to_string() },
    }
}
