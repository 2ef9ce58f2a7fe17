//! Acquire: the caller's question, the queue of this process, and the clerk that waits for it.

mod acquiring;
mod attempt;
mod clerk;
mod fairness;
mod holder_here;
mod notice;
mod pass;
mod place;
mod queue;
mod seen;
mod settle;
mod shutdowns;
mod stand;
mod state;
mod tenure;
mod waiters;

pub(crate) use acquiring::{Acquiring, Order, start};
pub(crate) use pass::{Passed, pass_on};
pub(crate) use queue::{Freeing, Late, Queues, Seat};
pub(crate) use shutdowns::{Shutdown, Shutdowns};
pub(crate) use tenure::{Remains, Tenure};
