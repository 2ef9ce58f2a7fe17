//! Turns an exclusive lock on N nodes into a read lock: a quorum of the nodes that had the one has
//! the other, so that no writer can have had a quorum in between.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::backend::Quorum;
use super::broadcast::{NodeAnswers, NodeQuestion, Reach};
use super::member::Member;
use super::tally::{self, Election};
use super::vote::vote;
use crate::backend::{Acquired, Claim, Downgrade, Downgraded, Fault, Found, Reply};
use crate::error::{NodeError, NodeErrorKind};

impl Quorum {
    async fn turn(
        &self,
        held: &Claim,
        next: &Claim,
        within: Duration,
    ) -> Result<Downgraded, Fault> {
        let steps = self.prepare(next, within).await?;
        let within = steps.left();
        let ask = |member: Arc<Member>| -> NodeQuestion<Acquired> {
            self.grants.ask(&next.owner, member.number);
            let held = self.grants.claim_on(member.number, held);
            let next = next.clone();
            let (guard, grants) = (self.guard.clone(), Arc::clone(&self.grants));
            Box::pin(async move {
                let turn = turn_one(&member, &held, &next, within);
                vote(&member, &grants, guard.as_ref(), &next, turn, within).await
            })
        };
        let verdict = |answers: &_| tally::judge(&tally::turned(answers), self.needed);
        let sent = Instant::now();
        let answers =
            self.ask_all(Reach::Admitted, ask, |answers| verdict(answers).is_some()).await;
        let answers = self.counted(answers);
        let undecided = self.undecided(&tally::turned(&answers));
        let Election::Won(grants) = tally::elect(&answers, self.needed) else {
            return verdict(&answers).map(Downgraded::Lost).ok_or(undecided);
        };
        match self.agree(next, &grants, steps, sent).await? {
            Acquired::Granted { fencing_tokens, .. } => {
                self.leave(held, within);
                Ok(Downgraded::Granted(fencing_tokens.first))
            }
            // A node has lost the read lock since it granted it.
            Acquired::Refused { .. } if undecided.nodes.is_empty() => {
                Ok(Downgraded::Lost(Found::Gone))
            }
            Acquired::Refused { .. } => Err(undecided),
        }
    }

    /// What is left unknown, with every node whose answer is not known.
    fn undecided(&self, found: &NodeAnswers<Found>) -> Fault {
        let mut fault = tally::undecided(found);
        let open = found.iter().zip(&self.members).filter(|(found, _)| found.is_none());
        for (_, member) in open {
            let message = "no reply yet: it may still carry the downgrade out";
            let node = NodeError::new(member.backend.name(), NodeErrorKind::NoReply, message);
            fault.nodes.push(node);
            fault.is_unknown = true;
        }
        fault
    }

    /// The former owner no longer holds anything, also on nodes that have not answered.
    fn leave(&self, held: &Claim, within: Duration) {
        let ended = self.grants.end(&held.owner);
        for member in &self.members {
            let (member, claim) = (Arc::clone(member), held.clone());
            let left = ended.on(member.number);
            tokio::spawn(async move { member.let_go(claim, left, None, within).await });
        }
    }
}

/// The answer of one node, as to an acquire.
async fn turn_one(
    member: &Member,
    held: &Claim,
    next: &Claim,
    within: Duration,
) -> Result<Acquired, Fault> {
    let Some(downgrade) = member.backend.abilities().downgrade else {
        return member.backend.acquire(next, within).await;
    };
    match downgrade.downgrade(held, next, within).await? {
        Downgraded::Granted(fencing_token) => Ok(Acquired::granted(fencing_token)),
        Downgraded::Lost(_) => Ok(Acquired::refused(None, None)),
    }
}

impl Downgrade for Quorum {
    fn downgrade<'a>(
        &'a self,
        held: &'a Claim,
        next: &'a Claim,
        within: Duration,
    ) -> Reply<'a, Downgraded> {
        Box::pin(self.turn(held, next, within))
    }
}
