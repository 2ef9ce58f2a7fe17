//! A server as one of N: since when it remembers, and the roll that is left on it.

use std::time::Duration;

use super::diagnosis::diagnose;
use super::exchange::{Failure, no_reply};
use super::node::RedisNode;
use super::offset::Sample;
use super::presence::CLOCK;
use super::roll;
use super::source::Source;
use crate::backend::{Offer, Recall, Reply, RollCall, Voter};

impl<S: Source> Voter for RedisNode<S> {
    fn name(&self) -> &str {
        &self.core.name
    }

    fn recall(&self) -> Option<Recall> {
        self.core.presence.recall()
    }

    fn roll<'a>(
        &'a self,
        key: &'a str,
        offer: Option<Offer>,
        within: Duration,
    ) -> Reply<'a, RollCall> {
        Box::pin(async move {
            let asked = tokio::time::timeout(within, async {
                let mut loan = self.calls.borrow().await?;
                let sent = CLOCK.now();
                let answer = roll::call(&mut loan.connection, key, offer.as_ref()).await;
                if answer.is_err() {
                    self.calls.discard(&loan);
                }
                answer.map(|(roll, micros)| (roll, micros, sent))
            });
            let (roll, micros, sent) = match asked.await {
                Ok(Ok(answer)) => answer,
                Ok(Err(error)) => {
                    let why = diagnose(&self.core.name, &error);
                    return Err(Failure::new(why.error, false, why.is_final).into());
                }
                Err(_) => {
                    return Err(no_reply(&self.core.name, "no reply", within, false).into());
                }
            };
            let sample = Sample { micros, sent, received: CLOCK.now() };
            self.core.presence.hear(sample);
            Ok(RollCall { roll, clock_offset: Some(sample.offset()) })
        })
    }
}
