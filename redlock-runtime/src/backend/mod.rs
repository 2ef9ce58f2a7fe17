//! The contract of the servers that hold locks, and its implementations.

mod claim;
mod departures;
mod downgrade;
#[cfg(any(test, feature = "test-util"))]
mod faulty;
mod fifo_queue;
mod health_check;
mod lock_backend;
mod memory;
mod outcome;
mod quorum;
mod quorum_member;
mod redis;
mod release_hints;
mod several;
mod shared_work;
mod tls;
mod tokens;
mod witness;

pub(crate) use claim::{Claim, Release};
pub(crate) use departures::Departures;
pub(crate) use downgrade::{Downgrade, Downgraded};
#[cfg(any(test, feature = "test-util"))]
pub use faulty::{Command, FaultyStore, PlannedFault};
#[cfg(test)]
pub(crate) use faulty::{Fate, FaultyNode, meet};
pub(crate) use fifo_queue::{
    CLAIM_WINDOW, Enqueued, FifoQueue, Look, Position, QueueDenial, QueueSignal, Rotated,
    Subscription,
};
pub(crate) use health_check::{HealthAnswer, HealthCheck};
pub(crate) use lock_backend::{
    Abilities, BackgroundTask, BackgroundWork, LocalConnection, LockBackend,
};
pub(crate) use memory::Memory;
pub use memory::MemoryStore;
pub(crate) use outcome::{Acquired, Busy, Fault, Found, Reply};
#[cfg(test)]
pub(crate) use quorum::{Member, NodeAdmission};
pub(crate) use quorum::{Quorum, RestartGuard, Rules, majority};
pub(crate) use quorum_member::{
    Cause, ClockOffset, FormerList, FoundersList, FoundersOffer, MemorySince, QuorumMember, process,
};
#[cfg(feature = "cluster")]
pub(crate) use redis::RedisCluster;
#[cfg(feature = "_operator")]
pub(crate) use redis::operator;
#[cfg(test)]
pub(crate) use redis::simulated;
pub(crate) use redis::{MinReplicas, NodeOptions, RedisNode, Siblings, check_url};
pub(crate) use release_hints::{HintRegistration, OnRelease, ReleaseHints};
pub(crate) use several::{AcquireAll, AllAcquired, EachReleased, ReleaseAll};
pub(crate) use shared_work::SharedWork;
#[cfg(not(feature = "tls"))]
pub(crate) use tls::Tls;
#[cfg(feature = "tls")]
pub use tls::Tls;
pub(crate) use tokens::{FencingTokens, MAX_RESERVE, TokensUsed};
pub(crate) use witness::{Dates, Predecessor, Witness};
