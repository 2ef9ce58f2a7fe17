//! The engines on a backend that fails on command, in virtual time.

mod acquire;
mod crowd;
mod down_nodes;
mod fake;
#[cfg(feature = "metrics")]
mod metrics;
mod quorum;
mod reentrancy;
mod release;
mod renewal;
mod restart_guard;
mod simulation;
