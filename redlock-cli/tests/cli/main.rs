//! The tool as a person uses it: real servers, real children, exit codes.
#![allow(clippy::unwrap_used, clippy::expect_used, unreachable_pub, missing_docs)]

#[cfg(target_os = "linux")]
mod cluster_changes;
mod doctor;
mod operators;
mod operators_kinds;
mod operators_rights;
mod pace;
mod release;
mod run_claim;
mod run_codes;
#[cfg(target_os = "linux")]
mod run_descendants;
mod run_guard;
mod run_kinds;
mod run_loss;
#[cfg(target_os = "linux")]
mod run_orphans;
mod run_signals;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod run_start;
mod run_stderr;
#[cfg(target_os = "linux")]
mod run_terminal;
mod sentinel_changes;
mod support;
#[cfg(target_os = "linux")]
mod terminal;
mod tls;
#[cfg(target_os = "linux")]
mod top;
mod topologies;
mod usage;
