//! What is known about a server: whether it answers, which process it is, and whether its clock
//! jumps.

pub(crate) mod clock_jump;
pub(crate) mod info;
mod kept_data;
pub(crate) mod node_health;
pub(crate) mod outages;
pub(crate) mod server_identity;
pub(crate) mod startup_check;

pub(crate) use clock_jump::Sample;
pub(crate) use node_health::OutageLog;
pub(crate) use server_identity::ServerIdentity;
