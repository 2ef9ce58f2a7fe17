//! One Redis server as a backend.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use deadpool_redis::Pool;

use super::connection::{Direct, LocalRoutes, Source, address};
use super::node_core::{NodeCore, NodeOptions};
use super::node_tasks::NodeTasks;
use super::route::Route;
use crate::backend::{
    Abilities, Acquired, BackgroundTask, BackgroundWork, Claim, Found, LocalConnection,
    LockBackend, Release, Reply, Tls,
};
use crate::error::LockError;
use crate::fencing::FencingToken;

/// One Redis server, and the connections of callers' runtimes to it.
pub(crate) struct RedisNode<S: Source = Direct> {
    pub(crate) route: Route<S>,
    local: LocalRoutes<S>,
    tasks: NodeTasks<S>,
}

impl RedisNode {
    pub(crate) fn open(
        url: &str,
        tls: Option<&Tls>,
        options: NodeOptions,
    ) -> Result<Self, LockError> {
        let (name, pool, client) = address::open(url, tls)?;
        Ok(Self::new(name, Direct::new(pool, Some(client)), options))
    }

    /// `pool` is the source of connections; its size and recycling do not matter.
    pub(crate) fn from_pool(pool: &Pool, index: usize, options: NodeOptions) -> Self {
        Self::new(format!("redis pool {index}"), Direct::new(pool.clone(), None), options)
    }
}

impl<S: Source> RedisNode<S> {
    pub(crate) fn new(name: String, source: S, options: NodeOptions) -> Self {
        let route = Route::new(NodeCore::new(name, source, options));
        let tasks = NodeTasks::new(&route);
        Self { route, local: LocalRoutes::default(), tasks }
    }
}

#[cfg(test)]
impl<S: Source> RedisNode<S> {
    pub(super) fn local(&self) -> &LocalRoutes<S> {
        &self.local
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

impl<S: Source> LocalConnection for RedisNode<S> {
    fn local_connection(&self) -> Option<Arc<dyn LockBackend>> {
        let route = self.local.here(&self.route)?;
        Some(route)
    }
}

impl<S: Source> BackgroundWork for RedisNode<S> {
    fn background_task(&self) -> Option<BackgroundTask> {
        self.tasks.begin()
    }
}
