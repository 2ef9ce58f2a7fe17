//! Fencing tokens that are reserved for the callers of one process.

use crate::fencing::FencingToken;
use crate::options::MIN_EXPIRE;

/// How many fencing tokens can be reserved in the queue at once. The server always grants one. It
/// grants more only if they are ahead of its clock by no more than the shortest lease, so that its
/// clock has passed them when the lease is over.
pub(crate) const MAX_RESERVE: u32 = 1 << 13;
const _: () = assert!((MAX_RESERVE as u128) < MIN_EXPIRE.as_micros());

/// Fencing tokens that one owner value may use, one after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FencingTokens {
    pub(crate) first: FencingToken,
    pub(crate) last: FencingToken,
}

impl FencingTokens {
    /// None besides this one.
    pub(crate) fn one(fencing_token: FencingToken) -> Self {
        Self { first: fencing_token, last: fencing_token }
    }
}

/// How far the fencing tokens of an owner value were used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TokensUsed {
    /// The last used token.
    pub(crate) used: FencingToken,
    /// The last reserved token. If the counter shows another one, another owner has drawn tokens
    /// since.
    pub(crate) reserved: FencingToken,
}
