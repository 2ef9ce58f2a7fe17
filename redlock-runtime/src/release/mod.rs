//! Release: the handle whose drop frees the lock, the job that does it, and the wait for all jobs.

mod flush;
mod job;
mod ownership;
mod pending;

pub(crate) use job::clean_up;
pub(crate) use ownership::{Answer, Ownership};
pub(crate) use pending::Pending;
