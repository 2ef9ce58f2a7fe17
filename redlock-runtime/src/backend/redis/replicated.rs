//! The commands that replicas have to confirm: over which connection they go, and when too few have
//! confirmed one.

use deadpool_redis::redis::RedisResult;

use super::commands::{Deadline, Failure};
use super::connection::{MinReplicas, ReplicaConnection, Source, diagnose};
use super::route::Route;
use crate::error::{NodeError, NodeErrorKind};

const SLOW_REPLICAS: &str = "all connections for calls that wait for replicas are in use: the \
                             replicas are slow, or the calls too many";

impl<S: Source> Route<S> {
    /// The connection for a command that replicas have to confirm. `None`: they need not, and the
    /// command goes over `calls`.
    pub(super) async fn replica_connection(
        &self,
        deadline: &Deadline,
    ) -> Result<Option<ReplicaConnection<'_, S>>, Failure> {
        let Some((_, connections)) = &self.core.replicated else { return Ok(None) };
        // Boxed to keep the future of an acquire small.
        let taken = Box::pin(tokio::time::timeout_at(deadline.end, connections.take())).await;
        taken.map(Some).map_err(|_| {
            let message = format!("no free connection within {} ms", deadline.within.as_millis());
            let error = NodeError::new(&self.core.name, NodeErrorKind::NoReply, message);
            Failure::not_run(error.advising(SLOW_REPLICAS).unsent())
        })
    }

    /// Why a write does not count: too few replicas have it. The flag: retrying cannot help.
    pub(super) fn shortage(
        &self,
        replicas: Option<MinReplicas>,
        confirmed: RedisResult<u32>,
    ) -> Option<(NodeError, bool)> {
        let replicas = replicas?;
        match confirmed {
            Ok(count) if count >= replicas.needed => None,
            Ok(count) => {
                let message = replicas.shortage(count);
                Some((NodeError::new(&self.core.name, NodeErrorKind::NoReplicas, message), false))
            }
            Err(error) => {
                let why = diagnose(&self.core.name, &error);
                Some((why.error, why.is_final))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::backend::redis::connection::Scripted;
    use crate::backend::redis::{NodeOptions, RedisNode};
    use crate::backend::{Claim, LockBackend, Member, NodeAdmission};
    use crate::key::LockKey;
    use crate::kind::Kind;
    use crate::owner::Owner;

    /// Other calls wait for replicas over all of its connections.
    #[tokio::test(start_paused = true)]
    async fn a_server_for_which_no_connection_is_free_is_not_down() {
        let within = Duration::from_secs(1);
        let min_replicas = Some(MinReplicas { needed: 1, within });
        let options = NodeOptions { min_replicas, ..NodeOptions::default() };
        let node = Arc::new(RedisNode::new("n".to_owned(), Scripted::default(), options));
        let (_, connections) = node.route.core.replicated.as_ref().unwrap();
        let mut taken = Vec::new();
        while let Ok(connection) = tokio::time::timeout(within, connections.take()).await {
            taken.push(connection);
        }
        let (key, owner) = (LockKey::new("", "k").unwrap(), Owner::of_nobody("o"));
        let claim = Claim { key, owner, expire: within, kind: Kind::Exclusive };
        let answer = node.acquire(&claim, within).await;
        let text = answer.as_ref().unwrap_err().nodes_text();
        assert!(text.contains("no free connection within 1000 ms (all connections"), "{text}");
        let member = Member::new(0, Arc::clone(&node) as _);
        member.note(&answer);
        assert!(matches!(member.admit(), NodeAdmission::Ask));
    }
}
