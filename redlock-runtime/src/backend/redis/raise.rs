//! Raises the fencing counter of a lock.

use std::time::Duration;

use super::commands::{Deadline, Failure, by_kind, exclusive, no_undo, send_script};
use super::connection::Source;
use super::route::Route;
use crate::backend::{Claim, Fault, Found};
use crate::fencing::FencingToken;

impl<S: Source> Route<S> {
    /// A counter that a failover may forget does not count.
    pub(super) async fn raise_within(
        &self,
        claim: &Claim,
        fencing_token: FencingToken,
        within: Duration,
    ) -> Result<Found, Fault> {
        let (mut call, deadline) = (by_kind::raise(claim, fencing_token), Deadline::after(within));
        let own = self.replica_connection(&deadline).await?;
        let connection = own.as_deref().unwrap_or(&self.connection);
        let replicas = self.core.min_replicas().map(|some| some.answering(deadline.left()));
        call.replicas = replicas;
        let (health, decode) = (&self.core.health, exclusive::raise::decode);
        let answer = send_script(health, connection, &call, &deadline, decode, no_undo).await?;
        match self.shortage(replicas, answer.confirmed) {
            Some((error, is_final)) if answer.reply == Found::Ours => {
                Err(Failure::unknown(error).final_if(is_final).into())
            }
            _ => Ok(answer.reply),
        }
    }
}
