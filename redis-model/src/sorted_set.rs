//! Sorted sets: members with a score, which is a whole number here, as the scripts have no other.

use std::collections::BTreeMap;

use crate::reply::Reply;

/// Members and their scores.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SortedSet {
    scores: BTreeMap<Vec<u8>, i64>,
}

/// The end of a range of scores.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bound {
    score: i64,
    is_open: bool,
}

impl Bound {
    pub(crate) fn parse(word: &[u8]) -> Result<Self, Reply> {
        let (is_open, word) = match word.strip_prefix(b"(") {
            Some(word) => (true, word),
            None => (false, word),
        };
        let score = match word {
            b"-inf" => i64::MIN,
            b"+inf" => i64::MAX,
            word => score(word).map_err(|_| Reply::error("ERR min or max is not a float"))?,
        };
        Ok(Self { score, is_open })
    }
}

/// A score as a command has it.
pub(crate) fn score(word: &[u8]) -> Result<i64, Reply> {
    let text = std::str::from_utf8(word).ok();
    let number = text.and_then(|text| text.parse().ok());
    number.ok_or_else(|| Reply::error("ERR value is not a valid float"))
}

impl SortedSet {
    /// Members and scores in their order: by score, then by member.
    pub fn in_order(&self) -> Vec<(&[u8], i64)> {
        let mut members: Vec<_> =
            self.scores.iter().map(|(member, score)| (member.as_slice(), *score)).collect();
        members.sort_by_key(|(member, score)| (*score, *member));
        members
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.scores.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.scores.len()
    }

    pub(crate) fn score(&self, member: &[u8]) -> Option<i64> {
        self.scores.get(member).copied()
    }

    /// Sets a score; with `is_old_only`, of a member only that is there. Was it added?
    pub(crate) fn add(&mut self, score: i64, member: &[u8], is_old_only: bool) -> bool {
        if is_old_only && !self.scores.contains_key(member) {
            return false;
        }
        self.scores.insert(member.to_vec(), score).is_none()
    }

    pub(crate) fn remove(&mut self, member: &[u8]) -> bool {
        self.scores.remove(member).is_some()
    }

    pub(crate) fn count(&self, least: Bound, most: Bound) -> usize {
        self.scores.values().filter(|score| is_within(**score, least, most)).count()
    }

    /// Removes the members of a range of scores. Returns how many.
    pub(crate) fn remove_range(&mut self, least: Bound, most: Bound) -> usize {
        let before = self.len();
        self.scores.retain(|_, score| !is_within(*score, least, most));
        before - self.len()
    }
}

fn is_within(score: i64, least: Bound, most: Bound) -> bool {
    let is_above = if least.is_open { score > least.score } else { score >= least.score };
    let is_below = if most.is_open { score < most.score } else { score <= most.score };
    is_above && is_below
}
