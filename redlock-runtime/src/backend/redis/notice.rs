//! Asks a server to tell when a lock is let go of, where its waiters do not stand in line.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::exchange::{Call, exchange, unheard};
use super::node::RedisNode;
use super::notices::NOBODY;
use super::reply;
use super::script::NOTICE;
use super::source::Source;
use crate::backend::{Awaited, Claim, Fault, Told};

/// The part of the time that the connection for notices may take.
const CONNECTING_PART: u32 = 2;

impl<S: Source> RedisNode<S> {
    pub(super) async fn await_release(
        &self,
        claim: &Claim,
        told: Told,
        within: Duration,
    ) -> Result<Awaited, Fault> {
        let notices = &self.core.notices;
        let end = Instant::now() + within;
        let channel = notices.channel_within(within / CONNECTING_PART).await;
        if channel == NOBODY {
            return Ok(Awaited::default());
        }
        // Before the command leaves: the notice may come before the answer.
        let awaited = notices.expect(claim, Arc::clone(&told));
        let queue = claim.key.queue_key();
        let keys = [claim.key.redis_key(), &queue];
        let call = Call::new(&NOTICE, &keys, &[claim.owner.as_str(), channel]);
        let left = end - Instant::now();
        let answer =
            exchange(&self.core.health, &self.calls, &call, left, reply::will_tell, unheard)
                .await?;
        if !answer.found {
            told();
        }
        Ok(awaited)
    }
}
