//! How a server signals hand-overs and releases to a client.

pub(crate) mod former_owners;
pub(crate) mod handover_watchdog;
pub(crate) mod listening;
pub(crate) mod mailbox;
pub(crate) mod registry;
pub(crate) mod subscription;

pub(crate) use handover_watchdog::HandoverWatchdog;
pub(crate) use listening::Listening;
#[cfg(test)]
pub(crate) use registry::handed_over;
pub(crate) use registry::{NOBODY, Registry};
pub(crate) use subscription::{Listener, PubsubStream, broken, silent};
