//! Ours: the guard, released by hand.

use redlock::Redlock;

use super::subject::{Body, Subject, Visit, WAIT};
use crate::Failure;

#[derive(Clone)]
pub struct Guard(Redlock);

impl Subject for Guard {
    async fn connect(url: &str) -> Result<Self, Failure> {
        Ok(Self(Redlock::connect(url).await?))
    }

    async fn hold(&self, key: &str, body: Body) -> Result<Visit, Failure> {
        let guard = self.0.lock(key).wait(WAIT).acquire().await?;
        let visit = body.run().await;
        guard.release().await?;
        Ok(visit)
    }
}
