//! Acquires a lock of a server.

use std::time::Duration;

use super::commands::{Deadline, Failure, by_kind, send_script};
use super::connection::Source;
use super::route::Route;
use crate::backend::{Acquired, Claim, Fault};
use crate::error::{NodeError, NodeErrorKind};

impl<S: Source> Route<S> {
    pub(super) async fn acquire_within(
        &self,
        claim: &Claim,
        within: Duration,
    ) -> Result<Acquired, Fault> {
        self.check_no_undo_pending(claim, false)?;
        let deadline = Deadline::after(within);
        let own = self.replica_connection(&deadline).await?;
        let connection = own.as_deref().unwrap_or(&self.connection);
        let (mut call, decode) = by_kind::acquire(claim);
        // Set in place: a second call would be a part of this future.
        call.replicas = self.core.min_replicas().map(|some| some.answering(deadline.left()));
        let undo = |loan| self.core.undo(self.home.as_ref(), loan, claim, false);
        let answer =
            send_script(&self.core.health, connection, &call, &deadline, decode, undo).await?;
        self.core.heard_time(answer.reply.micros, answer.sent);
        let mut acquired = answer.reply.found;
        let (Acquired::Granted { was_cut, .. } | Acquired::Refused { was_cut, .. }) = &mut acquired;
        // Changed in place: a second `Acquired` would make this future larger.
        *was_cut = answer.was_cut;
        if let Acquired::Granted { .. } = acquired
            && let Some((error, is_final)) = self.shortage(call.replicas, answer.confirmed)
        {
            // The master has granted the lock, but too few replicas have it: it is given back.
            answer.loan.into_iter().for_each(undo);
            return Err(Failure::unknown(error).final_if(is_final).into());
        }
        // The address may have led to another process when this was checked first.
        self.check_no_undo_pending(claim, true)?;
        Ok(acquired)
    }

    /// Fails while the clean-up of an earlier command of the same owner is on its way to the
    /// process that answers: it would take away what is granted now. `has_run`: the acquire was
    /// answered.
    fn check_no_undo_pending(&self, claim: &Claim, has_run: bool) -> Result<(), Failure> {
        let (owner, core) = (&claim.owner, &self.core);
        let run_id = || core.identity.run_id();
        if !core.pending_undos.is_pending(owner, run_id)
            && !core.siblings.have_undo(owner, run_id, &core.identity)
        {
            return Ok(());
        }
        let message = "the clean-up of an unanswered acquire is still on its way";
        let error = NodeError::new(&self.core.name, NodeErrorKind::Refused, message);
        Err(Failure::not_run(error).unknown_if(has_run))
    }
}
