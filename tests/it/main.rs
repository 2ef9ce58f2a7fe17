//! Integration tests, in one binary: rebuilding and linking one is much faster than ten.
#![allow(clippy::unwrap_used, clippy::expect_used, unreachable_pub, missing_docs)]
#![allow(missing_debug_implementations)]

mod certificates;
mod clients;
mod clock_jump;
mod executor;
mod fault_blocking;
mod fault_crash;
mod fault_drop;
mod fault_frozen;
mod fault_holders;
mod fault_keys;
mod fault_kit;
mod fault_replies;
mod fault_roles;
mod fault_runtimes;
mod fault_servers;
mod fault_store;
mod fault_wire;
mod hand_over_crash;
mod hand_over_crew;
mod hand_over_store;
mod hand_over_worker;
mod load;
mod roles;
mod support;

mod attribute_cancel;
mod attribute_client;
mod attribute_crate;
mod attribute_expire;
mod attribute_key;
mod attribute_max_renew;
mod attribute_on_error;
mod attribute_reentrant;
mod attribute_release;
mod attribute_shape;
mod attribute_wait;
mod bounds;
mod cluster;
mod cluster_slots;
mod contract;
mod interop;
mod line;
mod line_calls;
mod line_denied;
mod min_replicas;
mod observability;
mod parity;
mod protocol;
mod quorum;
mod restart_guard;
mod secrets;
mod security;
mod security_topologies;
mod sentinel;
mod tls;

mod support_cluster;
mod support_events;
mod support_process;
mod support_proxy;
mod support_scripted;
mod support_sentinel;
mod support_server;
mod support_topologies;
