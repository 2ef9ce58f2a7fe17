//! Which of N nodes answer, and have a vote.

use std::sync::Arc;
use std::time::Duration;

use super::backend::Quorum;
use super::founders::Founders;
use super::member::Member;
use crate::backend::{HealthAnswer, HealthCheck};
use crate::health::{Health, NodeHealth};

impl HealthCheck for Quorum {
    /// Every node is asked, and waited for: also those that are down.
    fn check_health(&self, within: Duration) -> HealthAnswer<'_> {
        Box::pin(async move {
            let ask = |member: &Arc<Member>| {
                let member = Arc::clone(member);
                tokio::spawn(async move {
                    match member.backend.abilities().health {
                        Some(check) => check.check_health(within).await.into_nodes(),
                        None => Vec::new(),
                    }
                })
            };
            let asked: Vec<_> = self.members.iter().map(ask).collect();
            let founders = match &self.guard {
                Some(guard) => guard.presumed_founders(&self.members, self.needed, within).await,
                None => None,
            };
            let mut nodes = Vec::with_capacity(asked.len());
            for (member, answer) in self.members.iter().zip(asked) {
                let found = answer.await.unwrap_or_default();
                nodes.extend(
                    found.into_iter().map(|node| self.judged(founders.as_ref(), member, node)),
                );
            }
            Health::new(nodes, self.needed)
        })
    }
}

impl Quorum {
    fn judged(&self, founders: Option<&Founders>, member: &Member, node: NodeHealth) -> NodeHealth {
        let guard = self.guard.as_ref();
        let objection = guard.and_then(|guard| guard.objection_by(founders, member));
        node.objected(objection.and_then(|fault| fault.nodes.into_iter().next()))
    }
}
