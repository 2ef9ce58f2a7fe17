//! The answer of one node to an acquire, and whether it counts.

use std::sync::Arc;
use std::time::Duration;

use super::broadcast::NodeAnswers;
use super::grant_table::{GrantTable, LeftBehind, may_land_late};
use super::member::Member;
use super::restart_guard::RestartGuard;
use crate::backend::{Acquired, Claim, Fault};
use crate::clock::Moment;
use crate::owner::Owner;

/// Sends `acquire` to one node, and notes its answer for `owner`, which has the owner value of the
/// claim on this node. A node that granted the lock after its owner has released is freed again:
/// the release may have come before the acquire, which takes several steps on a server that has
/// forgotten its scripts.
pub(super) async fn ask(
    member: &Arc<Member>,
    grants: &GrantTable,
    guard: Option<&Arc<RestartGuard>>,
    (owner, claim): (&Owner, &Claim),
    acquire: impl Future<Output = Result<Acquired, Fault>>,
    within: Duration,
) -> Result<Acquired, Fault> {
    let sent = guard.map_or(Moment::ZERO, |guard| guard.now());
    let answer = acquire.await;
    let granted = guard.map_or(sent, |guard| guard.granted(member, sent));
    if grants.answered(owner, member.number, granted, &answer) {
        return answer;
    }
    let may_land_late = may_land_late(&answer);
    if may_land_late || matches!(answer, Ok(Acquired::Granted { .. })) {
        let left = LeftBehind { may_be_taken: true, may_land_late, ..LeftBehind::default() };
        let (member, claim) = (Arc::clone(member), claim.clone());
        // The answer says whether the node is down: it does not wait for this.
        tokio::spawn(async move { member.let_go(claim, left, None, within).await });
    }
    answer
}

/// One node's answer to `acquire`, if the node has a vote.
pub(super) async fn vote(
    member: &Arc<Member>,
    grants: &GrantTable,
    guard: Option<&Arc<RestartGuard>>,
    claim: &Claim,
    acquire: impl Future<Output = Result<Acquired, Fault>>,
    within: Duration,
) -> Result<Acquired, Fault> {
    let Some(guard) = guard else {
        return ask(member, grants, None, (&claim.owner, claim), acquire, within).await;
    };
    guard.spread(member, within);
    if let Some(objection) = guard.objection(member) {
        grants.answered(&claim.owner, member.number, Moment::ZERO, &Err(objection.clone()));
        return Err(objection);
    }
    let asked = (&claim.owner, claim);
    let answer = ask(member, grants, Some(guard), asked, acquire, within).await;
    // Noted here, as the caller may get an objection of the restart guard in its place.
    member.note(&answer);
    match answer {
        Ok(Acquired::Granted { .. }) => guard
            .objection_to_grant(member)
            .map_or(answer, |objection| Err(Fault { is_unknown: true, ..objection })),
        other => other,
    }
}

/// A node may have turned out to be the server of another one after its grant was judged: of the
/// two grants, only one counts.
pub(super) fn without_twins(
    members: &[Arc<Member>],
    mut answers: NodeAnswers<Acquired>,
) -> NodeAnswers<Acquired> {
    for (member, answer) in members.iter().zip(&mut answers) {
        if let Some(Ok(Acquired::Granted { .. })) = answer
            && let Some(twin) = member.twin(members)
        {
            *answer = Some(Err(Fault { is_unknown: true, ..twin }));
        }
    }
    answers
}
