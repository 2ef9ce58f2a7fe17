#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc = include_str!("../README.md")]

mod acquire;
mod after_completion;
mod backend;
mod background_thread;
mod backoff;
mod blocking;
mod body;
mod budget;
mod call;
mod client;
mod clock;
mod denial;
mod engine;
mod environment;
mod error;
mod executor;
mod fencing;
mod foreign_text;
mod global;
mod guard;
mod handoff;
mod health;
mod hold;
mod key;
mod kind;
mod lease;
mod local_queue;
mod lock_order;
mod mutex;
mod notify_all;
mod options;
mod owner;
mod pending;
mod process;
mod release;
mod report;
mod shared_text;
mod shield;
mod shielded_waker;
mod spare_memory;
mod state;
mod telemetry;
#[cfg(any(test, feature = "test-util"))]
pub mod testing;
#[cfg(test)]
mod tests;
mod thread_exit;
mod together;
mod validity;

pub use backend::MemoryStore;
#[cfg(feature = "tls")]
pub use backend::Tls;
pub use client::{ClientScope, HeldLock, IntoRedlock, LockRequest, Redlock, RedlockBuilder};
pub use deadpool_redis;
pub use error::{AlreadyHeldReason, InvalidKeyReason, LockError, NodeError, NodeErrorKind};
pub use fencing::{FencingToken, InvalidFencingToken};
pub use global::{global, init, init_blocking, init_from_env};
pub use guard::LockGuard;
pub use health::{Health, NodeHealth};
pub use lease::{Lease, Scoped};
pub use options::Wait;
#[doc = include_str!("redis_lock.md")]
pub use redlock_macros::redis_lock;
pub use state::{LeaseState, LostReason, Released};

/// For the commands of `redlock-cli`. Not a part of the API: it changes without notice.
#[doc(hidden)]
#[cfg(feature = "_operator")]
pub mod __operator {
    pub use crate::backend::operator::{
        Digests, InfoText, LockKeys, PERMITS, READERS, certificates, check_mode, check_watched,
        client_of, connect, digests, explain, hold_of, info_field, is_group, is_outage, lock_keys,
        release_script, retained_by, server, server_mode, shared_release_script, shown_permits,
        shown_readers, tls, watched_master,
    };
    pub use crate::backend::operator::{
        WholeCluster, cluster_masters, explain_in_cluster, is_elsewhere,
    };

    /// Can the keys of locks begin with this?
    pub fn check_prefix(prefix: &str) -> Result<(), crate::LockError> {
        crate::client::check_prefix(prefix)
    }

    /// Was a lease of the whole `expire` confirmed? A lock that was handed over has a shorter one
    /// until it is claimed, also where `max_renew` allows no renewal.
    pub fn is_claimed(lease: &crate::Lease) -> bool {
        lease.hold().is_claimed()
    }

    /// Was a lease lost by its time alone, without a renewal that could have found it lost earlier?
    pub fn has_only_run_out(lease: &crate::Lease) -> bool {
        lease.hold().has_only_run_out()
    }

    /// The URLs in a list, as in `REDLOCK_URLS`.
    pub fn split_urls(list: &str) -> Vec<String> {
        crate::environment::split(list)
    }

    /// How the value of a switch is read, as of `REDLOCK_CLUSTER`, which is not blank.
    pub fn is_yes(value: &str) -> bool {
        crate::environment::is_yes(value)
    }
}

/// What `#[redis_lock]` expands to. Not a part of the API: it changes without notice.
#[doc(hidden)]
pub mod __private {
    pub use core::convert::Infallible as Never;
    pub use core::format_args;
    pub use core::time::Duration;

    pub use crate::__take as take_variable;
    pub use crate::Wait;
    pub use crate::call::{
        Client, FromLockError, Handed, Kept, LockLocal, Locked, NoReturn, Pending, Skip, Slot,
        Spec, client, convert, global, handle, no_return, panic_on, skip_busy, skipped, wait,
    };
    pub use crate::key::{
        Key, KeyPart, Keys, Render, display_key, display_keys, lend, literal_key, part, several,
        take,
    };
    #[cfg(any(test, feature = "test-util"))]
    pub use crate::testing::assert::{
        assert_held_by, assert_held_here, assert_not_held_by, assert_not_held_here,
    };
}
