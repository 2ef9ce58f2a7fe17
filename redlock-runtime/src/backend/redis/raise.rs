//! Raises the fencing counter of a lock.

use super::commands::{Deadline, Failure, ScriptCall, exclusive, no_undo, send_script};
use super::connection::{SharedConnection, Source};
use super::route::Route;
use crate::backend::Found;

impl<S: Source> Route<S> {
    /// A counter that a failover may forget does not count.
    pub(super) async fn raise_over(
        &self,
        connection: &SharedConnection<S>,
        mut call: ScriptCall,
        deadline: &Deadline,
    ) -> Result<Found, Failure> {
        let replicas = self.core.min_replicas().map(|some| some.answering(deadline.left()));
        call.replicas = replicas;
        let (health, decode) = (&self.core.health, exclusive::raise::decode);
        let answer = send_script(health, connection, &call, deadline, decode, no_undo).await?;
        match self.shortage(replicas, answer.confirmed) {
            Some((error, is_final)) if answer.found == Found::Ours => {
                Err(Failure::new(error, true, is_final))
            }
            _ => Ok(answer.found),
        }
    }
}
