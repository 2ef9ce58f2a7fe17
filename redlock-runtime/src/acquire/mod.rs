//! Acquire: the direct attempt of a caller, and the poller that waits for all callers of a key.

mod acquiring;
mod attempt;
mod direct_attempt;
mod downgrade;
mod nesting;
mod observed;
mod wait_handle;
mod waiting;

pub(crate) use acquiring::{Acquiring, Order, start};
pub(crate) use downgrade::downgrade;
