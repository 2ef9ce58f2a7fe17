//! A plain command: it can leave by itself, or in a batch with those of other callers.

use deadpool_redis::redis::{RedisResult, Value};

use super::script::Invocation;
use crate::backend::Claim;

/// A command that can be part of a batch.
#[derive(Clone)]
pub(crate) struct Part {
    pub(crate) verb: Verb,
    pub(crate) claim: Claim,
    by_itself: fn(&Claim) -> Invocation,
}

/// Releases go first: whoever releases a lock may want it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verb {
    Release,
    Acquire,
}

/// The answer to a part of a batch. `was_cut`: an earlier try of the command may have been carried
/// out.
pub(crate) enum PartAnswer {
    /// As if the command had left by itself.
    Replied { reply: RedisResult<Value>, was_cut: bool },
    /// It has to be sent by itself.
    Alone { was_cut: bool },
}

impl PartAnswer {
    /// The reply, if there is one. Sets `was_cut` where that was so.
    pub(super) fn noted_in(self, was_cut: &mut bool) -> Option<RedisResult<Value>> {
        let (reply, is_second) = match self {
            Self::Replied { reply, was_cut } => (Some(reply), was_cut),
            Self::Alone { was_cut } => (None, was_cut),
        };
        *was_cut |= is_second;
        reply
    }
}

impl Part {
    /// `by_itself`: what is sent if it leaves by itself.
    pub(super) fn new(verb: Verb, claim: &Claim, by_itself: fn(&Claim) -> Invocation) -> Self {
        Self { verb, claim: claim.clone(), by_itself }
    }

    /// The script for this command alone.
    pub(crate) fn by_itself(&self) -> Invocation {
        (self.by_itself)(&self.claim)
    }
}
