//! The arguments of the attribute, most of them known at compile time.

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::Duration;

use crate::client::Redlock;
use crate::error::LockError;
use crate::kind::Kind;
use crate::options::{StatedOptions, Wait};

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
