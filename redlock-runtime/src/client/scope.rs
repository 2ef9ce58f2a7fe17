//! A client that is the global one for a future.

use std::cell::RefCell;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tokio::task;

use super::redlock::Redlock;
use crate::after_completion::after_completion;

thread_local! {
    /// The innermost scope that is being polled on this thread.
    static CLIENT: RefCell<Option<OfTask>> = const { RefCell::new(None) };
}

/// The client of a scope, and the task that polls it: a scope may also poll other tasks, which do
/// not see it, such as those of a `LocalSet`. `None`: a future outside of tokio's tasks.
type OfTask = (Option<task::Id>, Redlock);

/// The client of the innermost scope here, if there is one.
pub(crate) fn in_scope() -> Option<Redlock> {
    let client = CLIENT.try_with(|client| client.borrow().clone()).ok().flatten();
    client.filter(|(of, _)| *of == task::try_id()).map(|(_, client)| client)
}

/// In place while a scope is polled or dropped. At the end of a thread, when its locals are gone,
/// there is no scope.
struct Entered {
    before: Option<OfTask>,
}

impl Entered {
    fn new(redlock: &Redlock) -> Self {
        Self { before: replace(Some((task::try_id(), redlock.clone()))) }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        drop(replace(self.before.take()));
    }
}

/// Returns the replaced client for the caller to drop: it may be the last reference.
fn replace(client: Option<OfTask>) -> Option<OfTask> {
    CLIENT.try_with(|current| current.replace(client)).ok().flatten()
}

impl Redlock {
    /// Makes this client the global one for `future` and all that it calls: functions with
    /// `#[redis_lock]`, and [`global`](crate::global). Other tasks do not see it, so that tests of
    /// functions on the global client run side by side, each with a client of its own; no global
    /// client needs to be initialised.
    ///
    /// A call looks for its client when it is polled for the first time, not when its future is
    /// made: a future that is made in here and first polled outside has the client that it finds
    /// outside, and a call that was first polled in here keeps its client. Of scopes inside of each
    /// other the innermost counts. Synchronous code and destructors inside of the future see it,
    /// too.
    ///
    /// **What is spawned does not inherit it**: a task, a thread, a `spawn_blocking` closure. Give
    /// a spawned future a scope of its own:
    ///
    /// ```
    /// use redlock::{LockError, Redlock, redis_lock};
    ///
    /// #[redis_lock(key = "billing-<customer>")]
    /// async fn bill(customer: u32) -> Result<u32, LockError> {
    ///     Ok(customer)
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let redlock = Redlock::builder().memory().build().await?;
    /// let both = redlock.scope(async {
    ///     let here = redlock::global()?; // the client of the scope
    ///     let other = tokio::spawn(here.scope(bill(8)));
    ///     Ok::<_, Box<dyn std::error::Error>>((bill(7).await?, other.await??))
    /// });
    /// assert_eq!(both.await?, (7, 8));
    /// assert_eq!(bill(7).await, Err(LockError::NotInitialized)); // out of scope
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    /// That of `future`, which is dropped inside of the scope.
    pub fn scope<F: Future>(&self, future: F) -> ClientScope<F> {
        ClientScope { future: Some(future), redlock: self.clone() }
    }
}

pin_project! {
    /// A future for which a client is the global one, from [`Redlock::scope`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// # let redlock = redlock::Redlock::builder().memory().build().await?;
    /// let scoped: redlock::ClientScope<_> = redlock.scope(async { redlock::global().is_ok() });
    /// assert!(scoped.await);
    /// # Ok(()) }
    /// ```
    #[must_use = "futures do nothing unless you `.await` or poll them"]
    pub struct ClientScope<F> {
        // `None`: it is done.
        #[pin]
        future: Option<F>,
        redlock: Redlock,
    }

    impl<F> PinnedDrop for ClientScope<F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            if this.future.is_some() {
                let _entered = Entered::new(this.redlock);
                this.future.set(None);
            }
        }
    }
}

impl<F> fmt::Debug for ClientScope<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientScope").field("redlock", &self.redlock).finish_non_exhaustive()
    }
}

impl<F: Future> Future for ClientScope<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let mut this = self.project();
        let _entered = Entered::new(this.redlock);
        let Some(future) = this.future.as_mut().as_pin_mut() else { after_completion("a scope") };
        let polled = future.poll(cx);
        if polled.is_ready() {
            this.future.set(None);
        }
        polled
    }
}
