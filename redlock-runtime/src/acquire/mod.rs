//! Acquire: the direct attempt of a caller, and the poller that waits for all callers of a key;
//! several keys, one after another.

mod acquiring;
mod agreement;
mod at_once;
mod attempt;
mod caller;
mod direct_attempt;
mod downgrade;
mod endless;
mod inside;
mod nesting;
mod not_all;
mod observed;
mod one_key;
mod order;
mod several;
mod try_once;
mod unanswered;
mod wait_handle;
mod waiting;

pub(crate) use acquiring::{Acquiring, start};
pub(crate) use downgrade::downgrade;
pub(crate) use order::Order;
pub(crate) use several::start_all;
