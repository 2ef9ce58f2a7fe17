//! The shop: what the lock protects. Read this file first.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redlock::{Lease, LockError, redis_lock};
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::spawn_blocking;

use crate::database::{Database, Order};
use crate::event::{self, Event};

/// What the payment provider takes for an answer.
const PAYMENT: Duration = Duration::from_millis(1);

/// Act 1: read, pay, write. Two customers who read before either writes get the same unit.
pub(crate) async fn deduct_unlocked(id: u64, till: &Till) -> Result<Visit, ShopError> {
    till.deduct(id).await
}

/// Acts 2 to 4: the same under a lock that all processes share.
#[redis_lock(key = "stock-<id>", expire = "1s", wait = "60s", max_renew = 2)]
pub(crate) async fn deduct(id: u64, till: &Till) -> Result<Visit, ShopError> {
    till.deduct(id).await
}

/// Act 3 without processes: a lease that nobody renews, as if its process were dead.
#[redis_lock(key = "stock-<id>", expire = "1s", wait = "60s", max_renew = 0)]
pub(crate) async fn deduct_once(id: u64, till: &Till) -> Result<Visit, ShopError> {
    till.deduct(id).await
}

/// Act 5: no `.await` between read and write, so that the lock cannot stop the write of a holder
/// that was frozen in between. Only the database can, by its fencing token.
#[redis_lock(key = "stock-<id>", expire = "1s", wait = "60s", max_renew = 0)]
pub(crate) async fn deduct_in_one_go(id: u64, till: &Till) -> Result<Visit, ShopError> {
    let fence = fence();
    let till = till.clone();
    spawn_blocking(move || till.deduct_blocking(id, fence)).await?
}

/// The fencing token of the lock that this task holds; 0 without a lock.
fn fence() -> u64 {
    Lease::current().map_or(0, |lease| lease.fencing_token().into())
}

/// How a customer was served. `seen == 0`: sold out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Visit {
    pub(crate) waited: Duration,
    pub(crate) fence: u64,
    pub(crate) seen: i64,
}

/// Why a customer was not served.
#[derive(Debug)]
pub(crate) enum ShopError {
    Lock(LockError),
    Database(rusqlite::Error),
    /// The database has seen a newer holder.
    FencedOut,
    Stopped,
}

impl From<LockError> for ShopError {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

impl From<rusqlite::Error> for ShopError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error)
    }
}

impl From<tokio::task::JoinError> for ShopError {
    fn from(_: tokio::task::JoinError) -> Self {
        Self::Stopped
    }
}

impl std::fmt::Display for ShopError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Lock(error) => error.fmt(f),
            Self::Database(error) => error.fmt(f),
            Self::FencedOut => f.write_str("a newer holder has claimed the row"),
            Self::Stopped => f.write_str("the worker stops"),
        }
    }
}

/// What happens to the unlucky holder of an act, between its read and its write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mishap {
    None,
    /// Its process is killed.
    Dies,
    /// Its future is leaked: the same without a process of its own.
    DiesAlone,
    /// Its payment provider never answers.
    Hangs,
    /// Its process is frozen until the orchestrator thaws it.
    Freezes,
}

/// How far the orchestrator has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Closed,
    Open,
    Thawed,
}

/// The till of one task: its database connection, its customer, and the plot of the act.
#[derive(Clone)]
pub(crate) struct Till {
    pub(crate) database: Database,
    pub(crate) proc: usize,
    pub(crate) task: usize,
    pub(crate) asked: Instant,
    pub(crate) mishap: Mishap,
    /// The mishap befalls the first who reads a stock this low.
    pub(crate) mishap_at: i64,
    pub(crate) is_fenced: bool,
    pub(crate) events: mpsc::UnboundedSender<Event>,
    pub(crate) phase: watch::Receiver<Phase>,
    pub(crate) death: Arc<Notify>,
}

impl Till {
    async fn deduct(&self, id: u64) -> Result<Visit, ShopError> {
        let waited = self.asked.elapsed();
        let seen = self.on_database(move |till| till.database.read(id)).await?;
        if seen > 0 {
            self.pay(seen).await?;
            self.on_database(move |till| till.database.write(id, till.order(seen))).await?;
        }
        Ok(Visit { waited, fence: fence(), seen })
    }

    fn deduct_blocking(&self, id: u64, fence: u64) -> Result<Visit, ShopError> {
        let waited = self.asked.elapsed();
        let column = i64::try_from(fence).unwrap_or(i64::MAX);
        if self.is_fenced && !self.database.claim(id, column)? {
            return Err(ShopError::FencedOut);
        }
        let seen = self.database.read(id)?;
        if seen > 0 {
            let is_zombie = self.pay_blocking(seen, fence)?;
            let is_written = if self.is_fenced {
                self.database.write_fenced(id, self.order(seen), column)?
            } else {
                self.database.write(id, self.order(seen)).map(|()| true)?
            };
            if is_zombie {
                let at = event::now();
                self.tell(if is_written {
                    Event::Stale { at, fence, seen }
                } else {
                    Event::Fenced { at, fence }
                });
            }
            if !is_written {
                return Err(ShopError::FencedOut);
            }
        }
        Ok(Visit { waited, fence, seen })
    }

    /// Calls the payment provider.
    async fn pay(&self, seen: i64) -> Result<(), ShopError> {
        let is_unlucky = self.on_database(move |till| till.is_unlucky(seen)).await?;
        if !is_unlucky {
            tokio::time::sleep(PAYMENT).await;
            return Ok(());
        }
        self.tell_incident(seen, fence());
        if self.mishap == Mishap::DiesAlone {
            self.death.notify_one();
        }
        let mut known = 0;
        loop {
            tokio::time::sleep(Duration::from_millis(2)).await;
            let renewals = Lease::current().map_or(0, |lease| lease.renewals());
            if renewals > known {
                known = renewals;
                self.tell(Event::Renewed { at: event::now(), count: renewals });
            }
        }
    }

    /// Calls the payment provider, and blocks the thread. `true`: it took the unlucky one so long
    /// that its lease is over.
    fn pay_blocking(&self, seen: i64, fence: u64) -> Result<bool, ShopError> {
        std::thread::park_timeout(PAYMENT);
        if !self.is_unlucky(seen)? {
            return Ok(false);
        }
        self.tell_incident(seen, fence);
        let mut phase = self.phase.clone();
        let thaw = phase.wait_for(|phase| *phase == Phase::Thawed);
        Handle::current().block_on(thaw).map_err(|_| ShopError::Stopped)?;
        Ok(true)
    }

    fn is_unlucky(&self, seen: i64) -> rusqlite::Result<bool> {
        let is_time = self.mishap != Mishap::None && seen <= self.mishap_at;
        Ok(is_time && self.database.take_incident()?)
    }

    fn order(&self, seen: i64) -> Order {
        Order { proc: self.proc, task: self.task, seen }
    }

    fn tell_incident(&self, seen: i64, fence: u64) {
        self.tell(Event::Incident { task: self.task, at: event::now(), fence, seen });
    }

    fn tell(&self, event: Event) {
        let _ = self.events.send(event);
    }

    async fn on_database<T, F>(&self, call: F) -> Result<T, ShopError>
    where
        T: Send + 'static,
        F: FnOnce(&Self) -> rusqlite::Result<T> + Send + 'static,
    {
        let till = self.clone();
        Ok(spawn_blocking(move || call(&till)).await??)
    }
}
