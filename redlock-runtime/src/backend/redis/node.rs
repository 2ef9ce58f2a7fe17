//! One Redis server as a backend, and the connections of callers' runtimes to it.
//!
//! A command that is awaited on the runtime of its connection needs no hop to another thread. Such
//! a connection ends with its runtime, so it is never the only one.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deadpool_redis::Pool;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::connection::{Direct, Source, address};
use super::local_runtimes::LocalRuntimes;
use super::node_core::{NodeCore, NodeOptions};
use super::node_tasks::{self, TaskGuard};
use super::route::Route;
use crate::backend::{
    Abilities, Acquired, BackgroundTask, BackgroundWork, Claim, Found, HealthCheck, LockBackend,
    Release, Reply, Tls,
};
use crate::error::LockError;
use crate::fencing::FencingToken;
use crate::process;

mod local_connection;

/// One Redis server, and the connections of callers' runtimes to it.
pub(crate) struct RedisNode<S: Source = Direct> {
    /// Over the connection on the background thread.
    pub(crate) route: Route<S>,
    pub(super) runtimes: LocalRuntimes<S>,
    /// A fork copies this memory, and the sockets with it.
    process: process::ProcessId,
    /// A runtime of a caller can have a connection.
    may_be_local: bool,
    has_background_task: Arc<AtomicBool>,
    /// Ends the background task, and those that keep the connections of runtimes.
    over: CancellationToken,
    _end: DropGuard,
}

impl RedisNode {
    pub(crate) fn open(
        url: &str,
        tls: Option<&Tls>,
        options: NodeOptions,
    ) -> Result<Self, LockError> {
        let info = address::parse(url, tls)?;
        Ok(Self::new(address::name(&info), Direct::to(info), options))
    }

    /// `pool` is the source of connections; its size and recycling do not matter.
    pub(crate) fn from_pool(pool: &Pool, index: usize, options: NodeOptions) -> Self {
        Self::new(format!("redis pool {index}"), Direct::Pool(pool.clone()), options)
    }
}

impl<S: Source> RedisNode<S> {
    pub(crate) fn new(name: String, source: S, options: NodeOptions) -> Self {
        // A runtime without I/O shows only in a panic of the first connect, which `panic = "abort"`
        // would make the end of the process.
        let may_be_local =
            S::IS_PORTABLE && options.min_replicas.is_none() && !cfg!(panic = "abort");
        let route = Route::new(NodeCore::new(name, source, options));
        let over = CancellationToken::new();
        let end = over.clone().drop_guard();
        let (runtimes, process) = (LocalRuntimes::new(over.clone()), process::id());
        let has_background_task = Arc::default();
        Self { route, runtimes, process, may_be_local, has_background_task, over, _end: end }
    }

    /// `health` says in an outage whether it is over.
    pub(super) fn background_task_with(
        &self,
        health: Arc<dyn HealthCheck>,
    ) -> Option<BackgroundTask> {
        let runs = self.has_background_task.swap(true, Ordering::AcqRel);
        (!runs).then(|| {
            let (route, runs) = (self.route.clone(), Arc::clone(&self.has_background_task));
            node_tasks::all(TaskGuard { route, runs }, health, self.over.clone())
        })
    }
}

impl<S: Source> fmt::Debug for RedisNode<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.route.fmt(f)
    }
}

impl<S: Source> LockBackend for RedisNode<S> {
    fn acquire<'a>(&'a self, claim: &'a Claim, within: Duration) -> Reply<'a, Acquired> {
        self.route.acquire(claim, within)
    }

    fn renew<'a>(&'a self, claims: &'a [Claim], within: Duration) -> Reply<'a, Vec<Option<Found>>> {
        self.route.renew(claims, within)
    }

    fn release<'a>(&'a self, release: Release<'a>, within: Duration) -> Reply<'a, Found> {
        self.route.release(release, within)
    }

    fn raise<'a>(
        &'a self,
        claim: &'a Claim,
        fencing_token: FencingToken,
        within: Duration,
    ) -> Reply<'a, Found> {
        self.route.raise(claim, fencing_token, within)
    }

    fn verify(&self, within: Duration) -> Reply<'_, ()> {
        self.route.verify(within)
    }

    fn abilities(&self) -> Abilities<'_> {
        Abilities {
            release_hints: Some(&self.route),
            local_connection: Some(self),
            background_work: Some(self),
            ..self.route.abilities()
        }
    }
}

impl<S: Source> BackgroundWork for RedisNode<S> {
    fn background_task(&self) -> Option<BackgroundTask> {
        self.background_task_with(Arc::new(self.route.clone()))
    }
}
