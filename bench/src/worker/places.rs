//! Where a client of ours has its locks, in each way that its builder knows.

use std::time::Duration;

use deadpool_redis::{Config, Runtime};
use redlock::Redlock;

use crate::Failure;

pub trait Place: Clone + Send + Sync + 'static {
    /// `url` has commas between several.
    fn client(url: &str) -> impl Future<Output = Result<Redlock, Failure>> + Send;
}

/// What `init` takes.
#[derive(Clone)]
pub struct OneServer;

#[derive(Clone)]
pub struct InPool;

#[derive(Clone)]
pub struct ThreeMasters;

#[derive(Clone)]
pub struct WithReplica;

#[derive(Clone)]
pub struct InCluster;

#[derive(Clone)]
pub struct InMemory;

impl Place for OneServer {
    async fn client(url: &str) -> Result<Redlock, Failure> {
        Ok(Redlock::connect(url).await?)
    }
}

impl Place for InPool {
    async fn client(url: &str) -> Result<Redlock, Failure> {
        let pool = Config::from_url(url).create_pool(Some(Runtime::Tokio1))?;
        Ok(Redlock::builder().pool(pool).build().await?)
    }
}

impl Place for ThreeMasters {
    async fn client(url: &str) -> Result<Redlock, Failure> {
        Ok(Redlock::builder().urls(url.split(',')).build().await?)
    }
}

impl Place for WithReplica {
    async fn client(url: &str) -> Result<Redlock, Failure> {
        let builder = Redlock::builder().url(url).min_replicas(1, Duration::from_millis(500));
        Ok(builder.build().await?)
    }
}

impl Place for InCluster {
    async fn client(url: &str) -> Result<Redlock, Failure> {
        Ok(Redlock::builder().cluster(url.split(',')).build().await?)
    }
}

impl Place for InMemory {
    async fn client(_: &str) -> Result<Redlock, Failure> {
        Ok(Redlock::builder().memory().build().await?)
    }
}
