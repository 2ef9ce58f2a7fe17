//! The commands of a lock on N nodes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::broadcast::{Decision, NodeAnswers, NodeQuestion, Reach, broadcast};
use super::grant_table::GrantTable;
use super::member::Member;
use super::restart_guard::RestartGuard;
use super::rules::Rules;
use super::steps::Steps;
use super::tally;
use super::tally::Election;
use super::vote::{vote, without_twins};
use crate::backend::{
    Abilities, Acquired, BackgroundTask, BackgroundWork, Claim, Fault, Found, LockBackend,
    QuorumMember, Release, Reply,
};
use crate::error::{NodeError, NodeErrorKind};
use crate::fencing::FencingToken;
use crate::shield::tell;
use crate::validity;

/// A lock backend of N independent masters.
pub(crate) struct Quorum {
    pub(super) members: Vec<Arc<Member>>,
    /// How many nodes have to grant a lock.
    pub(super) needed: usize,
    pub(super) guard: Option<Arc<RestartGuard>>,
    replica_wait: Duration,
    reply_timeout: Duration,
    pub(super) grants: Arc<GrantTable>,
}

/// One short line: a program may show its client with each line of its log.
impl fmt::Debug for Quorum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes: Vec<_> = self.members.iter().map(|member| member.backend.name()).collect();
        f.debug_struct("Quorum")
            .field("nodes", &nodes)
            .field("needed", &self.needed)
            .finish_non_exhaustive()
    }
}

impl Quorum {
    pub(crate) fn new(nodes: Vec<Arc<dyn QuorumMember>>, rules: Rules) -> Self {
        let Rules { quorum, guard, replica_wait, reply_timeout } = rules;
        let grants = Arc::new(GrantTable::new(nodes.len()));
        let member = |(number, node)| Member::new(number, node);
        let members = nodes.into_iter().enumerate().map(member).collect();
        Self { members, needed: quorum, guard, replica_wait, reply_timeout, grants }
    }

    /// How many owners hold a lock on this quorum, or may.
    #[cfg(test)]
    pub(crate) fn grants(&self) -> usize {
        self.grants.count()
    }

    /// Sends a command to the nodes, until the outcome is decided.
    pub(super) async fn ask_all<T: Send + 'static, D: Into<Decision>>(
        &self,
        reach: Reach,
        ask: impl Fn(Arc<Member>) -> NodeQuestion<T>,
        decide: impl Fn(&NodeAnswers<T>) -> D,
    ) -> NodeAnswers<T> {
        broadcast(&self.members, self.needed, reach, ask, decide).await
    }

    /// Begins an acquire, which may take `within` in all. Returns the time of its further steps.
    pub(super) async fn prepare(&self, claim: &Claim, within: Duration) -> Result<Steps, Fault> {
        let longest = self.reply_timeout.min(patience(claim.expire) + self.replica_wait);
        let steps = Steps::begin(within, longest);
        if let Some(guard) = &self.guard {
            guard.expect(claim.expire);
            guard.enroll(&self.members, self.needed, steps.left()).await?;
        }
        self.grants.begin(&claim.owner);
        Ok(steps)
    }

    async fn acquire_within(&self, claim: &Claim, within: Duration) -> Result<Acquired, Fault> {
        let steps = self.prepare(claim, within).await?;
        let within = steps.left();
        let ask = |member: Arc<Member>| -> NodeQuestion<Acquired> {
            self.grants.ask(&claim.owner, member.number);
            let (claim, guard) = (claim.clone(), self.guard.clone());
            let grants = Arc::clone(&self.grants);
            Box::pin(async move {
                let acquire = member.backend.acquire(&claim, within);
                vote(&member, &grants, guard.as_ref(), &claim, acquire, within).await
            })
        };
        self.elect(claim, ask, steps).await
    }

    /// The answers, of which one server has one.
    pub(super) fn counted(&self, answers: NodeAnswers<Acquired>) -> NodeAnswers<Acquired> {
        without_twins(&self.members, answers)
    }

    /// Asks the nodes for a lease, and agrees on its fencing token.
    async fn elect(
        &self,
        claim: &Claim,
        ask: impl Fn(Arc<Member>) -> NodeQuestion<Acquired>,
        steps: Steps,
    ) -> Result<Acquired, Fault> {
        let decide = |answers: &_| tally::decide(answers, self.needed);
        let sent = Instant::now();
        let answers = self.ask_all(Reach::Admitted, ask, decide).await;
        match tally::elect(&self.counted(answers), self.needed) {
            Election::Won(grants) => self.agree(claim, &grants, steps, sent).await,
            Election::Unavailable(fault) => {
                if !fault.is_unknown {
                    self.grants.end(&claim.owner);
                }
                Err(fault)
            }
            Election::Refused { holder, free_in, was_cut, is_split } => {
                if !was_cut {
                    self.grants.end(&claim.owner);
                }
                Ok(Acquired::Refused { holder, free_in, was_cut, is_split })
            }
        }
    }

    /// Writes the highest token back to the nodes that granted a lower one. The token is valid once
    /// a quorum of nodes has it while the owner still holds the lock there. `sent`: the lease began
    /// then, at the earliest.
    pub(super) async fn agree(
        &self,
        claim: &Claim,
        grants: &[(usize, FencingToken)],
        steps: Steps,
        sent: Instant,
    ) -> Result<Acquired, Fault> {
        let Some(fencing_token) = grants.iter().map(|(_, granted)| *granted).max() else {
            unreachable!("a quorum is at least one node")
        };
        let (have, behind): (Vec<_>, Vec<_>) =
            grants.iter().partition(|(_, granted)| *granted == fencing_token);
        let missing = self.needed.saturating_sub(have.len());
        let members: Vec<Arc<Member>> =
            behind.iter().map(|(index, _)| Arc::clone(&self.members[*index])).collect();
        let within = steps.left();
        if missing > 0 && within.is_zero() {
            return Err(no_time_left(&members));
        }
        let ask = |member: Arc<Member>| self.raise_on(member, claim.clone(), fencing_token, within);
        let acks = |answers: &NodeAnswers<Found>| {
            answers.iter().filter(|answer| matches!(answer, Some(Ok(Found::Ours)))).count()
        };
        let is_agreed = |answers: &_| acks(answers) >= missing;
        let answers = broadcast(&members, missing, Reach::Admitted, ask, is_agreed).await;
        if is_agreed(&answers) {
            // The nodes clean up after tries whose connection broke.
            return Ok(Acquired::granted(fencing_token));
        }
        // The lock was granted without a usable token, so it is given back.
        if !tally::faults(&answers).is_empty() {
            let fault = tally::merge(&tally::faults(&answers));
            return Err(Fault { is_unknown: true, is_final: false, ..fault });
        }
        if sent.elapsed() + validity::drift(claim.expire) >= claim.expire {
            // The answers are due to the end of its lease, and not to another caller. The call
            // finds that out, and does not use the token.
            return Ok(Acquired::granted(fencing_token));
        }
        let (holder, free_in) = (None, None);
        Ok(Acquired::Refused { holder, free_in, was_cut: true, is_split: true })
    }

    async fn release_within(
        &self,
        Release { claim, retain, .. }: Release<'_>,
        within: Duration,
    ) -> Result<Found, Fault> {
        let ended = self.grants.end(&claim.owner);
        self.grants.note_release(claim, &ended);
        let until = retain.map(|left| tokio::time::Instant::now() + left);
        let ask = |member: Arc<Member>| -> NodeQuestion<Found> {
            let (claim, left) = (claim.clone(), ended.on(member.number));
            Box::pin(async move { member.let_go(claim, left, until, within).await })
        };
        let found = self.settle(Reach::All, ask).await?;
        self.grants.note_released(&claim.owner);
        Ok(found)
    }

    /// Sends a command until a quorum agrees on what it found.
    pub(super) async fn settle(
        &self,
        reach: Reach,
        ask: impl Fn(Arc<Member>) -> NodeQuestion<Found>,
    ) -> Result<Found, Fault> {
        let verdict = |answers: &NodeAnswers<Found>| tally::judge(answers, self.needed);
        let answers = self.ask_all(reach, ask, |answers| verdict(answers).is_some()).await;
        verdict(&answers).ok_or_else(|| tally::undecided(&answers))
    }

    async fn verify_within(&self, within: Duration) -> Result<(), Fault> {
        let ask = |member: Arc<Member>| -> NodeQuestion<()> {
            Box::pin(async move { member.backend.verify(within).await })
        };
        let fit = |answers: &NodeAnswers<()>| {
            answers.iter().filter(|answer| matches!(answer, Some(Ok(())))).count()
        };
        // All nodes are waited for, as faults of a minority should be known at startup: a minority
        // that is silent, as long again as the others took to connect, and `within` at least.
        let begun = Instant::now();
        let answers = self.ask_all(Reach::AllFor(within), ask, |_| false).await;
        let took = begun.elapsed();
        let silent = self.members.iter().zip(&answers).filter(|(_, answer)| answer.is_none());
        let silent = silent.map(|(member, _)| {
            let message = format!("no answer within {} ms", took.as_millis());
            let node = NodeError::new(member.backend.name(), NodeErrorKind::NoReply, message);
            // No call has to wait for it to find that out.
            let nodes = vec![node.clone()];
            member.note::<()>(&Err(Fault::known(nodes)));
            node
        });
        let faults = tally::faults(&answers);
        for error in faults.iter().flat_map(|fault| fault.nodes.clone()).chain(silent) {
            tell!(warn, node = error.node(), %error, "a node of the quorum cannot be used now");
        }
        if fit(&answers) < self.needed {
            return Err(tally::merge(&faults));
        }
        if let Some(guard) = &self.guard {
            // It asks twice.
            guard.enroll(&self.members, self.needed, 2 * within).await?;
        }
        let duplicate = self.members.iter().find_map(|member| member.twin(&self.members));
        duplicate.map_or(Ok(()), Err)
    }
}

/// How long one node may take to answer an acquire: far below the lease, so that a slow node does
/// not use up its validity.
fn patience(expire: Duration) -> Duration {
    (expire / 20).max(Duration::from_millis(50))
}

/// The lock was granted too late to agree on its fencing token.
fn no_time_left(behind: &[Arc<Member>]) -> Fault {
    let message = "no time was left to agree on the fencing token";
    let advice = "the servers answer slowly, or something keeps the thread of this task busy";
    let unasked = |member: &Arc<Member>| {
        NodeError::new(member.backend.name(), NodeErrorKind::NoReply, message).advising(advice)
    };
    Fault { nodes: behind.iter().map(unasked).collect(), is_unknown: true, is_final: false }
}

impl LockBackend for Quorum {
    fn acquire<'a>(&'a self, claim: &'a Claim, within: Duration) -> Reply<'a, Acquired> {
        Box::pin(self.acquire_within(claim, within))
    }

    fn renew<'a>(&'a self, claims: &'a [Claim], within: Duration) -> Reply<'a, Vec<Option<Found>>> {
        Box::pin(self.renew_within(claims, within))
    }

    fn release<'a>(&'a self, release: Release<'a>, within: Duration) -> Reply<'a, Found> {
        Box::pin(self.release_within(release, within))
    }

    fn raise<'a>(
        &'a self,
        claim: &'a Claim,
        fencing_token: FencingToken,
        within: Duration,
    ) -> Reply<'a, Found> {
        Box::pin(self.raise_within(claim, fencing_token, within))
    }

    fn verify(&self, within: Duration) -> Reply<'_, ()> {
        Box::pin(self.verify_within(within))
    }

    /// No single server can hand over a lock that needs several: waiters poll, and get release
    /// hints.
    fn abilities(&self) -> Abilities<'_> {
        Abilities {
            release_hints: Some(self),
            background_work: Some(self),
            downgrade: Some(self),
            health: Some(self),
            // To agree on the fencing token. An enrolment takes two round trips itself: where it
            // is answered in time, so are the acquire and this within the same time once more.
            further_steps: 1,
            ..Abilities::default()
        }
    }
}

impl BackgroundWork for Quorum {
    fn background_task(&self) -> Option<BackgroundTask> {
        let work =
            self.members.iter().filter_map(|member| member.backend.abilities().background_work);
        let tasks: Vec<_> = work.filter_map(BackgroundWork::background_task).collect();
        Some(Box::pin(async move {
            for task in tasks {
                tokio::spawn(task);
            }
        }))
    }
}
