//! Waiting for a lock that somebody else holds.

pub(crate) mod deliver;
pub(crate) mod fairness;
pub(crate) mod fifo;
pub(crate) mod local_holder;
pub(crate) mod poller;
pub(crate) mod release_hint;
