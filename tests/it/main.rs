//! Integration tests, in one binary: rebuilding and linking one is much faster than ten.
#![allow(clippy::unwrap_used, clippy::expect_used, unreachable_pub, missing_docs)]
#![allow(missing_debug_implementations)]

/// The text of a script that ships.
macro_rules! script {
    ($name:literal) => {
        include_str!(concat!("../../redlock-runtime/src/backend/redis/commands/exclusive/", $name))
    };
}

/// The text of a script of readers and permits.
macro_rules! shared {
    ($name:literal) => {
        include_str!(concat!("../../redlock-runtime/src/backend/redis/commands/shared/", $name))
    };
}

mod busy;
mod certificates;
mod clients;
mod clock_at_boot;
mod clock_jump;
mod ends;
mod ends_roles;
mod executor;
mod failover_in_place;
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
mod fencing;
mod fencing_recipe;
mod forks;
mod forks_roles;
mod hand_over_crash;
mod hand_over_crew;
mod hand_over_store;
mod hand_over_worker;
mod health;
mod leader_roles;
mod load;
mod masters;
mod roles;
mod support;

mod attribute_cancel;
mod attribute_client;
mod attribute_crate;
mod attribute_expire;
mod attribute_key;
mod attribute_keys;
mod attribute_kinds;
mod attribute_max_renew;
mod attribute_on_busy;
mod attribute_on_error;
mod attribute_reentrant;
mod attribute_release;
mod attribute_shape;
mod attribute_size;
mod attribute_wait;
mod blocking;
mod bounds;
mod cluster;
mod cluster_cuts;
mod cluster_queue;
mod cluster_shrinks;
mod cluster_slots;
mod connecting;
mod connecting_parts;
mod contract;
mod drain;
mod interop;
mod kinds;
mod leader;
mod left_behind;
mod local_connections;
mod lock_order;
mod mailbox;
mod min_hold;
mod min_replicas;
mod observability;
mod outage;
mod parity;
mod protocol;
mod quorum;
mod release_hints;
mod restart_guard;
mod scope;
mod secrets;
mod security;
mod security_topologies;
mod sentinel;
mod server_queue;
mod server_queue_broken;
mod server_queue_calls;
mod server_queue_denied;
mod server_queue_far;
mod server_queue_told;
mod server_queue_turns;
mod testing_kit;
mod thread_death;
mod tls;
mod tls_topologies;
mod transfers;
mod two_addresses;

mod support_cluster;
mod support_events;
mod support_process;
mod support_proxy;
mod support_scripted;
mod support_sentinel;
mod support_server;
mod support_topologies;
