//! On what terms a caller wants a lock, and holds it.

use std::time::Duration;

use crate::clock::Moment;

/// What a caller wants.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    /// The template of the key: the label of metrics.
    pub(crate) template: &'static str,
    /// What renewals and the stop go by.
    pub(crate) expire: Duration,
    /// For how long the lock stays taken at least; zero: until its holder lets go.
    pub(crate) min_hold: Duration,
    pub(crate) max_renew: Option<u32>,
    /// When the call began.
    pub(crate) started: Moment,
    /// How many shutdowns of its client had begun before. `None`: the call is made inside of a hold
    /// of the client, and no shutdown ends it before that hold is over (`acquire::inside`).
    pub(crate) shutdowns_before: Option<u64>,
    /// Is the lock that of a leader, who steps down when the renewals are used up?
    pub(crate) is_leader: bool,
}

impl Terms {
    /// For how long the server shall keep the lock without a renewal: a process that dies must not
    /// free it before `min_hold` is over.
    pub(crate) fn lease(&self) -> Duration {
        self.expire.max(self.min_hold)
    }
}

#[cfg(test)]
impl Terms {
    /// What a call for the key `k` wants that began at `started`, with default options.
    pub(crate) const fn of_plain_call(expire: Duration, started: Moment) -> Self {
        Self {
            template: "k",
            expire,
            min_hold: Duration::ZERO,
            max_renew: None,
            started,
            shutdowns_before: Some(0),
            is_leader: false,
        }
    }
}
