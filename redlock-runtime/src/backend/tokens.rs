//! Fencing tokens that are reserved for the callers of one process.

use crate::fencing::FencingToken;
use crate::options::MIN_EXPIRE;

/// Fencing tokens that can be reserved at once. The server grants at least one, and more only as
/// far as they run ahead of its clock by the shortest lease at most: when a lease is over, its
/// clock is ahead again.
pub(crate) const MAX_RESERVE: u32 = 1 << 13;
const _: () = assert!((MAX_RESERVE as u128) < MIN_EXPIRE.as_micros());

/// Fencing tokens that one owner value may use, one after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FencingTokens {
    pub(crate) first: FencingToken,
    pub(crate) last: FencingToken,
}

/// How far the fencing tokens of an owner value were used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TokensUsed {
    /// The last one that was used.
    pub(crate) used: FencingToken,
    /// The last one that was reserved. Where the counter shows another one, somebody has drawn
    /// tokens since.
    pub(crate) reserved: FencingToken,
}
