//! The contract of the servers that hold locks, and its implementations.

pub(crate) mod fifo_queue;
pub(crate) mod lock_backend;
pub(crate) mod memory;
pub(crate) mod outcome;
pub(crate) mod quorum;
pub(crate) mod quorum_member;
pub(crate) mod redis;
pub(crate) mod shared_work;
pub(crate) mod tls;
pub(crate) mod witness;

pub(crate) use fifo_queue::{
    CLAIM_WINDOW, Enqueued, FencingTokens, FifoQueue, Position, QueueSignal, Rotated, Subscription,
    TokensUsed,
};
pub(crate) use lock_backend::{
    BackgroundTask, Claim, HintRegistration, LockBackend, OnRelease, Reply,
};
pub(crate) use memory::Memory;
pub use memory::MemoryStore;
pub(crate) use outcome::{Acquired, Fault, Found};
pub(crate) use quorum::{Quorum, RestartGuard, Rules, majority};
pub(crate) use quorum_member::{Cause, FoundersOffer, FoundersReply, MemorySince, QuorumMember};
#[cfg(feature = "cluster")]
pub(crate) use redis::RedisCluster;
pub(crate) use redis::{MinReplicas, NodeOptions, RedisNode};
pub(crate) use shared_work::SharedWork;
#[cfg(not(feature = "tls"))]
pub(crate) use tls::Tls;
#[cfg(feature = "tls")]
pub use tls::Tls;
pub(crate) use witness::Witness;
