//! How a client learns which nodes began its group, before its first acquire.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::timeout;

use super::broadcast::{NodeAnswers, NodeQuestion, Reach, broadcast};
use super::founders::{Founders, Seen};
use super::member::{Member, Untold};
use super::restart_guard::{NodeGroup, RestartGuard};
use super::{founders, tally};
use crate::backend::{Fault, FormerList, FoundersList, FoundersOffer, MemorySince};
use crate::error::{NodeError, NodeErrorKind};

/// What the nodes have told before anything was written.
struct FoundGroup {
    /// The lists of founders on them.
    lists: NodeAnswers<FoundersList>,
    memories: Vec<Option<MemorySince>>,
    /// The founders by all of that.
    founders: Founders,
}

impl RestartGuard {
    /// Learns the founders of the group, once for all callers that wait for them. The work goes on
    /// when all of them have gone.
    pub(crate) async fn enroll(
        self: &Arc<Self>,
        members: &[Arc<Member>],
        quorum: usize,
        within: Duration,
    ) -> Result<(), Fault> {
        if self.founders.get().is_some() {
            return Ok(());
        }
        self.group.get_or_init(|| NodeGroup { members: members.to_vec(), quorum });
        let home = Handle::current();
        let enrolling = self.enrolling.join(&home, || {
            let (guard, members) = (Arc::clone(self), members.to_vec());
            async move {
                // Another caller may have done it since this one looked.
                if guard.founders.get().is_none() {
                    let founders = guard.find_founders(&members, quorum, within).await?;
                    let _ = guard.founders.set(founders);
                }
                Ok(())
            }
        });
        match timeout(within, enrolling).await {
            Ok(outcome) => outcome.unwrap_or_else(|| Err(broken_off())),
            Err(_) => Err(unknown_group(members, within)),
        }
    }

    /// The founders as an enrolment would find them now, for a judgement that writes nothing.
    /// `None`: too few nodes answer.
    pub(super) async fn presumed_founders(
        &self,
        members: &[Arc<Member>],
        quorum: usize,
        within: Duration,
    ) -> Option<Founders> {
        if let Some(founders) = self.founders.get() {
            return Some(founders.clone());
        }
        self.group.get_or_init(|| NodeGroup { members: members.to_vec(), quorum });
        // It may ask a second time, for a fifth as long.
        self.read(members, quorum, within * 5 / 6).await.ok().map(|found| found.founders)
    }

    async fn read(
        &self,
        members: &[Arc<Member>],
        quorum: usize,
        within: Duration,
    ) -> Result<FoundGroup, Fault> {
        let lists = self.ask(members, quorum, None, within).await;
        let mut lists = of_quorum(lists, quorum)?;
        if !is_clear(&lists, quorum) {
            // A node that has not answered, or was down a moment ago, may have the only list that
            // is left: all of them are waited for, so long that there is time to write one. The
            // others have answered, and some may be too far away to do it again in this time.
            let has_answered = |member: &Member| matches!(lists[member.number], Some(Ok(_)));
            let open = members.iter().filter(|member| !has_answered(member));
            let open: Vec<_> = open.map(Arc::clone).collect();
            let answers = self.ask(&open, open.len(), None, within / 5).await;
            for (member, answer) in open.iter().zip(answers) {
                lists[member.number] = answer;
            }
        }
        for member in members {
            self.compare_clock(member);
        }
        self.believe_dates(members, &lists);
        let memories: Vec<_> = members.iter().map(|member| member.backend.memory_since()).collect();
        // A single node has no other node that could tell: only its age counts.
        let begin = || match members {
            [_] => Founders::default(),
            _ => Founders::begun(&memories),
        };
        let founders = Founders::agreed(texts(&lists)).unwrap_or_else(begin);
        Ok(FoundGroup { lists, memories, founders })
    }

    async fn find_founders(
        &self,
        members: &[Arc<Member>],
        quorum: usize,
        within: Duration,
    ) -> Result<Founders, Fault> {
        let FoundGroup { lists, memories, founders } = self.read(members, quorum, within).await?;
        let asked = self.clock.now();
        // Another client may have been faster: its list counts, too.
        let written = self.ask(members, quorum, Some((&founders, &lists)), within).await;
        let written = of_quorum(written, quorum)?;
        self.believe_dates(members, &written);
        for ((member, memory_since), answer) in members.iter().zip(&memories).zip(&written) {
            let is_founder = |memory_since: &&MemorySince| founders.has(memory_since);
            // A node that has not confirmed the list gets it with the next answer that it gives.
            let (Some(memory_since), Some(Ok(list))) =
                (memory_since.as_ref().filter(is_founder), answer)
            else {
                continue;
            };
            let (run_id, pause) = (&memory_since.run_id, founders::RENEW_EVERY);
            // The list of a faster client may end before the leases of this one.
            let (leases_end, ends) = (self.forgotten_leases_end(asked), asked.plus(list.life));
            member.begin_writing_founders(run_id, None, asked, pause, leases_end, ends);
        }
        Ok(Founders::agreed(texts(&written)).unwrap_or(founders))
    }

    /// Asks all nodes for their lists, and leaves the one that is given, with the lists that were
    /// found, where none is. On a node that is not among the founders, the list that was found is
    /// written anew, as this client may end before it would do that otherwise. Waits for more than
    /// `enough` only as long again as these took, and no longer once so many have failed that there
    /// cannot be enough.
    async fn ask(
        &self,
        members: &[Arc<Member>],
        enough: usize,
        offered: Option<(&Founders, &NodeAnswers<FoundersList>)>,
        within: Duration,
    ) -> NodeAnswers<FoundersList> {
        let ask = |member: Arc<Member>| -> NodeQuestion<FoundersList> {
            let key = Arc::clone(&self.founders_key);
            let offer = offered.map(|(founders, found)| {
                let found = found[member.number].as_ref().and_then(|found| found.as_ref().ok());
                let found = found.cloned().unwrap_or_default();
                let seen = self.seen(&member);
                let run_id = seen.as_ref().map(|seen| Arc::clone(&seen.run_id));
                let seen = seen.unwrap_or_else(Seen::nothing);
                let is_founder = founders.names(&seen.run_id);
                let founders = founders.update(found.text.as_deref(), &seen);
                let former = match found.text {
                    None => FormerList::Stays,
                    Some(text) if is_founder || text == founders => FormerList::Prolonged,
                    Some(_) => FormerList::Replaced,
                };
                FoundersOffer { run_id, founders, life: self.life(found.life), former }
            });
            member.asked_for_founders();
            Box::pin(async move {
                let answer = member.backend.founders(&key, offer, within).await;
                member.note_founders(&answer);
                answer
            })
        };
        // Where all are wanted, one that fails does not decide: another may have the only list.
        let spare = members.len() - enough;
        let is_decided =
            |answers: &NodeAnswers<_>| spare > 0 && tally::faults(answers).len() > spare;
        // A node that was silent when the lists were read is waited for once.
        let was_silent = offered.is_some_and(|(_, found)| found.iter().any(Option::is_none));
        let patience = if was_silent { Duration::ZERO } else { within / 3 };
        broadcast(members, enough, Reach::AllFor(patience), ask, is_decided).await
    }
}

/// Fails unless a quorum has answered.
fn of_quorum(
    answers: NodeAnswers<FoundersList>,
    quorum: usize,
) -> Result<NodeAnswers<FoundersList>, Fault> {
    if answered(&answers) >= quorum {
        Ok(answers)
    } else {
        Err(tally::merge(&tally::faults(&answers)))
    }
}

/// Is there a list, or have so many nodes answered that a list on a mere quorum would have been
/// found, although as many nodes as a quorum can spare came back empty?
fn is_clear(lists: &NodeAnswers<FoundersList>, quorum: usize) -> bool {
    texts(lists).next().is_some() || answered(lists) > 2 * (lists.len() - quorum)
}

fn answered(answers: &NodeAnswers<FoundersList>) -> usize {
    answers.iter().filter(|answer| matches!(answer, Some(Ok(_)))).count()
}

fn texts(answers: &NodeAnswers<FoundersList>) -> impl Iterator<Item = &str> {
    answers.iter().filter_map(|answer| match answer {
        Some(Ok(list)) => list.text.as_deref(),
        _ => None,
    })
}

const BROKEN_OFF: &str = "the runtime ended while the servers were asked who they are; try again";

fn broken_off() -> Fault {
    let node = NodeError::new("quorum", NodeErrorKind::Unreachable, BROKEN_OFF);
    Fault::known(vec![node])
}

/// The fault of callers whose wait is over before enough nodes have answered.
fn unknown_group(members: &[Arc<Member>], within: Duration) -> Fault {
    let message = format!("did not say who it is within {} ms", within.as_millis());
    let silence = |member: &Arc<Member>| {
        NodeError::new(member.backend.name(), NodeErrorKind::NoReply, message.clone())
    };
    let untold = members.iter().filter_map(|member| Some((member, member.untold()?)));
    let mut nodes: Vec<_> = untold
        .flat_map(|(member, why)| match why {
            Untold::Silent => vec![silence(member)],
            Untold::Failed(fault) => fault.nodes,
        })
        .collect();
    if nodes.is_empty() {
        // All have told theirs, too late.
        nodes = members.iter().map(silence).collect();
    }
    Fault::known(nodes)
}
