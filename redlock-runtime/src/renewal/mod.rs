//! Renewal: the record of a held lock, the schedule of what is due, and the driver that does it.

mod driver;
mod gates;
mod hold;
mod schedule;

pub(crate) use driver::Scheduler;
pub(crate) use hold::{Confirmed, Grant, Hold};
