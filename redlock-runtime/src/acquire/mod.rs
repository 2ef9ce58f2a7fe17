//! Acquire: the attempt of the caller itself, and the task that waits for all callers of a key.

mod acquiring;
mod attempt;
mod direct_attempt;
mod observed;
mod wait_handle;
mod waiting;

pub(crate) use acquiring::{Acquiring, Order, start};
