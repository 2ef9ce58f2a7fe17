//! How long to hold, how long to wait, how often to renew; checked once, then frozen.

use std::time::Duration;

use crate::error::LockError;

/// The shortest lease that leaves anything after the drift and stop margins.
pub(crate) const MIN_EXPIRE: Duration = Duration::from_millis(10);
/// The longest lease: a year. Longer is a mistake in the unit.
pub(crate) const MAX_EXPIRE: Duration = Duration::from_secs(365 * 24 * 3600);

/// How long to queue for a lock.
///
/// The bound covers everything: the queue of this process, connecting, and the commands. Where
/// Redis answers, one last attempt is made when the time is up. A call ends a quarter of a second
/// after that at the latest, however many keys it wants. One that does not wait has `reply_timeout`
/// for each attempt, and twice as much on N masters or with the restart guard; a call for several
/// keys has it for all of them together.
///
/// ```
/// use std::time::Duration;
/// use redlock::Wait;
///
/// let wait: Wait = Duration::from_secs(5).into();
/// assert_eq!(wait, Wait::AtMost(Duration::from_secs(5)));
/// assert_eq!(Wait::from(Duration::ZERO), Wait::Never);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wait {
    /// Wait at most this long, then fail with [`LockError::Timeout`]; with
    /// [`LockError::Unavailable`] if nobody could be asked, or callers took each other's votes on N
    /// masters all the time.
    AtMost(Duration),
    /// One attempt, no waiting. A second one where the first may have overtaken a release of this
    /// client, which is on its way. Some more where several callers may have split the votes of N
    /// masters: otherwise all of them would leave the lock to each other. They begin within a fifth
    /// of a second after the first answer; where servers are far, within twenty times as long as
    /// an attempt takes, which is two seconds at most.
    Never,
    /// Wait until the lock is free, however long it takes. The call fails with
    /// [`LockError::ExpireTooShort`] if the lock is granted, but three times or more too late for
    /// its `expire`.
    Forever,
}

impl From<Duration> for Wait {
    fn from(duration: Duration) -> Self {
        if duration.is_zero() { Self::Never } else { Self::AtMost(duration) }
    }
}

/// The options of one lock. They have been checked against each other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Policy {
    expire: Duration,
    wait: Wait,
    max_renew: Option<u32>,
    min_hold: Duration,
}

/// The options that a caller has stated. What is left out comes from the client, or is the default.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StatedOptions {
    pub(crate) expire: Option<Duration>,
    pub(crate) wait: Option<Wait>,
    pub(crate) max_renew: Option<u32>,
    pub(crate) min_hold: Option<Duration>,
}

impl StatedOptions {
    pub(crate) const NONE: Self =
        Self { expire: None, wait: None, max_renew: None, min_hold: None };
}

impl Policy {
    pub(crate) const DEFAULT: Self = Self {
        expire: Duration::from_secs(30),
        wait: Wait::AtMost(Duration::from_secs(5)),
        max_renew: None,
        min_hold: Duration::ZERO,
    };

    /// This policy with the values that are stated.
    ///
    /// # Errors
    /// [`LockError::Config`] when `expire` is outside 10 ms to 365 days, or `min_hold` longer.
    pub(crate) fn with(self, stated: StatedOptions) -> Result<Self, LockError> {
        if let Some(expire) = stated.expire {
            check_expire(expire)?;
        }
        let min_hold = stated.min_hold.map_or(self.min_hold, up_to_millis);
        if min_hold > MAX_EXPIRE {
            return Err(bad_min_hold(min_hold));
        }
        Ok(Self {
            expire: stated.expire.map_or(self.expire, whole_millis),
            wait: match stated.wait.unwrap_or(self.wait) {
                Wait::AtMost(limit) => limit.into(),
                other => other,
            },
            max_renew: stated.max_renew.or(self.max_renew),
            min_hold,
        })
    }

    pub(crate) fn expire(&self) -> Duration {
        self.expire
    }

    pub(crate) fn wait(&self) -> Wait {
        self.wait
    }

    /// For how long the lock stays taken at least; zero: until its holder lets go.
    pub(crate) fn min_hold(&self) -> Duration {
        self.min_hold
    }

    /// `None`: no limit.
    pub(crate) fn max_renew(&self) -> Option<u32> {
        self.max_renew
    }
}

/// Redis counts whole milliseconds; rounding down can only make our own deadline earlier.
fn whole_millis(expire: Duration) -> Duration {
    expire.saturating_sub(Duration::from_nanos(u64::from(expire.subsec_nanos() % 1_000_000)))
}

/// Rounding up can only keep a lock for longer.
pub(crate) fn up_to_millis(duration: Duration) -> Duration {
    let whole = whole_millis(duration);
    if whole == duration { whole } else { whole.saturating_add(Duration::from_millis(1)) }
}

fn check_expire(expire: Duration) -> Result<(), LockError> {
    if (MIN_EXPIRE..=MAX_EXPIRE).contains(&expire) { Ok(()) } else { Err(bad_expire(expire)) }
}

#[cold]
fn bad_expire(expire: Duration) -> LockError {
    LockError::config(if expire < MIN_EXPIRE {
        format!(
            "`expire` is {expire:?}, but a lease needs at least {MIN_EXPIRE:?}: a shorter one is \
             used up by the drift and stop margins before the body can begin"
        )
    } else {
        format!(
            "`expire` is {expire:?}, but a lease lasts 365 days at most; choose a short one, it \
             is renewed while the body runs"
        )
    })
}

#[cold]
fn bad_min_hold(min_hold: Duration) -> LockError {
    LockError::config(format!(
        "`min_hold` is {min_hold:?}, but a lock stays taken for 365 days at most: nobody can have \
         it before that, however early its holder is done"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(stated: StatedOptions) -> Result<Policy, LockError> {
        Policy::DEFAULT.with(stated)
    }

    fn with_expire(expire: Duration) -> Result<Policy, LockError> {
        with(StatedOptions { expire: Some(expire), ..StatedOptions::NONE })
    }

    #[test]
    fn values_left_out_keep_the_defaults() {
        let (wait, max_renew) = (Some(Wait::Never), Some(3));
        let policy = with(StatedOptions { wait, max_renew, ..StatedOptions::NONE }).unwrap();
        assert_eq!(policy.expire(), Duration::from_secs(30));
        assert_eq!(policy.wait(), Wait::Never);
        assert_eq!(policy.max_renew(), Some(3));
    }

    #[test]
    fn an_expire_that_cannot_work_is_refused_with_a_reason() {
        for bad in [Duration::ZERO, Duration::from_millis(9), MAX_EXPIRE + Duration::from_secs(1)] {
            let error = with_expire(bad).unwrap_err();
            assert!(matches!(error, LockError::Config { .. }), "{error}");
            assert!(error.to_string().contains("`expire`"), "{error}");
        }
    }

    #[test]
    fn the_shortest_and_the_longest_lease_are_leases() {
        for expire in [MIN_EXPIRE, MAX_EXPIRE] {
            assert_eq!(with_expire(expire).unwrap().expire(), expire);
        }
    }

    #[test]
    fn a_min_hold_is_a_year_at_most_and_never_cut() {
        let with =
            |min_hold| with(StatedOptions { min_hold: Some(min_hold), ..StatedOptions::NONE });
        assert_eq!(Policy::DEFAULT.min_hold(), Duration::ZERO);
        assert_eq!(with(Duration::from_nanos(1)).unwrap().min_hold(), Duration::from_millis(1));
        assert_eq!(with(MAX_EXPIRE).unwrap().min_hold(), MAX_EXPIRE);
        for bad in [MAX_EXPIRE + Duration::from_nanos(1), Duration::MAX] {
            let error = with(bad).unwrap_err();
            assert!(error.to_string().contains("`min_hold`"), "{error}");
        }
    }

    #[test]
    fn a_zero_wait_is_one_attempt_and_expire_is_cut_to_milliseconds() {
        let (odd, zero) = (Duration::from_micros(10_999), Wait::AtMost(Duration::ZERO));
        let (expire, wait) = (Some(odd), Some(zero));
        let policy = with(StatedOptions { expire, wait, ..StatedOptions::NONE }).unwrap();
        assert_eq!(policy.wait(), Wait::Never);
        assert_eq!(policy.expire(), Duration::from_millis(10));
    }
}
