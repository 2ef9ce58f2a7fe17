//! N independent masters as one backend: the RedLock algorithm of Redis' distributed lock
//! pattern (redis.io, "Distributed Locks with Redis"), with fencing tokens.
//!
//! A lock is held when a quorum of all N nodes granted it to one owner. Nobody waits for a node
//! that is known to be down, and nothing depends on a node that is: whatever may stand on it ends
//! with its lease.
//!
//! **Fencing tokens.** Each node grants with a token of its own counter. The token of the lock is
//! the highest of those, written back to the nodes that granted less, and valid once a quorum has
//! it. Two grants share a node of both quorums, and their tenures there do not overlap (an owner
//! value is used for one tenure): the later one reads at least what the earlier one wrote, and goes
//! above. No clock is used for that, and no counter may be lost: with `f` nodes that may forget,
//! choose `2 * quorum > N + f`.

mod backend;
mod gather;
mod guard;
mod member;
mod roll;
mod tally;
mod tenure;

pub(crate) use backend::{Quorum, Rules, majority};
pub(crate) use guard::RestartGuard;
