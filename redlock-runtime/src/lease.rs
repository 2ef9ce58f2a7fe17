//! `Lease`: the read side of a held lock.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;

use super::fencing::FencingToken;
use super::state::{LeaseState, LostReason};
use crate::after_completion::after_completion;
use crate::body::HoldLink;
use crate::body::reentrancy::lookup;
use crate::error::LockError;
use crate::hold::Hold;
use crate::process::OfProcess;

/// The lease of a lock that is held: what it is called, how long it may be relied on, and when it
/// is lost. Cheap to clone; it does not keep the lock.
///
/// Inside of a function with `#[redis_lock]`, or of [`LockRequest::run`](crate::LockRequest::run),
/// [`Lease::current`] finds it without passing anything around:
///
/// ```
/// use redlock::{Lease, LockError};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlock::LockError> {
/// # let redlock = redlock::Redlock::builder().memory().build().await?;
/// async fn write_stock() -> Result<(), LockError> {
///     let lease = Lease::current().expect("called under a lock");
///     lease.check()?; // before a step that must not happen without the lock
///     println!("UPDATE stock SET .. WHERE fence = {}", lease.fencing_token());
///     Ok(())
/// }
/// redlock.lock("stock-42").run(write_stock()).await??;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Lease {
    hold: Arc<Hold>,
    /// The call that it is from.
    link: Option<Arc<HoldLink>>,
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("hold", &self.hold).finish_non_exhaustive()
    }
}

impl Lease {
    pub(crate) fn new(hold: Arc<Hold>) -> Self {
        Self { hold, link: None }
    }

    pub(crate) fn of_call(link: Arc<HoldLink>) -> Self {
        Self { hold: Arc::clone(link.hold()), link: Some(link) }
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        &self.hold
    }

    /// The lease of the lock that the current task took last, inside of a locked body.
    ///
    /// ```
    /// assert!(redlock::Lease::current().is_none()); // no lock here
    /// ```
    pub fn current() -> Option<Self> {
        lookup::current().map(Self::of_call)
    }

    /// The key, without the client's prefix. Of several keys, the first.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// let guard = redlock.lock("stock-42").acquire().await?;
    /// assert_eq!(guard.key(), "stock-42");
    /// # Ok(()) }
    /// ```
    pub fn key(&self) -> &str {
        self.hold.claim.key.name()
    }

    /// All keys of the lease, without the client's prefix: one, or those of
    /// [`lock_all`](crate::Redlock::lock_all), each once, in the order in which they are locked.
    /// [`key`](Self::key) is the first of them.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// let guard = redlock.lock_all(["acct-2", "acct-1", "acct-2"]).acquire().await?;
    /// assert_eq!(guard.keys(), ["acct-1", "acct-2"]);
    /// assert_eq!(guard.key(), "acct-1");
    /// # Ok(()) }
    /// ```
    pub fn keys(&self) -> &[String] {
        self.hold.key_names()
    }

    /// The key as it stands in Redis. Of several keys, the first.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// let guard = redlock.lock("stock-42").acquire().await?;
    /// assert_eq!(guard.redis_key(), "lock:stock-42"); // for `redis-cli GET`
    /// # Ok(()) }
    /// ```
    pub fn redis_key(&self) -> &str {
        self.hold.claim.key.redis_key()
    }

    /// The owner value that stands in the key. Of several keys, which have one each, that of the
    /// first.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let store = redlock::MemoryStore::new();
    /// # let redlock = redlock::Redlock::builder().memory_store(store.clone()).build().await?;
    /// let guard = redlock.lock("stock-42").acquire().await?;
    /// assert_eq!(store.owner("lock:stock-42").as_deref(), Some(guard.owner()));
    /// # Ok(()) }
    /// ```
    pub fn owner(&self) -> &str {
        self.hold.claim.owner.as_str()
    }

    /// The fencing token of this hold: a number that grows from hold to hold of a key. Readers
    /// beside each other may have the same one on N masters. Calls that re-enter the lock have the
    /// same one.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// let guard = redlock.lock("stock-42").acquire().await?;
    /// let first = guard.fencing_token();
    /// guard.release().await?;
    /// assert!(redlock.lock("stock-42").acquire().await?.fencing_token() > first);
    /// # Ok(()) }
    /// ```
    pub fn fencing_token(&self) -> FencingToken {
        self.hold.fencing_token
    }

    /// Whether the lease holds, as far as this process knows.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// use redlock::LeaseState;
    /// let guard = redlock.lock("stock-42").acquire().await?;
    /// let lease = guard.lease().clone();
    /// assert_eq!(lease.state(), LeaseState::Held);
    /// guard.release().await?;
    /// assert_eq!(lease.state(), LeaseState::Lost);
    /// # Ok(()) }
    /// ```
    pub fn state(&self) -> LeaseState {
        self.hold.state()
    }

    /// How long the body may go on if the lease is not renewed; zero once it is over.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// use std::time::Duration;
    /// let guard = redlock.lock("stock-42").expire(Duration::from_secs(60)).acquire().await?;
    /// assert!(guard.remaining() < Duration::from_secs(60)); // a margin before the lease ends
    /// # Ok(()) }
    /// ```
    pub fn remaining(&self) -> Duration {
        self.hold.remaining()
    }

    /// How many renewals have been confirmed.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// let guard = redlock.lock("stock-42").acquire().await?;
    /// assert_eq!(guard.renewals(), 0); // the first comes after two thirds of `expire`
    /// # Ok(()) }
    /// ```
    pub fn renewals(&self) -> u32 {
        self.hold.renewals()
    }

    /// How long the call waited for the lock.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// use std::time::Duration;
    /// let guard = redlock.lock("stock-42").wait(Duration::from_secs(60)).acquire().await?;
    /// assert!(guard.waited() < Duration::from_secs(60));
    /// # Ok(()) }
    /// ```
    pub fn waited(&self) -> Duration {
        self.hold.waited()
    }

    /// May another step be taken? Reads a clock, asks nobody.
    ///
    /// # Errors
    /// [`LockError::Lost`] once the lease is lost, or released ([`LostReason::Released`]);
    /// [`LockError::ForkedProcess`] in a child of the process that holds the lock.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// let guard = redlock.lock("stock-42").acquire().await?;
    /// let lease = guard.lease().clone();
    /// lease.check()?; // before a step that must not happen without the lock
    /// guard.release().await?;
    /// assert!(lease.check().is_err()); // let go of
    /// # Ok(()) }
    /// ```
    pub fn check(&self) -> Result<(), LockError> {
        self.hold.check()
    }

    /// Resolves when the lease has ended, with the reason: lost, or released
    /// ([`LostReason::Released`]).
    ///
    /// # Cancel safety
    /// Safe: it only waits.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// let guard = redlock.lock("stock-42").acquire().await?;
    /// let lease = guard.lease().clone();
    /// guard.release().await?;
    /// assert_eq!(lease.lost().await, redlock::LostReason::Released);
    /// # Ok(()) }
    /// ```
    pub async fn lost(&self) -> LostReason {
        OfProcess::new(self.hold.client.process, Box::pin(self.hold.over())).await;
        self.hold.lost().unwrap_or(LostReason::Released)
    }

    /// Carries the lease into another task: inside of `future`, [`Lease::current`] finds it and a
    /// nested call of the same key re-enters it. Calls that re-enter one hold take turns, also from
    /// several tasks: each waits, for its `wait` at most, until those before it are done, with the
    /// calls inside of them. Other
    /// locks of the task that makes the scope do not come along. The lock does not wait for the
    /// task inside: join it before the body ends, or it works on without the lock. A nested call
    /// that begins after the lock was lost or released is a [`LockError::Lost`]. For a closure
    /// there is [`within`](Self::within).
    ///
    /// ```
    /// use redlock::Lease;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// let outer = redlock.lock("stock-42").run(async {
    ///     let lease = Lease::current().unwrap();
    ///     let part = tokio::spawn(lease.scope(async { Lease::current().is_some() }));
    ///     part.await.unwrap()
    /// });
    /// assert!(outer.await?);
    /// # Ok(()) }
    /// ```
    pub fn scope<F: Future>(&self, future: F) -> Scoped<F> {
        Scoped { future: Some(future), lease: self.clone(), link: None }
    }

    /// Runs `step` under the lease, on a thread without asynchronous code: the twin of
    /// [`scope`](Self::scope) for a closure, as of `spawn_blocking`. Inside of it
    /// [`Lease::current`] finds the lease, and
    /// [`acquire_blocking`](crate::LockRequest::acquire_blocking) of the same key re-enters it; it
    /// would wait for its own task otherwise. The lock does not wait for the step: join it before
    /// the body ends, or it works on without the lock.
    ///
    /// Nothing stops the step when the lease is lost, nor keeps it from beginning after that: call
    /// [`check`](Self::check) before each part that must not happen without the lock.
    ///
    /// ```
    /// use redlock::Lease;
    /// use tokio::task::spawn_blocking;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// let client = redlock.clone();
    /// let outer = redlock.lock("stock-42").run(async move {
    ///     let lease = Lease::current().unwrap();
    ///     let step = move || {
    ///         lease.check()?; // before a part that must not happen without the lock
    ///         lease.within(|| client.lock("stock-42").acquire_blocking().map(drop))
    ///     };
    ///     spawn_blocking(step).await.unwrap()
    /// });
    /// outer.await?
    /// # }
    /// ```
    pub fn within<T>(&self, step: impl FnOnce() -> T) -> T {
        self.nested().run_within(step)
    }

    /// The link of a future that the current task polls under this lease.
    pub(crate) fn nested(&self) -> Arc<HoldLink> {
        HoldLink::nested(Arc::clone(&self.hold), self.link.as_ref())
    }
}

pin_project! {
    /// A future inside of a lease's scope, from [`Lease::scope`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// let guard = redlock.lock("stock-42").acquire().await?;
    /// let scoped: redlock::Scoped<_> = guard.lease().scope(async { 1 });
    /// assert_eq!(scoped.await, 1);
    /// # Ok(()) }
    /// ```
    #[derive(Debug)]
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct Scoped<F> {
        // `None`: it is done.
        #[pin]
        future: Option<F>,
        lease: Lease,
        // Made with the first poll, by the task that polls.
        link: Option<Arc<HoldLink>>,
    }

    impl<F> PinnedDrop for Scoped<F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            if let (Some(link), true) = (this.link, this.future.is_some()) {
                link.run_within(|| this.future.set(None));
            }
        }
    }
}

impl<F: Future> Future for Scoped<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let mut this = self.project();
        let link = this.link.get_or_insert_with(|| this.lease.nested());
        link.run_within(|| {
            let Some(future) = this.future.as_mut().as_pin_mut() else {
                after_completion("a scope")
            };
            let polled = future.poll(cx);
            if polled.is_ready() {
                this.future.set(None);
            }
            polled
        })
    }
}
