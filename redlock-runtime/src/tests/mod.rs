//! The engines on a backend that fails on command, in virtual time.

mod acquire;
mod cohort;
mod crowd;
mod down_nodes;
mod fake;
mod fifo_queue;
mod local_connection;
#[cfg(feature = "metrics")]
mod metrics;
mod options;
mod panics;
mod queue_lost;
mod quorum;
mod reentrancy;
mod release;
mod release_hint;
mod renewal;
mod restart_guard;
mod runtimes;
mod server;
mod several_at_once;
mod several_keys;
mod several_keys_lost;
mod shutdown;
mod siblings;
mod simulation;
mod waiting;
mod wakers;
