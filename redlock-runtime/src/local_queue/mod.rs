//! The waiting callers of this process: one queue per key, in the order of their arrival.

mod entering;
mod queue;
mod release_counts;
mod releases;
mod shutdowns;
mod state;
mod waiter;
mod waiters;

pub(crate) use entering::{PollerCount, WaiterCount};
pub(crate) use queue::{DirectAttemptGuard, LocalQueue, LocalQueues, QueueHandle, Successor};
pub(crate) use releases::ReleaseUnderWay;
pub(crate) use shutdowns::{Shutdown, Shutdowns};
pub(crate) use state::{PollerState, QueueState, RestReason};
pub(crate) use waiter::{Answer, Waiter};
