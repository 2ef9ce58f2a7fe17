//! The callers of this process that wait: one queue a key, in the order of their arrival.

pub(crate) mod queue;
pub(crate) mod shutdowns;
pub(crate) mod state;
pub(crate) mod wait_handle;
pub(crate) mod waiters;

pub(crate) use queue::{Asking, Freeing, Late, LocalQueue, LocalQueues, QueueHandle, Successor};
pub(crate) use shutdowns::{Shutdown, Shutdowns};
#[cfg(test)]
pub(crate) use state::{GRANTS_TO_FORGET, QUESTION};
pub(crate) use state::{PollerState, QueueState, RestReason};
#[cfg(test)]
pub(crate) use wait_handle::LOOKS;
pub(crate) use wait_handle::{WaitHandle, Waiter};
#[cfg(test)]
pub(crate) use waiters::Waiters;
