//! Sends a command to all nodes at once and collects answers until the outcome is decided.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::member::{Member, NodeAdmission};
use crate::backend::Fault;

/// A command to one node. It runs independently of the callers that wait for it.
pub(crate) type NodeQuestion<T> = Pin<Box<dyn Future<Output = Result<T, Fault>> + Send>>;

/// The answers so far, by node; `None`: none yet.
pub(crate) type NodeAnswers<T> = Vec<Option<Result<T, Fault>>>;

/// Which nodes get the command. Only nodes that are up are waited for, if they are enough. When too
/// few of these have answered, one that may be up again is waited for, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// A node that is down gets a command from time to time only.
    Admitted,
    /// Every node, whether it is up or down.
    All,
    /// Every node. Once enough have answered, the others have as long again, and at least this
    /// time.
    AllFor(Duration),
}

/// What the answers so far decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Nothing: further answers are waited for.
    Open,
    /// The outcome. Further answers do not change it, but each one that is missing costs a
    /// clean-up, as its command may have been carried out: they are waited for as long again as the
    /// answers so far took, and for [`SPARED`] at least.
    Certain,
    /// The outcome. Further answers are not waited for.
    Made,
}

impl From<bool> for Decision {
    fn from(is_made: bool) -> Self {
        if is_made { Self::Made } else { Self::Open }
    }
}

/// How long answers that only spare a clean-up are waited for at least. Nodes that are well answer
/// within this time of each other, unless they are far apart.
const SPARED: Duration = Duration::from_millis(10);

/// What stands for the answer of a node until it comes.
enum StandIn {
    /// Nothing: the answer is waited for.
    Awaited,
    /// The fault of a node that was down and gets the command, which it may carry out.
    Asked(Fault),
    /// The fault of a node that is down, and does not get the command.
    Unasked(Fault),
}

/// The answers to a command that was sent.
struct Collecting<T> {
    answers: NodeAnswers<T>,
    /// How many nodes are waited for.
    awaited: usize,
    /// The nodes that may be up again, which are waited for if the others are too few.
    probed: Vec<usize>,
    receiver: mpsc::UnboundedReceiver<(usize, Result<T, Fault>)>,
}

/// Sends a command to every node. Returns when the decision is made, or when every awaited node has
/// answered.
///
/// Each command runs to its end as a task of its own: a command in flight is never dropped.
pub(crate) async fn broadcast<T: Send + 'static, D: Into<Decision>>(
    members: &[Arc<Member>],
    enough: usize,
    reach: Reach,
    ask: impl Fn(Arc<Member>) -> NodeQuestion<T>,
    decide: impl Fn(&NodeAnswers<T>) -> D,
) -> NodeAnswers<T> {
    let sent = send(members, enough, reach, ask);
    collect(sent, enough, reach, decide).await
}

fn send<T: Send + 'static>(
    members: &[Arc<Member>],
    enough: usize,
    reach: Reach,
    ask: impl Fn(Arc<Member>) -> NodeQuestion<T>,
) -> Collecting<T> {
    let admissions: Vec<NodeAdmission> = members.iter().map(|member| member.admit()).collect();
    let healthy = admissions.iter().filter(|a| matches!(a, NodeAdmission::Ask)).count();
    // Without the nodes that are down no decision is possible: then they are waited for, too.
    let is_desperate = healthy < enough;
    let (sender, receiver) = mpsc::unbounded_channel();
    let mut answers: NodeAnswers<T> = Vec::new();
    let (mut awaited, mut probed) = (0, Vec::new());
    for (index, (member, admission)) in members.iter().zip(admissions).enumerate() {
        let stand_in = match admission {
            NodeAdmission::Ask => StandIn::Awaited,
            NodeAdmission::Probe(_) | NodeAdmission::Skip(_) if is_desperate => StandIn::Awaited,
            NodeAdmission::Probe(fault) => {
                probed.push(index);
                StandIn::Asked(fault)
            }
            // A node that is down gets the command only if every node does, and is not waited for.
            NodeAdmission::Skip(fault) if reach == Reach::Admitted => StandIn::Unasked(fault),
            NodeAdmission::Skip(fault) => StandIn::Asked(fault),
        };
        let is_asked = !matches!(stand_in, StandIn::Unasked(_));
        answers.push(match stand_in {
            StandIn::Awaited => {
                awaited += 1;
                None
            }
            StandIn::Asked(fault) => Some(Err(Fault { is_unknown: true, ..fault })),
            StandIn::Unasked(fault) => Some(Err(Fault { is_unknown: false, ..fault })),
        });
        if is_asked {
            let (sender, question) = (sender.clone(), ask(Arc::clone(member)));
            let member = Arc::clone(member);
            tokio::spawn(async move {
                let answer = question.await;
                member.note(&answer);
                // The receiver is gone when the outcome was decided without this node.
                let _ = sender.send((index, answer));
            });
        }
    }
    Collecting { answers, awaited, probed, receiver }
}

/// Waits for answers until the outcome is decided.
async fn collect<T, D: Into<Decision>>(
    sent: Collecting<T>,
    enough: usize,
    reach: Reach,
    decide: impl Fn(&NodeAnswers<T>) -> D,
) -> NodeAnswers<T> {
    let Collecting { mut answers, mut awaited, mut probed, mut receiver } = sent;
    let begun = Instant::now();
    let mut limit = None;
    loop {
        let has_enough = answers.iter().flatten().flatten().count() >= enough;
        let needs_probes = !has_enough && !probed.is_empty();
        let decision = decide(&answers).into();
        if !needs_probes && (awaited == 0 || decision == Decision::Made) {
            break;
        }
        let patience = match reach {
            Reach::AllFor(patience) if has_enough => Some(patience),
            _ if decision == Decision::Certain && !needs_probes => Some(SPARED),
            _ => None,
        };
        if let Some(patience) = patience {
            limit = limit.or(Some(begun + patience.max(2 * begun.elapsed())));
        }
        let next = match limit {
            Some(limit) => timeout_at(limit, receiver.recv()).await.unwrap_or_default(),
            None => receiver.recv().await,
        };
        let Some((index, answer)) = next else { break };
        awaited -= usize::from(answers[index].is_none());
        probed.retain(|probed| *probed != index);
        answers[index] = Some(answer);
    }
    answers
}
