//! `WAIT`: is what a connection wrote on enough replicas?
//!
//! `WAIT` counts the writes of its own connection only, and blocks it until the replicas have
//! answered (<https://redis.io/docs/latest/commands/wait/>): it goes behind the script at once, on
//! a connection that nobody else waits for.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use deadpool_redis::redis::aio::ConnectionLike;
use deadpool_redis::redis::{self, RedisResult, Value};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::link::Link;
use super::source::Source;

/// Connections for acquires that wait for replicas, at most; more callers queue for one.
const MOST_LANES: usize = 32;

/// How many replicas have to confirm a write, and how soon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MinReplicas {
    pub(crate) needed: u32,
    pub(crate) within: Duration,
}

impl MinReplicas {
    /// How many replicas have what this connection wrote so far.
    pub(super) async fn confirm(
        self,
        connection: &mut (impl ConnectionLike + Send),
    ) -> RedisResult<u32> {
        // Zero would wait for ever.
        let millis = self.within.as_millis().max(1);
        let mut wait = redis::cmd("WAIT");
        wait.arg(self.needed).arg(u64::try_from(millis).unwrap_or(u64::MAX));
        match wait.query_async(connection).await? {
            Value::Int(acknowledged) => Ok(u32::try_from(acknowledged).unwrap_or(0)),
            _ => Ok(0),
        }
    }

    pub(super) fn shortage(self, confirmed: u32) -> String {
        let Self { needed, within } = self;
        format!("{confirmed} of {needed} replicas confirmed the lock within {within:?}")
    }
}

/// Connections that are used by one caller at a time.
pub(super) struct Lanes<S: Source> {
    source: Arc<S>,
    idle: Mutex<Vec<Arc<Link<S>>>>,
    permits: Semaphore,
}

impl<S: Source> Lanes<S> {
    pub(super) fn new(source: Arc<S>) -> Self {
        Self { source, idle: Mutex::default(), permits: Semaphore::new(MOST_LANES) }
    }

    /// A connection for the caller alone. Cancel safe.
    pub(super) async fn take(&self) -> Lane<'_, S> {
        let permit = self.permits.acquire().await.ok();
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let link = idle.unwrap_or_else(|| Arc::new(Link::new(Arc::clone(&self.source))));
        Lane { lanes: self, link, _permit: permit }
    }
}

/// One of them, given back by its drop.
pub(super) struct Lane<'a, S: Source> {
    lanes: &'a Lanes<S>,
    pub(super) link: Arc<Link<S>>,
    _permit: Option<SemaphorePermit<'a>>,
}

impl<S: Source> Drop for Lane<'_, S> {
    fn drop(&mut self) {
        let mut idle = self.lanes.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(Arc::clone(&self.link));
    }
}
