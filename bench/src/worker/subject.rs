//! What is measured, and the body that it protects.

use std::sync::Arc;
use std::time::Duration;

use super::cell::{Cell, Content};
use super::open::Entry;
use super::timer;
use crate::Failure;
use crate::monotonic;

/// A lock library with its recommended options. A clone shares the client.
pub trait Subject: Clone + Send + Sync + 'static {
    /// One client, as a process has.
    fn connect(url: &str) -> impl Future<Output = Result<Self, Failure>> + Send;

    /// One cycle: the lock of `key`, the body, the release.
    fn hold(&self, key: &str, body: Body) -> impl Future<Output = Result<Visit, Failure>> + Send;

    /// The same with the write lock of a subject whose own is a read lock.
    fn write(&self, key: &str, body: Body) -> impl Future<Output = Result<Visit, Failure>> + Send {
        self.hold(key, body)
    }

    /// As the body's worker does.
    fn visit(&self, key: &str, body: Body) -> impl Future<Output = Result<Visit, Failure>> + Send {
        async move {
            if body.part == Part::Writer {
                self.write(key, body).await
            } else {
                self.hold(key, body).await
            }
        }
    }
}

/// Longer than any measurement: whoever polls, polls for a bounded time.
pub const WAIT: Duration = Duration::from_secs(60);
pub const LEASE: Duration = Duration::from_secs(30);

/// What a worker does where one writes among readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// All do the same: each raises the counter.
    Any,
    Writer,
    /// It only looks at the counter, at the beginning and at the end.
    Reader,
}

/// The critical section.
#[derive(Debug, Clone)]
pub struct Body {
    pub cell: Cell,
    pub worker: u64,
    pub part: Part,
    pub sleep: Duration,
    /// In an open loop, where also the sleep is precise.
    pub entry: Option<Arc<Entry>>,
}

/// What a body saw.
#[derive(Debug, Clone, Copy)]
pub struct Visit {
    pub began_at: u64,
    pub before: Content,
    /// A reader saw the counter move.
    pub is_torn: bool,
}

impl Body {
    pub async fn run(self) -> Visit {
        let began_at = monotonic::now();
        if let Some(entry) = &self.entry {
            entry.begin(began_at);
        }
        let before = self.cell.read();
        match &self.entry {
            _ if self.sleep.is_zero() => {}
            Some(_) => timer::sleep(self.sleep).await,
            None => tokio::time::sleep(self.sleep).await,
        }
        let mut is_torn = false;
        if self.part == Part::Reader {
            is_torn = self.cell.read().counter != before.counter;
        } else if !matches!(self.cell, Cell::None) {
            let counter = before.counter + 1;
            let last_worker = self.worker + 1;
            self.cell.write(Content { counter, last_worker, ended_at: monotonic::now() });
        }
        if let Some(entry) = &self.entry {
            entry.end(monotonic::now());
        }
        Visit { began_at, before, is_torn }
    }
}
