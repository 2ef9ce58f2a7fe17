//! distkit: its `RwLock` with its defaults, a try every 50 ms, lease 30 s. A lock is bound to one
//! key and one owner, so that each hold makes one on the connection of its client.

use std::sync::Arc;

use distkit::DistkitRedisKey;
use distkit::lock::{LockOptions, RwLock};
use redis::aio::ConnectionManager;

use super::subject::{Body, Subject, Visit};
use crate::Failure;

#[derive(Clone)]
pub struct Distkit(ConnectionManager);

impl Distkit {
    fn lock(&self, key: &str) -> Result<Arc<RwLock>, Failure> {
        let key = DistkitRedisKey::try_from(key.to_owned())?;
        Ok(RwLock::new(LockOptions::new(key, self.0.clone())))
    }
}

impl Subject for Distkit {
    async fn connect(url: &str) -> Result<Self, Failure> {
        let client = redis::Client::open(url)?;
        Ok(Self(client.get_connection_manager().await?))
    }

    async fn hold(&self, key: &str, body: Body) -> Result<Visit, Failure> {
        let guard = self.lock(key)?.read().await?;
        let visit = body.run().await;
        guard.release().await?;
        Ok(visit)
    }

    async fn write(&self, key: &str, body: Body) -> Result<Visit, Failure> {
        let guard = self.lock(key)?.write().await?;
        let visit = body.run().await;
        guard.release().await?;
        Ok(visit)
    }
}
