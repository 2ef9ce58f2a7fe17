//! What makes a majority.

/// Of those that exist, not of those that have answered.
pub(super) fn is_majority(votes: usize, servers: usize) -> bool {
    votes > servers / 2
}
