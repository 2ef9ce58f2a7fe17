//! Ours: read locks, permits, and two keys of one slot.

use redlock::Redlock;

use super::subject::{Body, Subject, Visit, WAIT};
use crate::Failure;

#[derive(Clone)]
pub struct Read(Redlock);

#[derive(Clone)]
pub struct Permits(Redlock);

#[derive(Clone)]
pub struct TwoKeys(Redlock);

impl Subject for Read {
    async fn connect(url: &str) -> Result<Self, Failure> {
        Ok(Self(Redlock::connect(url).await?))
    }

    async fn hold(&self, key: &str, body: Body) -> Result<Visit, Failure> {
        let guard = self.0.lock(key).read().wait(WAIT).acquire().await?;
        let visit = body.run().await;
        guard.release().await?;
        Ok(visit)
    }

    async fn write(&self, key: &str, body: Body) -> Result<Visit, Failure> {
        let guard = self.0.lock(key).wait(WAIT).acquire().await?;
        let visit = body.run().await;
        guard.release().await?;
        Ok(visit)
    }
}

impl Subject for Permits {
    async fn connect(url: &str) -> Result<Self, Failure> {
        Ok(Self(Redlock::connect(url).await?))
    }

    async fn hold(&self, key: &str, body: Body) -> Result<Visit, Failure> {
        let guard = self.0.lock(key).permits(3).wait(WAIT).acquire().await?;
        let visit = body.run().await;
        guard.release().await?;
        Ok(visit)
    }
}

impl Subject for TwoKeys {
    async fn connect(url: &str) -> Result<Self, Failure> {
        Ok(Self(Redlock::connect(url).await?))
    }

    async fn hold(&self, key: &str, body: Body) -> Result<Visit, Failure> {
        let keys = [format!("{{{key}}}-a"), format!("{{{key}}}-b")];
        let guard = self.0.lock_all(keys).wait(WAIT).acquire().await?;
        let visit = body.run().await;
        guard.release().await?;
        Ok(visit)
    }
}
