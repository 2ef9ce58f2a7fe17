//! Which locks the current task holds: how a nested call finds the outer hold.
//!
//! Identity is the task, not the thread: the chain of holds is in place only while the body of a
//! locked call is polled, and moves between threads with it.
//!
//! The calls inside of one hold form a tree. A call that re-enters the hold is a child of the
//! innermost such call of its own task. A guard that re-entered is such a call too, and a future in
//! the scope of a lease belongs to the call that has the lease. Children of one parent take turns,
//! so siblings never run side by side. A child does not wait for its parent, because the parent
//! waits for the child.

use std::cell::RefCell;
use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::engine::Engine;
use crate::error::LockError;
use crate::hold::{Hold, Turn, Turns};
use crate::kind::Kind;
use crate::options::Wait;

thread_local! {
    /// The innermost link of the task that is being polled on this thread.
    static HELD: RefCell<Option<Arc<HoldLink>>> = const { RefCell::new(None) };
}

/// One lock held by the task, and the locks that the task took before.
#[derive(Debug)]
pub(crate) struct HoldLink {
    hold: Arc<Hold>,
    call: Relation,
    outer: Option<Arc<HoldLink>>,
}

/// To which call inside of its hold a link belongs. The children of a call take turns.
#[derive(Debug)]
enum Relation {
    /// The call that took the lock.
    First,
    /// A call that re-entered, and the turns of its children.
    Reentry(Turns),
    /// The call of another link.
    Of(Arc<HoldLink>),
}

impl HoldLink {
    /// A link to `hold`, on top of what the current task holds. If the task is not inside of
    /// `hold`, the link belongs to the same call as `origin`.
    pub(crate) fn nested(hold: Arc<Hold>, origin: Option<&Arc<HoldLink>>) -> Arc<Self> {
        let top = current();
        if let Some(top) = top.as_ref().filter(|top| top.hold.id == hold.id) {
            return Arc::clone(top);
        }
        let innermost = chain(top.as_ref()).find(|link| link.hold.id == hold.id);
        let call = innermost.or(origin).map_or(Relation::First, Self::same_call);
        Arc::new(Self { hold, call, outer: top })
    }

    /// The call to which this link belongs. It names no link between them: a lease that is passed
    /// from task to task would make a long chain.
    fn same_call(self: &Arc<Self>) -> Relation {
        match &self.call {
            Relation::Of(link) => Relation::Of(Arc::clone(link)),
            Relation::First | Relation::Reentry(_) => Relation::Of(Arc::clone(self)),
        }
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        &self.hold
    }

    /// Runs `step` as a part of the task that holds this link.
    pub(crate) fn run_within<T>(self: &Arc<Self>, step: impl FnOnce() -> T) -> T {
        let _entered = Entered::new(Arc::clone(self));
        step()
    }

    fn children(&self) -> &Turns {
        match &self.call {
            Relation::First => &self.hold.turns,
            Relation::Reentry(children) => children,
            Relation::Of(link) => link.children(),
        }
    }
}

/// In place while a step runs. At the end of a thread, when its locals are gone, a step runs
/// without it; a call inside of that step does not find what its task holds.
struct Entered {
    before: Option<Arc<HoldLink>>,
}

impl Entered {
    fn new(link: Arc<HoldLink>) -> Self {
        Self { before: replace(Some(link)) }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        drop(replace(self.before.take()));
    }
}

/// Returns the replaced link for the caller to drop: it may be the last reference.
fn replace(link: Option<Arc<HoldLink>>) -> Option<Arc<HoldLink>> {
    HELD.try_with(|held| held.replace(link)).ok().flatten()
}

/// The links of a task, the innermost first.
fn chain(top: Option<&Arc<HoldLink>>) -> impl Iterator<Item = &Arc<HoldLink>> {
    std::iter::successors(top, |link| link.outer.as_ref())
}

/// The lock that the current task took last.
pub(crate) fn current() -> Option<Arc<HoldLink>> {
    HELD.try_with(|held| held.borrow().clone()).ok().flatten()
}

/// The holds of a task, the one taken last first; one may come several times.
pub(crate) fn holds(top: &Arc<HoldLink>) -> impl Iterator<Item = &Arc<Hold>> {
    chain(Some(top)).map(|link| &link.hold)
}

/// The current task's hold of a key of one client, if its lease still holds. `name`: the key
/// without the client's prefix.
pub(crate) fn find(client: u64, name: &str) -> Option<Held> {
    let top = current()?;
    let is_it = |link: &&Arc<HoldLink>| link.hold.client.id == client && link.hold.has_key(name);
    let parent = chain(Some(&top)).find(is_it).filter(|link| !link.hold.is_over())?;
    Some(Held { parent: Arc::clone(parent), top })
}

/// The same for several keys, which have to be those of one hold. A task that holds some of them
/// only must not wait for the others: it would not take them in the order of keys.
pub(crate) fn find_all<'a>(
    client: u64,
    names: impl Iterator<Item = &'a str> + Clone,
) -> Result<Option<Held>, LockError> {
    let held = names.clone().find_map(|name| Some((name, find(client, name)?)));
    let Some((name, held)) = held else { return Ok(None) };
    if names.clone().all(|name| held.parent.hold.has_key(name)) {
        return Ok(Some(held));
    }
    let with = names.filter(|other| *other != name).map(str::to_owned).collect();
    Err(LockError::AlreadyHeld { key: name.to_owned(), with })
}

/// The hold that a call finds when it wants a lock which its task holds already.
#[derive(Debug)]
pub(crate) struct Held {
    parent: Arc<HoldLink>,
    top: Arc<HoldLink>,
}

/// A call that re-entered a hold, until it is done.
#[derive(Debug)]
pub(crate) struct Reentry {
    link: Arc<HoldLink>,
    _turn: Turn,
}

/// A call that waits until its siblings are done.
pub(crate) struct Entering(Pin<Box<dyn Future<Output = Result<Reentry, LockError>> + Send + Sync>>);

impl Future for Entering {
    type Output = Result<Reentry, LockError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx)
    }
}

impl fmt::Debug for Entering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entering").finish_non_exhaustive()
    }
}

impl Reentry {
    pub(crate) fn link(&self) -> &Arc<HoldLink> {
        &self.link
    }
}

impl Held {
    /// Fails for a call of a kind that cannot run inside of the hold, and would wait for it.
    pub(crate) fn check_kind(&self, kind: Kind) -> Result<(), LockError> {
        let claim = &self.parent.hold.claim;
        if kind.may_run_inside(claim.kind) {
            return Ok(());
        }
        Err(LockError::AlreadyHeld { key: claim.key.name().to_owned(), with: Vec::new() })
    }

    /// Re-enters if no sibling is inside of the hold.
    pub(crate) fn enter_now(&self) -> Option<Reentry> {
        self.parent.children().try_take().map(|turn| self.reenter(turn))
    }

    /// Re-enters once the siblings that came before are done. The timer runs on the executor, so
    /// that neither a sibling that is not polled nor a caller without timers prolongs the wait.
    pub(crate) fn wait_for_turn(self, engine: &Arc<Engine>, wait: Wait) -> Entering {
        let engine = Arc::clone(engine);
        Entering(Box::pin(tokio::task::unconstrained(async move {
            let (executor, clock) = (engine.executor(), engine.clock());
            let started = clock.now();
            let hold = Arc::clone(&self.parent.hold);
            let mut turn = pin!(self.parent.children().take());
            let (mut over, mut time_up) = (pin!(hold.over()), pin!(executor.alarm(limit(wait))?));
            let mut shutdown = pin!(engine.shutdowns().begins());
            poll_fn(|cx| {
                if let Poll::Ready(Some(turn)) = turn.as_mut().poll(cx) {
                    return Poll::Ready(Ok(self.reenter(turn)));
                }
                if let (Poll::Ready(()), Err(ended)) = (over.as_mut().poll(cx), hold.check()) {
                    return Poll::Ready(Err(ended));
                }
                if shutdown.as_mut().poll(cx).is_ready() {
                    let key = hold.claim.key.name().to_owned();
                    return Poll::Ready(Err(LockError::ShuttingDown { key }));
                }
                if time_up.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                let key = hold.claim.key.name().to_owned();
                Poll::Ready(Err(LockError::TurnTaken { key, waited: clock.now().since(started) }))
            })
            .await
        })))
    }

    fn reenter(&self, turn: Turn) -> Reentry {
        // The new link hides the link of its parent: recursion makes no long chain.
        let is_hidden = Arc::ptr_eq(&self.parent, &self.top);
        let outer = if is_hidden { self.top.outer.clone() } else { Some(Arc::clone(&self.top)) };
        let (hold, call) = (Arc::clone(&self.parent.hold), Relation::Reentry(Turns::default()));
        Reentry { link: Arc::new(HoldLink { hold, call, outer }), _turn: turn }
    }
}

/// When the time of a call is up that waits for its turn; `None`: at once.
fn limit(wait: Wait) -> Option<Duration> {
    match wait {
        Wait::AtMost(limit) => Some(limit),
        Wait::Never => None,
        Wait::Forever => Some(Duration::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::fake::fake;

    /// As for a lease that each task passes on to the next one.
    #[tokio::test(start_paused = true)]
    async fn links_that_are_made_of_each_other_are_no_chain() {
        let (redlock, _fake) = fake();
        let guard = redlock.lock("k").acquire().await.unwrap();
        let link = |origin| HoldLink::nested(Arc::clone(guard.lease().hold()), origin);
        let first = link(None);
        let second = link(Some(&first));
        let gone = Arc::downgrade(&second);
        let third = link(Some(&second));
        drop(second);
        assert!(gone.upgrade().is_none());
        let turn = first.children().try_take();
        assert!(turn.is_some() && third.children().try_take().is_none(), "the turns of one call");
    }
}
