//! Counts votes. Pure.

use std::time::Duration;

use super::broadcast::{Decision, NodeAnswers};
use crate::backend::{Acquired, Fault, Found};
use crate::error::NodeError;
use crate::fencing::FencingToken;
use crate::kind::group_of;
use crate::owner::hold_of;

/// The result of an election.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Election {
    /// These nodes granted the lock, each with its own token.
    Won(Vec<(usize, FencingToken)>),
    /// Too few nodes could vote.
    Unavailable(Fault),
    Refused {
        /// `None`: nobody has the lock, or it is not known who has it.
        holder: Option<String>,
        free_in: Option<Duration>,
        was_cut: bool,
        is_split: bool,
    },
}

/// Do later answers matter? Where owners are named that have some votes each, they may show that
/// one of them has the lock. To a refusal they add nothing, but a node that has not answered may
/// still grant the lock.
pub(crate) fn decide(answers: &NodeAnswers<Acquired>, quorum: usize) -> Decision {
    let is_granted = |answer: &&_| matches!(answer, Some(Ok(Acquired::Granted { .. })));
    let granted = answers.iter().filter(is_granted).count();
    let open = answers.iter().filter(|answer| answer.is_none()).count();
    let votes = most_votes(answers).1;
    let may_settle = votes < quorum && votes + open >= quorum;
    if granted >= quorum {
        return Decision::Made;
    }
    let is_refused = granted + open < quorum && !may_settle;
    if is_refused { Decision::Certain } else { Decision::Open }
}

/// May the owner that most nodes named have the lock, with the votes of nodes that did not answer?
fn may_have_it(answers: &NodeAnswers<Acquired>, quorum: usize) -> bool {
    let unknown = answers.iter().filter(|answer| !matches!(answer, Some(Ok(_)))).count();
    most_votes(answers).1 + unknown >= quorum
}

/// Is this the same owner, by whichever of its values, or the same group?
fn is_same(one: Option<&str>, other: Option<&str>) -> bool {
    // Of a group, each node tells how many it knows of.
    let group = one.and_then(group_of);
    one.map(hold_of) == other.map(hold_of) || group.is_some() && group == other.and_then(group_of)
}

/// The owner, or the group, that most nodes named, and how many they were.
fn most_votes(answers: &NodeAnswers<Acquired>) -> (Option<&str>, usize) {
    let mut holders: Vec<(Option<&str>, usize)> = Vec::new();
    for (holder, _, _) in refusals(answers) {
        match holders.iter_mut().find(|(known, _)| is_same(*known, holder)) {
            Some((_, count)) => *count += 1,
            None => holders.push((holder, 1)),
        }
    }
    holders.into_iter().max_by_key(|(_, votes)| *votes).unwrap_or_default()
}

pub(crate) fn elect(answers: &NodeAnswers<Acquired>, quorum: usize) -> Election {
    let granted: Vec<(usize, FencingToken)> = answers
        .iter()
        .enumerate()
        .filter_map(|(index, answer)| match answer {
            Some(Ok(Acquired::Granted { fencing_tokens, .. })) => {
                Some((index, fencing_tokens.first))
            }
            _ => None,
        })
        .collect();
    if granted.len() >= quorum {
        return Election::Won(granted);
    }
    let faults = faults(answers);
    // A node without an answer yet may still grant: it counts as cut.
    let is_open = answers.iter().any(Option::is_none);
    let was_cut = !granted.is_empty()
        || is_open
        || faults.iter().any(|fault| fault.is_unknown)
        || refusals(answers).any(|(_, _, was_cut)| was_cut);
    if answers.len() - faults.len() < quorum {
        let fault = merge(&faults);
        // Those that will never vote are so many that the others make no quorum.
        let lasting = faults.iter().filter(|fault| fault.is_final).count();
        let is_final = answers.len() - lasting < quorum;
        return Election::Unavailable(Fault { is_unknown: was_cut, is_final, ..fault });
    }
    let (holder, votes) = most_votes(answers);
    let holder = holder.filter(|_| may_have_it(answers, quorum));
    Election::Refused {
        free_in: match holder {
            Some(holder) => holds_for(holder, answers, quorum),
            None => refusals(answers).filter_map(|(_, free_in, _)| free_in).min(),
        },
        holder: holder.map(str::to_owned),
        was_cut,
        is_split: votes < quorum,
    }
}

/// For how long this holder still has a quorum, or each of the votes that are known if these are
/// fewer; `None`: until somebody ends that, as keys of it have no expiry.
fn holds_for(holder: &str, answers: &NodeAnswers<Acquired>, quorum: usize) -> Option<Duration> {
    let votes = refusals(answers).filter(|(other, ..)| is_same(*other, Some(holder)));
    let mut left: Vec<Option<Duration>> = votes.map(|(_, free_in, _)| free_in).collect();
    left.sort_unstable_by_key(|free_in| std::cmp::Reverse(free_in.unwrap_or(Duration::MAX)));
    left.get(quorum - 1).or(left.last()).copied().flatten()
}

fn refusals(
    answers: &NodeAnswers<Acquired>,
) -> impl Iterator<Item = (Option<&str>, Option<Duration>, bool)> {
    answers.iter().filter_map(|answer| match answer {
        Some(Ok(Acquired::Refused { holder, free_in, was_cut, .. })) => {
            Some((holder.as_deref(), *free_in, *was_cut))
        }
        _ => None,
    })
}

/// What a majority of all nodes found; `None`: not decided, or not decidable with these answers.
pub(crate) fn verdict(found: impl Iterator<Item = Option<Found>>, quorum: usize) -> Option<Found> {
    let (mut ours, mut stolen, mut unclear, mut total, mut unknown) = (0, 0, 0, 0, 0);
    for found in found {
        total += 1;
        match found {
            Some(Found::Ours) => ours += 1,
            Some(Found::Stolen) => stolen += 1,
            Some(Found::Unclear) => unclear += 1,
            Some(Found::Gone) => {}
            None => unknown += 1,
        }
    }
    if ours >= quorum {
        return Some(Found::Ours);
    }
    if ours + unknown >= quorum {
        return None;
    }
    if ours + unknown + unclear >= quorum {
        return Some(Found::Unclear);
    }
    let is_stolen = stolen > total - quorum;
    Some(if is_stolen { Found::Stolen } else { Found::Gone })
}

/// The same for the answers of all nodes.
pub(crate) fn judge(answers: &NodeAnswers<Found>, quorum: usize) -> Option<Found> {
    verdict(answers.iter().map(|answer| answer.as_ref()?.as_ref().ok().copied()), quorum)
}

/// What nodes found that were asked to turn a lock into a read lock. A refusal says that the lock
/// is gone, unless a part of the same call may still be carried out.
pub(crate) fn turned(answers: &NodeAnswers<Acquired>) -> NodeAnswers<Found> {
    let found = |answer: &Result<Acquired, Fault>| match answer {
        Ok(Acquired::Granted { .. }) => Some(Ok(Found::Ours)),
        Ok(Acquired::Refused { was_cut: true, .. }) => None,
        Ok(Acquired::Refused { .. }) => Some(Ok(Found::Gone)),
        Err(fault) => Some(Err(fault.clone())),
    };
    answers.iter().map(|answer| found(answer.as_ref()?)).collect()
}

/// The faults among the answers.
pub(crate) fn faults<T>(answers: &NodeAnswers<T>) -> Vec<&Fault> {
    answers.iter().filter_map(|answer| answer.as_ref()?.as_ref().err()).collect()
}

/// Several faults as one: final only if all of them are.
pub(crate) fn merge(faults: &[&Fault]) -> Fault {
    let nodes: Vec<NodeError> =
        faults.iter().flat_map(|fault| fault.nodes.iter().cloned()).collect();
    Fault {
        nodes,
        is_unknown: faults.iter().any(|fault| fault.is_unknown),
        is_final: !faults.is_empty() && faults.iter().all(|fault| fault.is_final),
    }
}

/// Why nodes do not agree on what a command found. Where one of them has carried it out, the next
/// attempt finds nothing.
pub(crate) fn undecided(answers: &NodeAnswers<Found>) -> Fault {
    let has_run =
        answers.iter().any(|answer| matches!(answer, Some(Ok(Found::Ours | Found::Unclear))));
    let fault = merge(&faults(answers));
    Fault { is_unknown: fault.is_unknown || has_run, ..fault }
}

#[cfg(test)]
mod tests;
