//! Ours: the attribute, with the default lease and both ways to release.

use redlock::{LockError, Redlock, redis_lock};

use super::subject::{Body, Subject, Visit};
use crate::Failure;

#[derive(Clone)]
pub struct Attribute(Redlock);

#[derive(Clone)]
pub struct Background(Redlock);

#[redis_lock(key = "<key>", wait = "60s", client = locks)]
async fn locked(locks: &Redlock, key: &str, body: Body) -> Result<Visit, LockError> {
    Ok(body.run().await)
}

#[redis_lock(key = "<key>", wait = "60s", client = locks, release = "background")]
async fn locked_in_background(locks: &Redlock, key: &str, body: Body) -> Result<Visit, LockError> {
    Ok(body.run().await)
}

impl Subject for Attribute {
    async fn connect(url: &str) -> Result<Self, Failure> {
        Ok(Self(Redlock::connect(url).await?))
    }

    async fn hold(&self, key: &str, body: Body) -> Result<Visit, Failure> {
        Ok(locked(&self.0, key, body).await?)
    }
}

impl Subject for Background {
    async fn connect(url: &str) -> Result<Self, Failure> {
        Ok(Self(Redlock::connect(url).await?))
    }

    async fn hold(&self, key: &str, body: Body) -> Result<Visit, Failure> {
        Ok(locked_in_background(&self.0, key, body).await?)
    }
}
