#![doc = include_str!("../README.md")]

mod acquire;
mod backend;
mod background_thread;
mod backoff;
mod body;
mod call;
mod client;
mod clock;
mod denial;
mod engine;
mod error;
mod executor;
mod fencing;
mod global;
mod guard;
mod handoff;
mod hold;
mod key;
mod lease;
mod local_queue;
mod options;
mod owner;
mod pending;
mod process;
mod release;
mod report;
mod shield;
mod state;
mod telemetry;
#[cfg(test)]
mod tests;
mod thread_exit;
mod together;
mod validity;

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
    pub use crate::call::{
        Client, FromLockError, Handed, Kept, LockLocal, Locked, Pending, Slot, Spec, client,
        convert, global, handle, panic_on, wait,
    };
    pub use crate::key::{
        Key, KeyPart, Keys, Render, display_key, display_keys, lend, literal_key, part, several,
        take,
    };
}
