//! Renewals on N nodes, which win back the nodes that do not have the lock.

use std::sync::Arc;
use std::time::Duration;

use super::backend::Quorum;
use super::broadcast::{NodeQuestion, Reach};
use super::grant_table::{LeftBehind, WinBack};
use super::member::Member;
use super::tally;
use super::vote::ask;
use crate::backend::{Claim, Fault, Found};
use crate::owner::Owner;

impl Quorum {
    /// A fault: no lease was decided, and that is why.
    pub(super) async fn renew_within(
        &self,
        claims: &[Claim],
        within: Duration,
    ) -> Result<Vec<Option<Found>>, Fault> {
        let shared: Arc<[Claim]> = claims.into();
        let ask = |member: Arc<Member>| -> NodeQuestion<Vec<Option<Found>>> {
            let own = self.grants.claims_on(member.number, claims);
            let claims = own.map_or_else(|| Arc::clone(&shared), Arc::from);
            Box::pin(async move { member.backend.renew(&claims, within).await })
        };
        // Every healthy node is waited for: its answer says whether the lock must be won back
        // there. One that was silent a moment ago is asked, too: its lease would end meanwhile.
        let answers = self.ask_all(Reach::All, ask, |_| false).await;
        if let Some(guard) = &self.guard {
            self.members.iter().for_each(|member| guard.spread(member, within));
        }
        let found = |member: usize, lease: usize| match &answers[member] {
            Some(Ok(found)) => found.get(lease).copied().flatten(),
            _ => None,
        };
        let verdict = |lease: usize| {
            let owner = &claims[lease].owner;
            let is_sure =
                |member: usize, found: &Found| *found != Found::Ours || self.counts(member, owner);
            let votes = (0..self.members.len())
                .map(|member| found(member, lease).filter(|found| is_sure(member, found)));
            tally::verdict(votes, self.needed)
        };
        let verdicts: Vec<Option<Found>> = (0..claims.len()).map(verdict).collect();
        for (lease, claim) in claims.iter().enumerate() {
            if verdicts[lease] == Some(Found::Ours) {
                let is_astray = |member: &usize| match found(*member, lease) {
                    Some(Found::Gone) => true,
                    Some(Found::Ours) => self.grants.confirmed(&claim.owner, *member).is_none(),
                    Some(Found::Stolen | Found::Unclear) | None => false,
                };
                (0..self.members.len()).filter(is_astray).for_each(|member| {
                    self.win_back(member, claim.clone(), within);
                });
            }
        }
        let faults = tally::faults(&answers);
        if faults.is_empty() || verdicts.iter().any(Option::is_some) {
            return Ok(verdicts);
        }
        Err(tally::merge(&faults))
    }

    /// Does the key of `owner` on this node count as a vote?
    fn counts(&self, member: usize, owner: &Owner) -> bool {
        let Some(granted) = self.grants.confirmed(owner, member) else { return false };
        let member = &self.members[member];
        match &self.guard {
            Some(guard) => guard.remembers(member, granted),
            None => member.twin(&self.members).is_none(),
        }
    }

    /// Acquires the lock again on a node that came back without it or never granted it; the node
    /// counts from the next renewal on. This is safe while a quorum holds: it only adds a node, and
    /// only where the key is free or has this owner. Where the clean-up of an earlier acquire may
    /// still arrive, the node is first released under the former owner value, which is not used
    /// again, and then asked under a fresh one. Only the present process of the node gets that
    /// release, however often it is repeated: the address may move to the server of another node,
    /// whose vote has the same owner value.
    fn win_back(&self, member: usize, claim: Claim, within: Duration) {
        let member = Arc::clone(&self.members[member]);
        // What is released on the server of another node would be the vote of that one.
        let run_id = member.backend.run_id();
        if run_id.as_ref().is_some_and(|run_id| member.shares(run_id, &self.members)) {
            return;
        }
        // Without a guard, connections do not tell which process they have met.
        let only_at = run_id.filter(|_| self.guard.is_some());
        let again = self.grants.ask_again(&claim.owner, member.number);
        let Some(WinBack { owner, former }) = again else { return };
        let grants = Arc::clone(&self.grants);
        let guard = self.guard.clone();
        tokio::spawn(async move {
            if let Some(former) = former {
                let former = Claim { owner: former, ..claim.clone() };
                let (may_be_taken, may_land_late) = (true, true);
                let left = LeftBehind { may_be_taken, may_land_late, own_value: None, only_at };
                // Whatever this finds: where the lock is still taken, the acquire is refused.
                let _ = member.let_go(former, left, None, within).await;
                // The owner may have released meanwhile.
                if grants.claim_on(member.number, &claim).owner != owner {
                    return;
                }
            }
            let own = Claim { owner, ..claim.clone() };
            let acquire = member.backend.acquire(&own, within);
            let asked = (&claim.owner, &own);
            let answer = ask(&member, &grants, guard.as_ref(), asked, acquire, within).await;
            member.note(&answer);
        });
    }
}
