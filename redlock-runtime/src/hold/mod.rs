//! Held locks: the record of each, the schedule of what is due, and the scheduler that renews them.

mod action;
mod alarm;
mod begin;
mod confirmed_lease;
mod further_keys;
mod granted;
mod holding_client;
mod ledger;
mod loss_listener;
mod offer;
mod record;
mod renewal_batch;
mod schedule;
mod scheduler;
mod tenure;
mod terms;
mod turns;

pub(crate) use begin::Begin;
pub(crate) use confirmed_lease::ConfirmedLease;
pub(crate) use further_keys::FurtherKeys;
pub(crate) use granted::Granted;
pub(crate) use holding_client::{HoldingClient, RENEWALS_IN_FLIGHT};
pub(crate) use loss_listener::LossListener;
pub(crate) use record::Hold;
pub(crate) use scheduler::Scheduler;
pub(crate) use tenure::{Leftovers, SMALL_RESERVE, Tenure};
pub(crate) use terms::Terms;
pub(crate) use turns::{Turn, Turns};
