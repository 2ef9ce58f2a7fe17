//! rslock with its defaults: three tries with random pauses of up to 200 ms, again and again.

use rslock::LockManager;

use super::subject::{Body, LEASE, Subject, Visit};
use crate::Failure;

#[derive(Clone)]
pub struct Rslock(LockManager);

impl Subject for Rslock {
    async fn connect(url: &str) -> Result<Self, Failure> {
        Ok(Self(LockManager::new(vec![url.to_owned()])))
    }

    async fn hold(&self, key: &str, body: Body) -> Result<Visit, Failure> {
        let guard = self.0.acquire(key, LEASE).await?;
        let visit = body.run().await;
        guard.release().await;
        Ok(visit)
    }
}
