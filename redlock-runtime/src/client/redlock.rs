//! `Redlock`: a client for the locks of one prefix on one backend.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::held::HeldLock;
use super::request::LockRequest;
use crate::engine::Engine;
use crate::key;
use crate::key::LockKey;
use crate::local_queue::Shutdown;
use crate::options::Policy;

/// A client: takes locks, keeps them alive, releases them.
///
/// Cheap to clone; clones share everything. Most programs have one, made by [`init`](crate::init)
/// at startup. Locks of the same key exclude each other across all clients, processes and machines
/// that use the same server and prefix.
///
/// ```
/// use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlock::LockError> {
/// let redlock = redlock::Redlock::builder().memory().build().await?;
///
/// let guard = redlock.lock("stock-42").expire(Duration::from_secs(10)).acquire().await?;
/// // read, compute, write
/// guard.release().await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Redlock {
    inner: Arc<Inner>,
}

struct Inner {
    engine: Arc<Engine>,
    prefix: String,
    policy: Policy,
}

impl Redlock {
    pub(crate) fn new(engine: Arc<Engine>, prefix: String, policy: Policy) -> Self {
        Self { inner: Arc::new(Inner { engine, prefix, policy }) }
    }

    /// A lock by its key, without the prefix: `"stock-42"`. Nothing happens until it is acquired.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// let guard = redlock.lock("stock-42").acquire().await?;
    /// assert_eq!(guard.key(), "stock-42");
    /// # Ok(()) }
    /// ```
    pub fn lock(&self, key: impl AsRef<str>) -> LockRequest {
        let Inner { engine, prefix, policy } = &*self.inner;
        LockRequest::new(engine, *policy, LockKey::new(prefix, key.as_ref()))
    }

    /// Several locks at once, all or none of them: one [`LockRequest`], one guard, one lease. Each
    /// key is locked once, however often it is named. Nothing happens until it is acquired.
    ///
    /// Calls that lock their keys with `lock_all` never wait for each other in a circle, in any
    /// order of names: all clients take them in one order, that of the bytes of the keys as
    /// they stand in Redis. Each key is waited for in its ordinary queue, everything within one
    /// `wait`; keys that were had already are held meanwhile, and let go of if the call fails or is
    /// dropped.
    ///
    /// The fencing token is larger than any that was granted for one of these keys before, and each
    /// later one of any of them is larger still. When one key is lost the lease of all is over; the
    /// others are released as soon as the body was stopped, or the guard dropped.
    ///
    /// Up to 256 keys; none at all, and more, are a [`LockError::Config`](crate::LockError::Config)
    /// of [`acquire`](LockRequest::acquire). So are [`read`](LockRequest::read),
    /// [`permits`](LockRequest::permits) and [`min_hold`](LockRequest::min_hold), before anything
    /// is sent: they are exclusive locks, free when they are released. It is an error of
    /// [`downgrade`](crate::LockGuard::downgrade), which releases all keys. All this holds also
    /// where the keys turn out to be one. Readers and permits of one of the keys are waited for as
    /// any holder.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// let guard = redlock.lock_all(["acct-2", "acct-1"]).acquire().await?;
    /// assert_eq!(guard.keys(), ["acct-1", "acct-2"]);
    /// assert!(redlock.lock("acct-2").try_acquire().await?.is_none());
    /// guard.release().await?; // both
    /// # Ok(()) }
    /// ```
    pub fn lock_all(&self, keys: impl IntoIterator<Item = impl AsRef<str>>) -> LockRequest {
        let Inner { engine, prefix, policy } = &*self.inner;
        LockRequest::of_several(engine, *policy, key::in_order(prefix, keys))
    }

    /// The locks that this client holds now, oldest first: for operators, and for tests that want
    /// to see that nothing is left.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// let guard = redlock.lock("stock-42").acquire().await?;
    /// assert_eq!(redlock.held()[0].key(), "stock-42");
    /// drop(guard);
    /// assert!(redlock.held().is_empty());
    /// # Ok(()) }
    /// ```
    pub fn held(&self) -> Vec<HeldLock> {
        if self.engine().check_process().is_err() {
            return Vec::new();
        }
        self.engine().held().iter().map(|hold| HeldLock::of(hold)).collect()
    }

    /// Ends the waiting for locks, except for calls inside of a hold, and waits until every release
    /// that was handed to the background has reached Redis, for at most `within`. Returns how many
    /// commands are still pending then; those locks end with their leases. Releases that failed
    /// before are sent again at once. [`drain`](Self::drain) waits for the holders as well.
    ///
    /// Calls that wait for a lock of this client fail with
    /// [`ShuttingDown`](crate::LockError::ShuttingDown) at once; one whose command is on its way to
    /// the server does so when that is answered, within `reply_timeout`, or within twice that time
    /// on N masters and with the restart guard. A call that sent its command by itself, as nobody
    /// else in its process wanted the lock, hears of the answer when it is polled: one that is not
    /// polled is waited for until `within` is over. So do calls that ask for a lock before this
    /// returns. None of them takes a lock meanwhile: one that is granted a lock all the same gives
    /// it back, without its `min_hold` and without running its body, and that release is waited
    /// for. So is a call that waited for its lock, was granted it before, and has not been polled
    /// since: for a second at most, after which its lock is taken back.
    ///
    /// Holders finish: their locks stay held and are renewed. A call that is made inside of a hold
    /// of this client is served as long as that hold goes on: a body may re-enter its lock, wait
    /// for further ones, and take them. Once the hold is over, such a call ends as other calls do.
    /// One that waits for several keys counts as a pending command meanwhile. (Inside of a hold is
    /// what runs in a locked function, [`run`](LockRequest::run),
    /// [`protect`](crate::LockGuard::protect), [`Lease::scope`](crate::Lease::scope) or
    /// [`Lease::within`](crate::Lease::within), and not what runs beside a guard.) Leaders
    /// ([`lead`](LockRequest::lead)) resign, and their release is waited for.
    ///
    /// Call it as the last thing before the process ends. Without it, the end of `main` waits by
    /// itself, while answers come: for half a second without any, and for two seconds in all
    /// (pauses of the whole machine not counted); on musl targets it does not wait. A call that
    /// begins after this has returned is served as any other: stop what makes calls first.
    ///
    /// # Cancel safety
    /// Safe: those who waited have been told, and releases go on.
    ///
    /// ```
    /// use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// drop(redlock.lock("stock-42").acquire().await?);
    /// assert_eq!(redlock.shutdown(Duration::from_secs(1)).await, 0);
    /// # Ok(()) }
    /// ```
    pub async fn shutdown(&self, within: Duration) -> usize {
        if self.engine().check_process().is_err() {
            return 0;
        }
        let pending = self.engine().pending.clone();
        let settled = async move { pending.settled().await };
        let (_shutdown, is_settled) = self.refuse_calls_until(settled, within).await;
        // The count may have risen again: a holder has begun its release since.
        if is_settled { 0 } else { self.engine().pending.count() }
    }

    /// Lets the holders finish: does what [`shutdown`](Self::shutdown) does, and also waits until
    /// no lock of this client is held, for at most `within`. Returns one number: the locks that are
    /// held still and the commands that are pending, added up; 0: all is done. A lock that was lost
    /// counts until its body or its guard has ended: code that blocks goes on after the loss.
    ///
    /// While it waits, new calls fail with [`ShuttingDown`](crate::LockError::ShuttingDown), as
    /// calls that wait do, and leaders resign. Bodies that run go on, and may take what they need
    /// to come to their end: calls inside of a hold are served. A guard that nothing drops is
    /// waited for in vain, and so is the body in which this is called. What a body has started
    /// elsewhere, such as a spawned task, is not waited for.
    ///
    /// Call it when the program accepts no more work, before `main` returns: what still runs then
    /// is dropped with its runtime, in the middle of its work. `docs/deploying.md` has a recipe. A
    /// call that begins after this has returned is served as any other. In a child of the process
    /// that made the client it returns 0 at once: the locks are those of the parent.
    ///
    /// # Cancel safety
    /// Safe: those who waited have been told, and calls are served again.
    ///
    /// ```
    /// use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// let (begins, begun) = tokio::sync::oneshot::channel();
    /// let job = redlock.lock("stock-42").run(async move {
    ///     begins.send(()).unwrap();
    ///     tokio::time::sleep(Duration::from_millis(20)).await;
    ///     17
    /// });
    /// let job = tokio::spawn(job);
    /// begun.await.unwrap();
    /// assert_eq!(redlock.drain(Duration::from_secs(20)).await, 0);
    /// assert_eq!(job.await.unwrap()?, 17); // it came to its end
    /// # Ok(()) }
    /// ```
    pub async fn drain(&self, within: Duration) -> usize {
        if self.engine().check_process().is_err() {
            return 0;
        }
        let pending = self.engine().pending.clone();
        let drained = async move { pending.drained().await };
        let (_shutdown, _) = self.refuse_calls_until(drained, within).await;
        self.engine().pending.commands_and_locks()
    }

    /// Refuses calls that are not made inside of a hold, until the returned value is dropped.
    /// Returns when `settled` has come, after `within` at the latest, and whether it has.
    async fn refuse_calls_until(
        &self,
        settled: impl Future<Output = ()> + Send + 'static,
        within: Duration,
    ) -> (Shutdown, bool) {
        let shutdown = self.engine().shut_down();
        // On the executor of the client: the caller may have no timer, and the pollers that the
        // shutdown has woken there leave their queues first, which counts as pending.
        let waits = async move { timeout(within, settled).await.is_ok() };
        let is_settled = self.engine().executor().run("a shutdown", waits).await.unwrap_or(false);
        (shutdown, is_settled)
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.inner.engine
    }

    pub(crate) fn policy(&self) -> Policy {
        self.inner.policy
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.inner.prefix
    }
}

impl fmt::Debug for Redlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redlock")
            .field("backend", &self.engine().backend)
            .field("prefix", &self.inner.prefix)
            .field("client_name", &self.engine().client.name())
            .finish_non_exhaustive()
    }
}
