//! The engines on a backend that fails on command, in virtual time.

mod acquire;
mod batches;
mod cohort;
mod crowd;
#[cfg(feature = "metrics")]
mod crowded_connection;
#[cfg(feature = "metrics")]
mod dashboards;
mod down_nodes;
mod endless;
mod ends_in_time;
pub(crate) mod fake;
mod far;
mod fifo_queue;
mod health;
mod hear;
mod lead;
mod local_connection;
mod lock_order;
#[cfg(feature = "metrics")]
mod metrics;
mod min_hold;
mod min_hold_late;
mod odd_clocks;
mod odd_marks;
mod options;
mod panics;
mod queue_lost;
mod queue_search;
mod quorum;
mod reentrancy;
mod release;
mod release_hint;
mod renewal;
mod restart_guard;
mod runtimes;
mod scope;
mod server;
mod several_and_others;
mod several_at_once;
mod several_errors;
mod several_keys;
mod several_keys_lost;
mod shared_scripts;
mod shared_steps;
mod short_lived;
mod shutdown;
mod siblings;
mod simulation;
mod split_votes;
mod step;
mod testing;
mod timeouts;
mod unclaimed_permits;
mod waiting;
mod wakers;
mod won_back;
