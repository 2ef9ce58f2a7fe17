//! N independent masters as one backend: the distributed lock of redis.io.

pub(crate) mod backend;
pub(crate) mod broadcast;
pub(crate) mod dates;
pub(crate) mod downgrade;
mod enrolment;
pub(crate) mod founders;
pub(crate) mod grant_table;
pub(crate) mod health_check;
pub(crate) mod late_release;
pub(crate) mod member;
pub(crate) mod odd_clocks;
pub(crate) mod other_clocks;
pub(crate) mod raise;
pub(crate) mod release_hints;
mod renewal;
pub(crate) mod restart_guard;
mod rules;
mod steps;
pub(crate) mod tally;
pub(crate) mod vote;

pub(crate) use backend::Quorum;
#[cfg(test)]
pub(crate) use member::{Member, NodeAdmission};
pub(crate) use restart_guard::RestartGuard;
pub(crate) use rules::{Rules, majority};
