//! Tests of your own locked functions: locks in memory, with faults by script (feature
//! `test-util`).
//!
//! A [`FaultyStore`] plays the part of a Redis server that is busy, slow, down, loses replies or
//! locks; several of them are independent masters. On a clock that tokio has paused
//! (`#[tokio::test(start_paused = true)]`, feature `test-util` of tokio) an hour of holding takes
//! no time; a call that waits for a lock asks some ten times in each second of that clock. A test
//! has the same outcome each time, except which of several clients that wait comes next: their
//! pauses are random. [`Redlock::scope`](crate::Redlock::scope) makes a client of the store the
//! global one for the code under test, so that tests run side by side. Callers without tokio, as
//! threads that call [`acquire_blocking`](crate::LockRequest::acquire_blocking), meet the same
//! faults, in real time.
//!
//! ```toml
//! [dev-dependencies]
//! redlock-runtime = { version = "0.1", features = ["test-util"] }
//! tokio = { version = "1", features = ["macros", "rt", "test-util"] }
//! ```
//!
//! ```
//! use std::time::Duration;
//!
//! use redlock::testing::{FaultyStore, assert_held, assert_not_held};
//! use redlock::{LockError, redis_lock};
//!
//! #[redis_lock(key = "billing-<customer>", expire = "10s", wait = "5s")]
//! async fn bill(customer: u32) -> Result<u32, LockError> {
//!     tokio::time::sleep(Duration::from_secs(60)).await;
//!     assert_held!(format!("billing-{customer}"));
//!     Ok(customer)
//! }
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), LockError> {
//! let store = FaultyStore::new();
//! let redlock = store.client().await?;
//! assert_eq!(redlock.scope(bill(7)).await, Ok(7)); // a minute, in no time
//! assert_not_held!(redlock, "billing-7");
//!
//! store.down();
//! assert!(redlock.scope(bill(7)).await.unwrap_err().is_unavailable());
//! # Ok(()) }
//! ```
//!
//! The [guide](https://github.com/redlock-rs/redlock/blob/main/docs/testing.md) has a test for each
//! thing that can go wrong.

pub(crate) mod assert;

pub use crate::backend::{Command, FaultyStore, PlannedFault};
#[doc(inline)]
pub use crate::{assert_held, assert_not_held};
