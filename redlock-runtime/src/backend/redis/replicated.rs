//! The commands that replicas have to confirm: over which connection they go, and when too few have
//! confirmed one.

use deadpool_redis::redis::RedisResult;

use super::commands::{Deadline, Failure, no_reply};
use super::connection::{MinReplicas, ReplicaConnection, Source, diagnose};
use super::route::Route;
use crate::error::{NodeError, NodeErrorKind};

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
        let none = "no free connection";
        taken.map(Some).map_err(|_| no_reply(&self.core.name, none, deadline.within, false))
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
