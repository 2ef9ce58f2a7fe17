//! Turns an exclusive lock of a server into a read lock.

use std::time::Duration;

use super::commands::{Deadline, Failure, ScriptCall, send_script, shared};
use super::connection::{Loan, SharedConnection, Source};
use super::route::Route;
use crate::backend::{Claim, Downgrade, Downgraded, Reply};

impl<S: Source> Route<S> {
    async fn downgrade_over(
        &self,
        connection: &SharedConnection<S>,
        held: &Claim,
        next: &Claim,
        deadline: &Deadline,
    ) -> Result<Downgraded, Failure> {
        let (core, home) = (&self.core, self.home.as_ref());
        let replicas = core.min_replicas().map(|some| some.answering(deadline.left()));
        let call = ScriptCall { replicas, ..shared::downgrade::call(held, next) };
        let undo = |loan: Loan<S::Connection>| {
            core.undo(home, loan.clone(), next, false);
            core.undo(home, loan, held, false);
        };
        let decode = shared::downgrade::decode;
        let answer = send_script(&core.health, connection, &call, deadline, decode, undo).await?;
        core.heard_time(answer.reply.micros, answer.sent);
        // A first try that lands after this answer takes no lock: `held` has none any more.
        match (answer.reply.found, self.shortage(replicas, answer.confirmed)) {
            // The master has a reader now, but too few replicas have it: it is given back.
            (Downgraded::Granted(_), Some((error, is_final))) => {
                answer.loan.into_iter().for_each(undo);
                Err(Failure::unknown(error).final_if(is_final))
            }
            (found, _) => {
                // A writer that was turned into a reader lets go of nothing later on.
                core.registry.note_served(held);
                Ok(found)
            }
        }
    }
}

impl<S: Source> Downgrade for Route<S> {
    fn downgrade<'a>(
        &'a self,
        held: &'a Claim,
        next: &'a Claim,
        within: Duration,
    ) -> Reply<'a, Downgraded> {
        Box::pin(async move {
            let deadline = Deadline::after(within);
            let own = self.replica_connection(&deadline).await?;
            let connection = own.as_deref().unwrap_or(&self.connection);
            Ok(self.downgrade_over(connection, held, next, &deadline).await?)
        })
    }
}
