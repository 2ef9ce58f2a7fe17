//! The arguments of the attribute, most of them known at compile time.

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::Duration;

use crate::client::Redlock;
use crate::error::LockError;
use crate::kind::Kind;
use crate::options::{Policy, StatedOptions, Wait};

/// The arguments of one `#[redis_lock]`; the client supplies what is left out.
#[must_use]
#[derive(Debug, Clone, Copy)]
pub struct Spec {
    pub(crate) template: &'static str,
    pub(crate) stated: StatedOptions,
    pub(crate) is_reentrant: bool,
    pub(crate) awaits_release: bool,
    pub(crate) skips_busy: bool,
    pub(crate) mode: Mode,
}

/// The kind of the lock, as it was written.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Mode {
    Write,
    Read,
    Permits(u32),
}

impl Spec {
    /// `template` labels spans and metrics.
    pub const fn new(template: &'static str) -> Self {
        Self {
            template,
            stated: StatedOptions::NONE,
            is_reentrant: true,
            awaits_release: false,
            skips_busy: false,
            mode: Mode::Write,
        }
    }

    /// `expire = ..`
    pub const fn expire(mut self, expire: Duration) -> Self {
        self.stated.expire = Some(expire);
        self
    }

    /// `wait = ..`
    pub const fn wait(mut self, wait: Wait) -> Self {
        self.stated.wait = Some(wait);
        self
    }

    /// `max_renew = ..`
    pub const fn max_renew(mut self, max_renew: u32) -> Self {
        self.stated.max_renew = Some(max_renew);
        self
    }

    /// `min_hold = ..`
    pub const fn min_hold(mut self, min_hold: Duration) -> Self {
        self.stated.min_hold = Some(min_hold);
        self
    }

    /// `reentrant = false`
    pub const fn not_reentrant(mut self) -> Self {
        self.is_reentrant = false;
        self
    }

    /// `mode = "read"`
    pub const fn read(mut self) -> Self {
        self.mode = Mode::Read;
        self
    }

    /// `permits = ..`
    pub const fn permits(mut self, permits: u32) -> Self {
        self.mode = Mode::Permits(permits);
        self
    }

    pub(crate) fn kind(&self) -> Result<Kind, LockError> {
        match self.mode {
            Mode::Write => Ok(Kind::Exclusive),
            Mode::Read => Ok(Kind::Read),
            Mode::Permits(permits) => Kind::permits(permits),
        }
    }

    /// The options of the call; `defaults`: those of its client.
    pub(crate) fn policy(&self, defaults: Policy) -> Result<Policy, LockError> {
        let policy = defaults.with(self.stated)?;
        if self.skips_busy && policy.wait() == Wait::Forever {
            return Err(LockError::config(
                "`on_busy = \"skip\"` and a `wait` without an end exclude each other: such a call \
                 never finds the lock busy; write how long it waits before it skips, as in \
                 `wait = \"0s\"`, or give the client another default",
            ));
        }
        Ok(policy)
    }

    /// `release = "await"`
    pub const fn awaited_release(mut self) -> Self {
        self.awaits_release = true;
        self
    }

    /// `on_busy = "skip"`
    pub const fn skips_busy(mut self) -> Self {
        self.skips_busy = true;
        self
    }
}

/// `wait = <expression>`
pub fn wait<W: Into<Wait>>(wait: W) -> Wait {
    wait.into()
}

/// Which client acquires the lock.
#[derive(Debug)]
pub struct Client(Option<Redlock>);

// A future that is built by hand holds its client, where the plain future holds none. A panic of
// the body leaves nothing half done in a client, which other tasks use, too.
impl UnwindSafe for Client {}
impl RefUnwindSafe for Client {}

impl Client {
    pub(super) fn take(&mut self) -> Self {
        Self(self.0.take())
    }

    pub(crate) fn resolve(self) -> Result<Redlock, LockError> {
        self.0.map_or_else(crate::global::of_call, Ok)
    }
}

/// Without a `client` argument: the global client, looked up when the call begins.
pub fn global() -> Client {
    Client(None)
}

/// `client = <expression>`
pub fn client(redlock: &Redlock) -> Client {
    Client(Some(redlock.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the client says how long calls wait, the attribute cannot see it.
    #[test]
    fn a_call_that_waits_without_an_end_skips_nothing() {
        let endless = StatedOptions { wait: Some(Wait::Forever), ..StatedOptions::NONE };
        let endless = Policy::DEFAULT.with(endless).unwrap();
        let spec = Spec::new("k");
        let error = spec.skips_busy().policy(endless).unwrap_err();
        assert!(matches!(error, LockError::Config { .. }), "{error}");
        assert!(error.to_string().contains("`on_busy = \"skip\"`"), "{error}");
        assert!(spec.policy(endless).is_ok());
        assert!(spec.skips_busy().wait(Wait::Never).policy(endless).is_ok());
        assert!(spec.skips_busy().policy(Policy::DEFAULT).is_ok());
    }
}
