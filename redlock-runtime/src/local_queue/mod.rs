//! The waiting callers of this process: one queue per key, in the order of their arrival.

mod guards;
mod queue;
mod release_counts;
mod shutdowns;
mod state;
mod waiter;
mod waiters;

pub(crate) use guards::{DirectAttemptGuard, Freeing, Late, Leaving};
pub(crate) use queue::{LocalQueue, LocalQueues, QueueHandle, Successor, WaiterCount};
pub(crate) use shutdowns::{Shutdown, Shutdowns};
pub(crate) use state::{PollerState, QueueState, RestReason};
pub(crate) use waiter::{Answer, Terms, Waiter};
