//! async-redis-lock with its defaults (a try every 100 ms, lease 3 s); a longer bound on the wait.

use async_redis_lock::{Locker, Options};

use super::subject::{Body, Subject, Visit, WAIT};
use crate::Failure;

#[derive(Clone)]
pub struct AsyncRedisLock(Locker);

impl Subject for AsyncRedisLock {
    async fn connect(url: &str) -> Result<Self, Failure> {
        Ok(Self(Locker::from_redis_url(url).await?))
    }

    async fn hold(&self, key: &str, body: Body) -> Result<Visit, Failure> {
        let options = Options::new().timeout(Some(WAIT));
        let lock = self.0.acquire_with_options(&options, key).await?;
        let visit = body.run().await;
        lock.release().await?;
        Ok(visit)
    }
}
