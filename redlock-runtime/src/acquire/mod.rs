//! Acquire: the queue of this process, the attempts, and the pauses between them.

mod attempt;
mod fairness;
mod queue;
mod wait_loop;

pub(crate) use queue::{Queues, Seat};
pub(crate) use wait_loop::{Order, start};
