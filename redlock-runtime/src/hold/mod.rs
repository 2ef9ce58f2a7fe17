//! Held locks: the record of each, the schedule of what is due, and the scheduler that renews them.

pub(crate) mod alarm;
pub(crate) mod in_flight;
pub(crate) mod ledger;
pub(crate) mod new_hold;
pub(crate) mod offer;
pub(crate) mod record;
pub(crate) mod schedule;
pub(crate) mod scheduler;
pub(crate) mod step;
pub(crate) mod tenure;
pub(crate) mod turns;

pub(crate) use new_hold::{ConfirmedLease, NewHold};
pub(crate) use offer::Untaken;
pub(crate) use record::Hold;
pub(crate) use scheduler::Scheduler;
pub(crate) use step::Step;
pub(crate) use tenure::{Leftovers, RESERVE, SMALL_RESERVE, Tenure};
pub(crate) use turns::{Turn, Turns};
