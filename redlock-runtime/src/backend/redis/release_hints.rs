//! Asks a server to tell when a lock is let go of, where its waiters do not stand in line.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::commands::{RELEASE_HINT, ScriptCall, on_abandoned, send_script};
use super::connection::Source;
use super::node::RedisNode;
use super::pubsub::NOBODY;
use crate::backend::redis::commands::reply;
use crate::backend::{Claim, Fault, HintRegistration, OnRelease};

/// The part of the time that the connection for registry may take.
const CONNECTING_PART: u32 = 2;

impl<S: Source> RedisNode<S> {
    pub(crate) async fn await_release(
        &self,
        claim: &Claim,
        told: OnRelease,
        within: Duration,
    ) -> Result<HintRegistration, Fault> {
        let registry = &self.core.registry;
        let end = Instant::now() + within;
        let channel = registry.channel_within(within / CONNECTING_PART).await;
        if channel == NOBODY {
            return Ok(HintRegistration::default());
        }
        // Before the command leaves: the notice may come before the answer.
        let awaited = registry.expect(claim, Arc::clone(&told));
        let queue = claim.key.queue_key();
        let keys = [claim.key.redis_key(), &queue];
        let call = ScriptCall::new(&RELEASE_HINT, &keys, &[claim.owner.as_str(), channel]);
        let left = end - Instant::now();
        let answer = send_script(
            &self.core.health,
            &self.calls,
            &call,
            left,
            reply::will_tell,
            on_abandoned,
        )
        .await?;
        if !answer.found {
            told();
        }
        Ok(awaited)
    }
}
