//! The engines on a backend that fails on command, in virtual time.

mod acquire;
mod cohort;
mod crowd;
mod down_nodes;
mod fake;
mod lane;
mod line;
#[cfg(feature = "metrics")]
mod metrics;
mod notice;
mod options;
mod panics;
mod queue_lost;
mod quorum;
mod reentrancy;
mod release;
mod renewal;
mod restart_guard;
mod runtimes;
mod server;
mod shutdown;
mod siblings;
mod simulation;
mod waiting;
mod wakers;
