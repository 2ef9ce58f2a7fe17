//! What the engines know of the place where locks stand: three commands and their outcomes.

mod contract;
mod line;
mod memory;
mod outcome;
mod quorum;
mod recall;
mod redis;
mod shared_work;
mod tls;
mod witness;

pub(crate) use contract::{Awaited, Backend, Claim, Duty, Reply, Told};
pub(crate) use line::{
    CLAIM_WINDOW, Call, Drawn, FencingTokens, Joined, Line, Rotated, Standing, Ticket,
};
pub(crate) use memory::Memory;
pub use memory::MemoryStore;
pub(crate) use outcome::{Acquired, Fault, Found};
pub(crate) use quorum::{Quorum, RestartGuard, Rules, majority};
pub(crate) use recall::{Cause, Offer, Recall, RollCall, Voter};
#[cfg(feature = "cluster")]
pub(crate) use redis::RedisCluster;
pub(crate) use redis::{MinReplicas, NodeOptions, RedisNode};
#[cfg(not(feature = "tls"))]
pub(crate) use tls::Tls;
#[cfg(feature = "tls")]
pub use tls::Tls;
pub(crate) use witness::Witness;
