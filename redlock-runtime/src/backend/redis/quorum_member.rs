//! A server as one of N nodes: since when it remembers, and its list of founders.

use std::sync::Arc;
use std::time::Duration;

use super::clock::CLOCK;
use super::commands::{Failure, no_reply};
use super::connection::{Source, diagnose};
use super::founders;
use super::node::RedisNode;
use crate::backend::{ClockOffset, FoundersOffer, MemorySince, QuorumMember, Reply};

impl<S: Source> QuorumMember for RedisNode<S> {
    fn name(&self) -> &str {
        &self.route.core.name
    }

    fn memory_since(&self) -> Option<MemorySince> {
        self.route.core.identity.memory_since()
    }

    /// Without a restart guard, as of the check at startup.
    fn run_id(&self) -> Option<Arc<str>> {
        let guarded = self.memory_since().map(|memory_since| memory_since.run_id);
        guarded.or_else(|| self.route.core.health.run_id())
    }

    fn clock_offset(&self) -> Option<ClockOffset> {
        self.route.core.identity.clock_offset()
    }

    fn founders<'a>(
        &'a self,
        key: &'a str,
        offer: Option<FoundersOffer>,
        within: Duration,
    ) -> Reply<'a, Option<String>> {
        Box::pin(async move {
            let asked = tokio::time::timeout(within, async {
                let mut loan = self.route.calls.borrow().await?;
                let sent = CLOCK.now();
                let answer = founders::call(&mut loan.connection, key, offer.as_ref()).await;
                if answer.as_ref().is_err_and(|error| diagnose(self.name(), error).discard) {
                    self.route.calls.discard(&loan);
                }
                answer.map(|(founders, micros)| (founders, micros, sent))
            });
            let (founders, micros, sent) = match asked.await {
                Ok(Ok(answer)) => answer,
                Ok(Err(error)) => {
                    let why = diagnose(&self.route.core.name, &error);
                    return Err(Failure::new(why.error, false, why.is_final).into());
                }
                Err(_) => {
                    return Err(no_reply(&self.route.core.name, "no reply", within, false).into());
                }
            };
            self.route.core.heard_time(micros, sent);
            Ok(founders)
        })
    }
}
