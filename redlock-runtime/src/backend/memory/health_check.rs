//! Memory always answers.

use std::time::Duration;

use super::Memory;
use crate::backend::{HealthAnswer, HealthCheck};
use crate::health::{Health, NodeHealth};

impl HealthCheck for Memory {
    fn check_health(&self, _: Duration) -> HealthAnswer<'_> {
        let node = NodeHealth::new("memory", Duration::ZERO, Ok(()), self.made);
        Box::pin(async move { Health::new(vec![node], 1) })
    }
}
