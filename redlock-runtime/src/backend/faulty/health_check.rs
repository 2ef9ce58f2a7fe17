//! Whether a store that plays faults answers.

use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::fate::meet;
use super::node::{FaultyNode, LastCheck};
use super::script::Command;
use crate::backend::{HealthAnswer, HealthCheck};
use crate::health::{Health, NodeHealth};

impl HealthCheck for FaultyNode {
    fn check_health(&self, within: Duration) -> HealthAnswer<'_> {
        let fate = self.state().script.standing(Command::Any);
        Box::pin(async move {
            let begun = Instant::now();
            let answer = meet(&self.name, fate, within, async { Ok(()) }).await;
            let (took, is_up) = (begun.elapsed(), answer.is_ok());
            let last = &mut self.state().last_check;
            if last.as_ref().is_none_or(|last| last.is_up != is_up) {
                *last = Some(LastCheck { is_up, since: SystemTime::now() });
            }
            let since = last.as_ref().map_or(SystemTime::UNIX_EPOCH, |last| last.since);
            let answer = answer.or_else(|fault| fault.nodes.into_iter().next().map_or(Ok(()), Err));
            Health::new(vec![NodeHealth::new(&self.name, took, answer, since)], 1)
        })
    }
}
