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
pub use fencing::FencingToken;
pub use global::{global, init, init_from_env};
pub use guard::LockGuard;
pub use lease::{Lease, Scoped};
pub use options::Wait;
/// Runs an `async fn` under a distributed lock.
///
/// The crate's front page has the table of arguments, and what templates, errors and arguments do.
///
/// ```no_run
/// use redlock::{LockError, redis_lock};
///
/// struct Order {
///     id: u64,
/// }
///
/// #[redis_lock(key = "stock-<order.id>", expire = "10s", wait = "5s", max_renew = 5)]
/// async fn deduct(order: &Order, n: u32) -> Result<(), LockError> {
///     println!("read stock {}, subtract {n}, write", order.id);
///     Ok(())
/// }
/// ```
///
/// # Several locks on one function
///
/// They are taken from the bottom up and released from the top down. Functions that take the same
/// locks have to name them in the same order, or they may wait for each other.
///
/// ```no_run
/// use redlock::{LockError, redis_lock};
///
/// #[redis_lock(key = "item-<item>")] // taken second, released first
/// #[redis_lock(key = "shop-<shop>")] // taken first, released second
/// async fn sell(shop: u64, item: u64) -> Result<(), LockError> {
///     println!("{item} of {shop}");
///     Ok(())
/// }
/// ```
///
/// # Beside other attributes
///
/// Attributes are applied from the top down. This one stands below `#[async_trait]` and
/// `#[async_recursion]`, and above `#[tokio::main]`, `#[tokio::test]`, `#[tracing::instrument]` and
/// `#[fastrace::trace]`, whose span then includes the wait for the lock.
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
