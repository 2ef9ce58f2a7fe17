//! Renewal: the record of a held lock, the schedule of what is due, and the driver that does it.

mod alarm;
mod driver;
mod gates;
mod grant;
mod hold;
mod ledger;
mod offer;
mod schedule;
mod step;
mod turns;

pub(crate) use driver::Scheduler;
pub(crate) use grant::{Confirmed, Grant};
pub(crate) use hold::Hold;
pub(crate) use turns::{Turn, Turns};
