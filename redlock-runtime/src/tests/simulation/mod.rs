//! Whole histories of several processes on unreliable nodes, in virtual time and decided by a seed.
//!
//! The engines are the real ones. Simulated is what they cannot control: the nodes with their
//! clocks (`node`) and their lines (`line`), the way there and back (`network`, `wire`, `waiting`,
//! `notice`), and how processes are scheduled
//! (`process`). A `plan` decides beforehand what goes wrong when, a `witness` that sees everything
//! checks every step, and `histories` plays one seed after the other.

mod client;
mod histories;
mod history;
pub(super) mod line;
mod network;
pub(super) mod node;
pub(super) mod notice;
pub(super) mod plan;
mod process;
mod resource;
mod waiting;
mod wire;
mod witness;
mod world;
