//! distributed-lock-redis with its defaults; a bound on the wait.

use std::sync::Arc;

use distributed_lock_core::traits::{DistributedLock as _, LockHandle, LockProvider};
use distributed_lock_redis::RedisLockProvider;

use super::subject::{Body, Subject, Visit, WAIT};
use crate::Failure;

#[derive(Clone)]
pub struct DistributedLock(Arc<RedisLockProvider>);

impl Subject for DistributedLock {
    async fn connect(url: &str) -> Result<Self, Failure> {
        Ok(Self(Arc::new(RedisLockProvider::new(url).await?)))
    }

    async fn hold(&self, key: &str, body: Body) -> Result<Visit, Failure> {
        let handle = self.0.create_lock(key).acquire(Some(WAIT)).await?;
        let visit = body.run().await;
        handle.release().await?;
        Ok(visit)
    }
}
