//! Real Redis servers for tests, and what can go wrong with them.
//!
//! A [`Server`] is a `redis-server` or `valkey-server` of one test: killed, frozen, emptied, made
//! a replica or given another time of day; [`Masters`], [`Replicated`], [`Sentinels`]
//! and [`Cluster`] are several of them. A
//! [`Proxy`] in front of one loses, delays and cuts single requests and replies. A [`Process`] is
//! the test's own program in another role, and can be killed and frozen, too. Nothing here outlives
//! the test, however the test ends.
//!
//! ```
//! use fault_kit::proxy::{Then, command};
//! use fault_kit::{Proxy, Server, ms};
//!
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! let server = Server::builder().append_only("always").start().await;
//! let proxy = Proxy::start(&server);
//! // The client under test gets `proxy.url()`.
//! proxy.when(command(&["SET"]), Then::LoseReply);
//! proxy.delay_requests(ms(20));
//! server.restart_keeping_data().await;
//! assert_eq!(server.raw().get("key").await, None);
//! # });
//! ```
//!
//! What a test asks for and cannot have (a port, a reply, an event in time) fails the test: the
//! tools panic, and say what they saw instead.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::missing_panics_doc, unreachable_pub)]

mod binary;
#[cfg(feature = "certificates")]
mod certificates;
mod clock;
mod cluster;
mod dir;
pub mod events;
mod eventually;
mod full;
mod launch;
mod masters;
mod patience;
pub mod process;
pub mod proxy;
mod raw;
mod replicated;
pub mod scripted;
mod sentinel;
mod server;
pub mod supervise;

pub use binary::has_server;
#[cfg(feature = "certificates")]
pub use certificates::{Authority, Certificate};
pub use cluster::Cluster;
pub use events::capture;
pub use eventually::{Verdict, block_thread, eventually, ms, secs, time_passes, within};
pub use full::{counted, full};
pub use masters::Masters;
pub use process::Process;
pub use proxy::Proxy;
pub use raw::{Raw, lines_of};
pub use replicated::Replicated;
pub use scripted::Scripted;
pub use sentinel::Sentinels;
pub use server::{Server, ServerBuilder, unique_prefix};
