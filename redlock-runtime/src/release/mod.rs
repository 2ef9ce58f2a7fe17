//! Release: the handle whose drop frees the lock, the job that does it, and the wait for all jobs.

mod answer;
mod clean_up;
mod flight;
mod flush;
mod job;
mod ownership;
mod pending;

pub(crate) use answer::Answer;
pub(crate) use clean_up::{clean_up, leave};
pub(crate) use flush::{Unsent, attend_end};
pub(crate) use ownership::{Ownership, free};
pub(crate) use pending::Pending;
