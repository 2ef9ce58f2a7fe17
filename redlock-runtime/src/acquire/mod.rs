//! Acquire: the attempt of the caller itself, and the task that waits for all callers of a key.

pub(crate) mod acquiring;
pub(crate) mod attempt;
pub(crate) mod observed;
pub(crate) mod waiting;

pub(crate) use acquiring::{Acquiring, Granted, Order, start, stopped};
pub(crate) use attempt::{Begin, LAST_ATTEMPT, NotGranted, Outcome, Terms, ask, grant};
pub(crate) use observed::Observed;
