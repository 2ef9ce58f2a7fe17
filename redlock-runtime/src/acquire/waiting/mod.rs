//! Waiting for a lock that another owner holds: one task per key polls for all callers of this
//! process, by one of two strategies.

mod by_attempts;
mod context;
mod deliver;
mod fairness;
mod in_queue;
mod local_holder;
mod poller;
mod release_hint;
mod strategy;

pub(super) use poller::start_poller;
