//! Raises the fencing counter of a lock on N nodes.

use std::sync::Arc;
use std::time::Duration;

use super::backend::Quorum;
use super::broadcast::{NodeQuestion, Reach};
use super::member::Member;
use crate::backend::{Claim, Fault, Found};
use crate::fencing::FencingToken;

impl Quorum {
    /// A later owner is granted the lock by a quorum as well, and so by a node that was raised.
    pub(super) async fn raise_within(
        &self,
        claim: &Claim,
        fencing_token: FencingToken,
        within: Duration,
    ) -> Result<Found, Fault> {
        let ask = |member: Arc<Member>| {
            let claim = self.grants.claim_on(member.number, claim);
            self.raise_on(member, claim, fencing_token, within)
        };
        self.settle(Reach::Admitted, ask).await
    }

    pub(super) fn raise_on(
        &self,
        member: Arc<Member>,
        claim: Claim,
        fencing_token: FencingToken,
        within: Duration,
    ) -> NodeQuestion<Found> {
        let members = self.members.clone();
        Box::pin(async move {
            let found = member.backend.raise(&claim, fencing_token, within).await;
            // A server under two addresses has one counter.
            member.twin(&members).map_or(found, Err)
        })
    }
}
