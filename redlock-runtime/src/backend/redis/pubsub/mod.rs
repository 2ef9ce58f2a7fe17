//! How a server signals hand-overs and releases to a client.

pub(crate) mod handover_watchdog;
pub(crate) mod last_ones;
pub(crate) mod listening;
pub(crate) mod mailbox;
pub(crate) mod message;
pub(crate) mod registry;
pub(crate) mod subscription;

pub(crate) use handover_watchdog::HandoverWatchdog;
#[cfg(feature = "cluster")]
pub(crate) use last_ones::LastOnes;
pub(crate) use listening::Listening;
#[cfg(test)]
pub(crate) use message::queue_signals;
pub(crate) use registry::{NOBODY, Registry};
pub(crate) use subscription::{Listener, PubsubStream, broken, silent};
