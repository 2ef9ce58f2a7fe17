//! Ours: the attribute, with the default lease and both ways to release.

use std::marker::PhantomData;

use redlock::{LockError, Redlock, redis_lock};

use super::places::{OneServer, Place};
use super::subject::{Body, Subject, Visit};
use crate::Failure;

/// With the client of a place.
#[derive(Clone)]
pub struct Attribute<P = OneServer>(Redlock, PhantomData<P>);

#[derive(Clone)]
pub struct Awaited(Redlock);

#[redis_lock(key = "<key>", wait = "60s", client = locks)]
async fn locked(locks: &Redlock, key: &str, body: Body) -> Result<Visit, LockError> {
    Ok(body.run().await)
}

#[redis_lock(key = "<key>", wait = "60s", client = locks, release = "await")]
async fn locked_until_free(locks: &Redlock, key: &str, body: Body) -> Result<Visit, LockError> {
    Ok(body.run().await)
}

impl<P: Place> Subject for Attribute<P> {
    async fn connect(url: &str) -> Result<Self, Failure> {
        Ok(Self(P::client(url).await?, PhantomData))
    }

    async fn hold(&self, key: &str, body: Body) -> Result<Visit, Failure> {
        Ok(locked(&self.0, key, body).await?)
    }
}

impl Subject for Awaited {
    async fn connect(url: &str) -> Result<Self, Failure> {
        Ok(Self(Redlock::connect(url).await?))
    }

    async fn hold(&self, key: &str, body: Body) -> Result<Visit, Failure> {
        Ok(locked_until_free(&self.0, key, body).await?)
    }
}
