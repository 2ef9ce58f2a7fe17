//! Whole histories of several processes on unreliable nodes, in virtual time and decided by a seed.
//!
//! The engines are the real ones. Simulated is what they cannot control: the nodes with their
//! clocks (`node`, `node_plan`) and their queues (`line`), the way there and back (`network`,
//! `wire`, `weather`, `waiting`, `notice`), and how processes are scheduled (`process`). A `plan`
//! decides beforehand what goes wrong when, what the clients are like (`habits`), and of which
//! kinds the locks are (`mixture`, `downgrade`); `group` reads who holds a lock on a node. A
//! `witness` that sees everything checks every step, and `liveness` how long callers wait for a
//! lock that is free (`vacancy`, `bounds`); `departed` looks for locks of owners that let go.
//! `histories` plays one seed after the other, `trace` tells what happened in it, and `survey`
//! counts what is broken. `open_loop` plays loops in which nothing goes wrong, and compares the
//! waits with those for a perfect lock.

mod bounds;
mod client;
mod connects;
mod departed;
mod downgrade;
mod group;
pub(super) mod habits;
mod histories;
mod history;
pub(super) mod line;
mod liveness;
pub(super) mod mixture;
mod network;
pub(super) mod node;
pub(super) mod node_plan;
pub(super) mod notice;
mod open_loop;
pub(super) mod plan;
mod process;
mod resource;
pub(super) mod scripts;
mod several;
mod siblings;
mod survey;
mod trace;
mod vacancy;
mod waiting;
mod weather;
mod wire;
mod witness;
mod world;
