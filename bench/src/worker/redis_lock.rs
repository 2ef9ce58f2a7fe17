//! redis-lock: `lock_across` with its default pause of 100 ms between tries. Its connection sits
//! in a mutex, as its documentation shows; only its lease of 10 ms is replaced.

use std::sync::Arc;

use redis_lock::{LockAcrossOptions, lock_across};
use redis_lock_client::Client;
use redis_lock_client::aio::MultiplexedConnection;
use tokio::sync::Mutex;

use super::subject::{Body, LEASE, Subject, Visit, WAIT};
use crate::Failure;

#[derive(Clone)]
pub struct RedisLock(Arc<Mutex<MultiplexedConnection>>);

impl Subject for RedisLock {
    async fn connect(url: &str) -> Result<Self, Failure> {
        let connection = Client::open(url)?.get_multiplexed_async_connection().await?;
        Ok(Self(Arc::new(Mutex::new(connection))))
    }

    async fn hold(&self, key: &str, body: Body) -> Result<Visit, Failure> {
        let connections = [Arc::clone(&self.0)];
        let options =
            LockAcrossOptions { ttl: LEASE, duration: WAIT, ..LockAcrossOptions::default() };
        let visit = lock_across(&connections, key, body.run(), options).await;
        visit.map_err(|error| error.to_string().into())
    }
}
