//! One lock, before it is taken.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::acquire::Order;
use crate::body::reentrancy::lookup;
use crate::engine::Engine;
use crate::error::LockError;
use crate::guard::LockGuard;
use crate::key::LockKey;
use crate::kind::Kind;
use crate::options::{Policy, StatedOptions, Wait};
use crate::{acquire, telemetry};

mod candidacy;

/// A lock that may be acquired, from [`lock`](crate::Redlock::lock). What is not set here comes
/// from the client.
///
/// ```
/// use std::time::Duration;
/// use redlock::Wait;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlock::LockError> {
/// # let redlock = redlock::Redlock::builder().memory().build().await?;
/// let request = redlock
///     .lock("nightly-report")
///     .expire(Duration::from_secs(60))
///     .wait(Wait::Never)
///     .max_renew(30);
/// let rows = request.run(async { 17 }).await?;
/// # assert_eq!(rows, 17);
/// # Ok(()) }
/// ```
#[must_use = "nothing is locked until the request is acquired or run"]
#[derive(Clone)]
pub struct LockRequest {
    engine: Arc<Engine>,
    policy: Policy,
    key: Result<LockKey, LockError>,
    /// The further keys of `lock_all`, in the order of keys; `None`: of `lock`, which has one key.
    further: Option<Vec<LockKey>>,
    stated: StatedOptions,
    label: &'static str,
    kind: Result<Kind, LockError>,
    /// The campaign of a candidate: how many shutdowns of the client had begun before it. `None`:
    /// no candidate calls.
    campaign: Option<u64>,
}

impl fmt::Debug for LockRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, further, label, kind, .. } = self;
        let StatedOptions { expire, wait, max_renew, min_hold } = &self.stated;
        let mut shown = f.debug_struct("LockRequest");
        shown.field("key", key);
        if let Some(further) = further {
            shown.field("further", further);
        }
        shown
            .field("expire", expire)
            .field("wait", wait)
            .field("max_renew", max_renew)
            .field("min_hold", min_hold)
            .field("label", label)
            .field("kind", kind)
            .finish_non_exhaustive()
    }
}

impl LockRequest {
    pub(super) fn new(
        engine: &Arc<Engine>,
        policy: Policy,
        key: Result<LockKey, LockError>,
    ) -> Self {
        Self {
            engine: Arc::clone(engine),
            policy,
            key,
            further: None,
            stated: StatedOptions::NONE,
            label: telemetry::PROGRAMMATIC,
            kind: Ok(Kind::Exclusive),
            campaign: None,
        }
    }

    pub(super) fn of_several(
        engine: &Arc<Engine>,
        policy: Policy,
        keys: Result<(LockKey, Vec<LockKey>), LockError>,
    ) -> Self {
        match keys {
            Ok((first, further)) => {
                Self { further: Some(further), ..Self::new(engine, policy, Ok(first)) }
            }
            Err(error) => Self::new(engine, policy, Err(error)),
        }
    }

    /// The lease: how long the lock outlives a holder that died. 10 ms to 365 days, cut to whole
    /// milliseconds; other values are a [`LockError::Config`] of [`acquire`](Self::acquire).
    /// Default: the client's, which is 30 s if it does not say otherwise.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// use std::time::Duration;
    /// let request = redlock.lock("stock-42").expire(Duration::from_secs(60));
    /// let guard = request.acquire().await?;
    /// assert!(guard.remaining() > Duration::from_secs(30));
    /// # Ok(()) }
    /// ```
    pub fn expire(mut self, expire: Duration) -> Self {
        self.stated.expire = Some(expire);
        self
    }

    /// How long to queue for the lock, connecting included: a `Duration`, of which zero is one
    /// attempt and the longest is not limited, [`Wait::Never`] or [`Wait::Forever`]. Default: the
    /// client's, which is 5 s if it does not say otherwise.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// let held = redlock.lock("stock-42").acquire().await?;
    /// let request = redlock.lock("stock-42").wait(redlock::Wait::Never);
    /// assert!(request.acquire().await.unwrap_err().is_busy());
    /// # drop(held);
    /// # Ok(()) }
    /// ```
    pub fn wait(mut self, wait: impl Into<Wait>) -> Self {
        self.stated.wait = Some(wait.into());
        self
    }

    /// How many times the lease is renewed before it is lost on purpose: 0, never renewed, to
    /// `u32::MAX`. Default: the client's, which is no limit if it does not say otherwise.
    ///
    /// The longest hold is `max_renew * 2/3 * expire + 0.94 * expire`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// let guard = redlock.lock("stock-42").max_renew(2).acquire().await?;
    /// assert_eq!(guard.lost().await, redlock::LostReason::RenewalLimit); // after about 68 s
    /// assert_eq!(guard.renewals(), 2);
    /// # Ok(()) }
    /// ```
    pub fn max_renew(mut self, max_renew: u32) -> Self {
        self.stated.max_renew = Some(max_renew);
        self
    }

    /// For how long the lock stays taken at least, counted from its grant, however early its holder
    /// lets go of it, and also when the process is gone: a job that many machines start at about
    /// the same time runs once. Zero, the default: until it is released. At most 365 days, rounded
    /// up to whole milliseconds; longer is a [`LockError::Config`] of [`acquire`](Self::acquire).
    ///
    /// Redis keeps the lock by itself, by its own clock: its lease is as long as `expire`, or as
    /// what is left of `min_hold` if that is longer. Renewals, `max_renew` and the stop of the body
    /// go by `expire` as ever. A release before the end answers
    /// [`Released`](crate::Released::Released): the guard is gone, [`held`](crate::Redlock::held)
    /// does not show the lock, and it is free when `min_hold` is over. A call that re-enters a lock
    /// of its task leaves it as it is.
    ///
    /// It is for a plain lock: with [`read`](Self::read) or [`permits`](Self::permits), and for
    /// several keys ([`lock_all`](crate::Redlock::lock_all)), it is a [`LockError::Config`] of
    /// [`acquire`](Self::acquire).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// use std::time::Duration;
    /// let job = || redlock.lock("nightly").min_hold(Duration::from_secs(60));
    /// job().run(async { println!("done in a moment") }).await?;
    /// assert!(job().try_acquire().await?.is_none()); // a machine whose clock is behind
    /// tokio::time::sleep(Duration::from_secs(60)).await;
    /// assert!(job().try_acquire().await?.is_some());
    /// # Ok(()) }
    /// ```
    pub fn min_hold(mut self, min_hold: Duration) -> Self {
        self.stated.min_hold = Some(min_hold);
        self
    }

    /// A read lock: any number of readers hold it at the same time, and never beside a writer,
    /// which is whoever holds the plain lock of the key. Each reader has a lease and a fencing
    /// token of its own. Where a server keeps a queue, readers and writers are served in the order
    /// of their arrival, so that neither starves; elsewhere a writer keeps out later readers.
    ///
    /// Inside of a write lock of the same task, a read lock is a re-entry. A write lock inside of a
    /// read lock would wait for itself, and is a [`LockError::AlreadyHeld`]; take the write lock
    /// first, and [`downgrade`](LockGuard::downgrade) it. A second read guard of a task or thread
    /// waits behind any writer that waits for the first one: a dead-lock. Calls that are nested
    /// through the attribute, [`run`](Self::run) or [`protect`](LockGuard::protect) re-enter.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// let one = redlock.lock("config").read().acquire().await?;
    /// let two = redlock.lock("config").read().acquire().await?;
    /// assert!(redlock.lock("config").try_acquire().await?.is_none()); // a writer
    /// # drop((one, two));
    /// # Ok(()) }
    /// ```
    pub fn read(mut self) -> Self {
        self.kind = Kind::chosen(self.kind, Ok(Kind::Read));
        self
    }

    /// A permit: at most `permits` holders at the same time, 1 to `u32::MAX`, each with a lease and
    /// a fencing token of its own. The permit of a holder that died comes back when its lease is
    /// over. Who asks brings its own number: it is admitted while fewer than that many permits are
    /// held, and nobody waits who came before.
    ///
    /// Zero is a [`LockError::Config`] of [`acquire`](Self::acquire). So is a permit that is a
    /// [read lock](Self::read) as well, and a permit over N masters, where it would not be sound:
    /// three holders of two permits fit on five nodes, each with a majority; one master with
    /// [`restart_guard`](crate::RedlockBuilder::restart_guard) refuses it as well.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// let one = redlock.lock("import").permits(2).acquire().await?;
    /// let two = redlock.lock("import").permits(2).acquire().await?;
    /// assert!(redlock.lock("import").permits(2).try_acquire().await?.is_none());
    /// # drop((one, two));
    /// # Ok(()) }
    /// ```
    pub fn permits(mut self, permits: u32) -> Self {
        self.kind = Kind::chosen(self.kind, Kind::permits(permits));
        self
    }

    /// What metrics, spans and events call this lock, in the place of the attribute's template:
    /// `import`, not the key of one import. The default is `(programmatic)`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// let guard = redlock.lock("import-2026-11-22").label("import").acquire().await?;
    /// # drop(guard);
    /// # Ok(()) }
    /// ```
    pub fn label(mut self, label: &'static str) -> Self {
        self.label = label;
        self
    }

    /// Takes the lock, waiting for it if need be. From here on it is renewed in the background.
    ///
    /// In a task that holds the lock already, inside of a locked body, the outer hold is
    /// re-entered, with the same fencing token: the guard is there as soon as no other call inside
    /// of that hold is at it, and its drop releases nothing. Several keys
    /// ([`lock_all`](crate::Redlock::lock_all)) are re-entered where one outer hold has them all. A
    /// call inside of a hold that has ended takes no lock of its own: it re-enters a hold further
    /// out that goes on, or is told [`LockError::Lost`].
    ///
    /// # Errors
    /// [`LockError::Timeout`] when somebody else held the lock for the whole `wait`,
    /// [`LockError::Unavailable`] when Redis could not be asked, or has lost one of several keys
    /// while others were waited for, [`LockError::TooManyWaiters`], [`LockError::InvalidKey`],
    /// [`LockError::Config`], [`LockError::ShuttingDown`] once
    /// [`shutdown`](crate::Redlock::shutdown) or [`drain`](crate::Redlock::drain) was called, if
    /// the call is not made inside of a hold of this client; [`LockError::TurnTaken`] when this
    /// task holds the lock, and another call inside of that hold was not done within `wait`, or
    /// [`LockError::Lost`] when that hold was lost or released; [`LockError::AlreadyHeld`] when
    /// this task holds some of several keys, but not all, or holds the lock in a form inside of
    /// which this one cannot run: a read lock, a larger number of permits, or a permit where this
    /// is none and the reverse. [`LockError::ExpireTooShort`] when the answers took longer than the
    /// lease, or this task was not polled for so long, [`LockError::ForkedProcess`] in a child of
    /// the process that made the client, [`LockError::BackgroundThread`] when that thread cannot be
    /// started, or died meanwhile.
    ///
    /// # Cancel safety
    /// Safe: dropping the future gives up. A lock that was granted meanwhile is released, and a
    /// command without an answer is cleaned up afterwards.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// let guard = redlock.lock("stock-42").acquire().await?; // `let _ = ..` would release at once
    /// println!("work that needs stock 42, with token {}", guard.fencing_token());
    /// guard.release().await?;
    /// # Ok(()) }
    /// ```
    pub async fn acquire(self) -> Result<LockGuard, LockError> {
        let (policy, kind) = self.options().map_err(|error| error.about(self.name()))?;
        let key = self.key?;
        let engine = &self.engine;
        engine.check_process()?;
        let is_leader = self.campaign.is_some();
        let names = std::iter::once(&key).chain(self.further.iter().flatten()).map(LockKey::name);
        let held = lookup::find_all(engine.id, names.clone())?;
        // A candidate wants a lock of its own. It comes here only while it holds none of the keys:
        // `check_not_held` has seen to that, in `lead.rs`.
        if held.is_none() && !is_leader {
            lookup::check_not_ended(engine.id, names)?;
        }
        if let Some(held) = held {
            held.check_kind(kind, key.name())?;
            let reentry = match held.enter_now() {
                Some(reentry) => reentry,
                None => held.wait_for_turn(engine, policy.wait(), key.name()).await?,
            };
            // Nothing may have noticed yet that the time of the lease is up.
            reentry.link().hold().check()?;
            return Ok(LockGuard::reentered(reentry, self.label));
        }
        let order = Order {
            template: self.label,
            key,
            kind,
            policy,
            skips_busy: false,
            shutdowns_before: self.campaign.unwrap_or_else(|| engine.shutdowns().count()),
            is_leader,
        };
        let is_of_lock_all = self.further.is_some();
        let further = self.further.unwrap_or_default();
        let ownership = acquire::start_all(engine, order, further).await?;
        Ok(LockGuard::new(ownership, is_of_lock_all))
    }

    /// Takes the lock if it is free, with one attempt, and a second one where that may have
    /// overtaken a release of this client ([`Wait::Never`]); `None`: somebody else holds it.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), without [`LockError::Timeout`] and [`LockError::TurnTaken`].
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// let held = redlock.lock("nightly").acquire().await?;
    /// assert!(redlock.lock("nightly").try_acquire().await?.is_none());
    /// held.release().await?;
    /// assert!(redlock.lock("nightly").try_acquire().await?.is_some());
    /// # Ok(()) }
    /// ```
    pub async fn try_acquire(self) -> Result<Option<LockGuard>, LockError> {
        match self.wait(Wait::Never).acquire().await {
            Ok(guard) => Ok(Some(guard)),
            Err(LockError::Timeout { .. } | LockError::TurnTaken { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Takes the lock, runs `future` under it, and releases it: what `#[redis_lock]` does to a
    /// function. `future` is dropped, not polled once more, when the lease is lost or used up.
    ///
    /// It returns when the release was answered, as with `release = "await"`: a round trip later
    /// than the attribute by default, and up to twice the `reply_timeout` later where the server
    /// does not answer.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), and [`LockError::Lost`] when `future` was stopped.
    ///
    /// # Cancel safety
    /// Dropping it drops `future`, and releases the lock in the background.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// let left = redlock.lock("stock-42").run(async { 10 - 1 }).await?;
    /// assert_eq!(left, 9);
    /// # Ok(()) }
    /// ```
    pub async fn run<F: Future>(self, future: F) -> Result<F::Output, LockError> {
        let guard = self.acquire().await?;
        let output = guard.protect(future).await?;
        guard.finish().await;
        Ok(output)
    }

    fn options(&self) -> Result<(Policy, Kind), LockError> {
        let policy = self.policy.with(self.stated)?;
        let kind = self.engine.check_kind(self.kind.clone()?, policy.min_hold())?;
        if self.further.is_some() {
            kind.check_several(policy.min_hold())?;
        }
        Ok((policy, kind))
    }
}
