//! The suite's own tools: real servers, faults on the wire, other processes, captured events.
//!
//! Nothing here knows the library under test.

// A tool that no test uses yet is not dead: the suite grows into it.
#![allow(dead_code, unused_imports)]

pub mod binary;
pub mod dir;
pub mod events;
pub mod eventually;
pub mod launch;
pub mod process;
pub mod proxy;
pub mod raw;
pub mod scripted;
pub mod server;
pub mod supervise;

pub use events::capture;
pub use eventually::{block_thread, eventually, ms, secs, time_passes, within};
pub use process::Process;
pub use proxy::Proxy;
pub use raw::Raw;
pub use scripted::Scripted;
pub use server::{Server, unique_prefix};
