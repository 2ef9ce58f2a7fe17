//! The waiting callers of this process: one queue per key, in the order of their arrival.

mod counted;
mod entering;
mod poller_state;
mod queue;
mod release_counts;
mod releases;
mod shutdowns;
mod state;
mod succession;
mod waiter;
mod waiters;

pub(crate) use counted::Counted;
pub(crate) use poller_state::{PollerState, RestReason};
pub(crate) use queue::{DirectAttemptGuard, LocalQueue, LocalQueues, QueueHandle};
pub(crate) use release_counts::CountedRelease;
pub(crate) use releases::ReleaseUnderWay;
pub(crate) use shutdowns::{Shutdown, Shutdowns};
#[cfg(test)]
pub(crate) use state::GRANTS_TO_FORGET;
pub(crate) use state::QueueState;
pub(crate) use succession::Successor;
pub(crate) use waiter::{Answer, Waiter};
