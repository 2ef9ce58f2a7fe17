//! A TCP proxy in front of a server, whose faults a test switches on and off at run time.
//!
//! It knows where RESP requests and replies begin and end, so it can lose exactly one of them.
//! As on a real wire, bytes are never skipped: a connection that lost a request or a reply
//! delivers nothing more in that direction, until the client gives it up.

mod connection;
mod control;
mod frames;
mod resp;
mod rules;
mod shared;

pub use control::{Hits, Proxy};
pub use resp::{command_name, frame_len};
pub use rules::{Match, Then, any, command, contains};
