//! The shop: what the lock protects. Read this file first.

use std::time::{Duration, Instant};

use redlock::{Lease, redis_lock};
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::block_in_place;

use crate::Result;
use crate::act::{Accident, Act};
use crate::database::Database;
use crate::worker::{Event, Message};

/// How long the payment provider takes to answer.
const PAYMENT: Duration = Duration::from_millis(1);
/// A frozen holder goes on when others have sold so many units. Its process wakes up after half.
pub(crate) const SOLD_MEANWHILE: i64 = 10;

/// Act 1: read, pay, write. Two customers who read before either of them writes get the same unit.
pub(crate) async fn deduct_unlocked(id: u64, till: &Till) -> Result<Visit> {
    till.deduct(id).await
}

/// Acts 2 to 4: the same under a lock that all processes share.
#[redis_lock(key = "stock-<id>", expire = "1s", wait = "60s", max_renew = 2)]
pub(crate) async fn deduct(id: u64, till: &Till) -> Result<Visit> {
    till.deduct(id).await
}

/// Act 5, and act 3 without processes: the lease is never renewed.
#[redis_lock(key = "stock-<id>", expire = "1s", wait = "60s", max_renew = 0)]
pub(crate) async fn deduct_unrenewed(id: u64, till: &Till) -> Result<Visit> {
    till.deduct(id).await
}

/// Act 6: moves a unit between two shelves, and locks the one that it takes from. Whoever takes
/// from the other one meanwhile has read what this one overwrites.
#[redis_lock(key = "stock-<from>", expire = "1s", wait = "60s")]
pub(crate) async fn carry_under_one_key(from: u64, to: u64, till: &Till) -> Result<Visit> {
    till.carry(from, to).await
}

/// Act 6: the same with both shelves locked, all or none. Calls in opposite directions do not wait
/// for each other in a circle.
#[redis_lock(keys = ["stock-<from>", "stock-<to>"], expire = "1s", wait = "60s")]
pub(crate) async fn carry(from: u64, to: u64, till: &Till) -> Result<Visit> {
    till.carry(from, to).await
}

/// How a customer was served. `seen` is the stock that was read; 0 means sold out.
pub(crate) struct Visit {
    pub(crate) waited: Duration,
    pub(crate) fence: u64,
    pub(crate) seen: i64,
}

/// The till of one task.
pub(crate) struct Till {
    pub(crate) database: Database,
    pub(crate) proc: usize,
    pub(crate) asked: Instant,
    pub(crate) act: &'static Act,
    /// The accident happens to the first who reads a stock this low.
    pub(crate) accident_at: i64,
    pub(crate) events: UnboundedSender<Message>,
    /// Told of the accident of act 3, for workers that are no processes.
    pub(crate) death: Notify,
}

impl Till {
    async fn deduct(&self, id: u64) -> Result<Visit> {
        let waited = self.asked.elapsed();
        let fence = Lease::current().map_or(0, |lease| lease.fencing_token().into());
        // With fencing the row is claimed before it is read, and written only under that claim.
        let claim = self.act.is_fenced.then_some(fence);
        let seen = block_in_place(|| self.database.read(id, claim))?;
        if seen > 0 {
            let is_late = self.pay(id, seen, fence).await?;
            let written = block_in_place(|| self.database.write(id, seen, claim));
            if is_late {
                self.tell(Event::Late { fence, seen, is_refused: written.is_err() });
            }
            written?;
        }
        Ok(Visit { waited, fence, seen })
    }

    async fn carry(&self, from: u64, to: u64) -> Result<Visit> {
        let waited = self.asked.elapsed();
        let fence = Lease::current().map_or(0, |lease| lease.fencing_token().into());
        let read = |id| block_in_place(|| self.database.read(id, None));
        let (seen, there) = (read(from)?, read(to)?);
        if seen > 0 {
            tokio::time::sleep(PAYMENT).await;
            let shelves = [(from, seen - 1), (to, there + 1)];
            block_in_place(|| self.database.put(shelves))?;
        }
        Ok(Visit { waited, fence, seen })
    }

    /// Calls the payment provider; the accident of the act happens here. `true`: it took so long
    /// that the lease is over.
    async fn pay(&self, id: u64, seen: i64, fence: u64) -> Result<bool> {
        let is_unlucky = self.act.accident.is_some()
            && seen <= self.accident_at
            && block_in_place(|| self.database.take_accident())?;
        if is_unlucky {
            self.tell(Event::Accident { fence });
        }
        match self.act.accident {
            // No `.await` between read and write, so that the lock cannot stop the write of a
            // holder that was frozen in between. Only the database can, by its fencing token.
            Some(Accident::Freeze) => block_in_place(|| self.pay_in_one_go(id, seen, is_unlucky)),
            // The provider never answers. The lock stops this body, or its process is killed.
            Some(_) if is_unlucky => {
                self.death.notify_one();
                std::future::pending().await
            }
            _ => {
                tokio::time::sleep(PAYMENT).await;
                Ok(false)
            }
        }
    }

    fn pay_in_one_go(&self, id: u64, seen: i64, is_unlucky: bool) -> Result<bool> {
        std::thread::park_timeout(PAYMENT);
        // Its process is frozen here, and goes on once others have had the lock.
        let left = seen - SOLD_MEANWHILE;
        while is_unlucky && !self.events.is_closed() && self.database.read(id, None)? > left {
            std::thread::park_timeout(PAYMENT);
        }
        Ok(is_unlucky)
    }

    pub(crate) fn tell(&self, event: Event) {
        let _ = self.events.send((self.proc, event));
    }
}
