#![doc = include_str!("../README.md")]

mod acquire;
mod backend;
mod backoff;
mod client;
mod clock;
mod denial;
mod engine;
mod error;
mod fencing;
mod finish;
mod global;
mod guard;
mod host;
mod keeper;
mod key;
mod lease;
mod options;
mod owner;
mod process;
mod protect;
mod reentrancy;
mod release;
mod renewal;
mod report;
mod run;
mod shield;
mod state;
mod telemetry;
#[cfg(test)]
mod tests;
mod validity;
mod watch;

pub use backend::MemoryStore;
#[cfg(feature = "tls")]
pub use backend::Tls;
pub use client::{HeldLock, IntoRedlock, LockRequest, Redlock, RedlockBuilder};
pub use deadpool_redis;
pub use error::{InvalidKeyReason, LockError, NodeError, NodeErrorKind};
pub use fencing::{FencingToken, InvalidFencingToken};
pub use global::{global, init, init_from_env};
pub use guard::LockGuard;
pub use lease::{Lease, Scoped};
pub use options::Wait;
#[doc = include_str!("redis_lock.md")]
pub use redlock_macros::redis_lock;
pub use state::{LeaseState, LostReason, Released};

/// What `#[redis_lock]` expands to. Not a part of the API: it changes without notice.
#[doc(hidden)]
pub mod __private {
    pub use core::convert::Infallible as Never;
    pub use core::format_args;
    pub use core::time::Duration;

    pub use crate::Wait;
    pub use crate::key::{Key, KeyPart, Render, display_key, lend, literal_key, part, take};
    pub use crate::run::{
        Client, FromLockError, Handed, Kept, LockLocal, Locked, Pending, Slot, Spec, client,
        convert, global, handle, panic_on, wait,
    };
}
