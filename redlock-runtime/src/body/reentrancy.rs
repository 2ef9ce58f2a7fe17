//! Which locks the current task holds: how a nested call finds the outer hold.
//!
//! Identity is the task, not the thread: a link to a hold is in place only while the body of a
//! locked call is polled, and moves between threads with it. Bodies are polled inside of each other
//! as their calls are nested. A body may also poll other tasks, such as those of a `LocalSet` or of
//! a runtime of its own: each link knows its task, and other tasks do not see it.
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
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::task;

use crate::engine::Engine;
use crate::error::LockError;
use crate::hold::{Hold, Turn, Turns};
use crate::kind::Kind;
use crate::options::Wait;

thread_local! {
    /// The links of the bodies that are being polled on this thread, the innermost last.
    static ENTERED: RefCell<Vec<OfTask>> = const { RefCell::new(Vec::new()) };
}

/// A link, and the task that polls its body; `None`: a future outside of tokio's tasks, such as
/// that of `block_on`.
type OfTask = (Option<task::Id>, Arc<HoldLink>);

/// A link to a lock that a task holds while it polls a body.
#[derive(Debug)]
pub(crate) struct HoldLink {
    hold: Arc<Hold>,
    call: Relation,
}

/// To which call inside of its hold a link belongs. The children of a call take turns.
#[derive(Debug)]
enum Relation {
    /// The call that took the lock.
    First,
    Reentry(ReentrantCall),
    /// The call of another link.
    Of(Arc<HoldLink>),
}

/// A call that re-entered its hold.
#[derive(Debug)]
struct ReentrantCall {
    parent: Arc<HoldLink>,
    children: Turns,
    /// Its turn is over.
    is_over: AtomicBool,
}

impl HoldLink {
    /// A link to `hold` for a body that the current task polls. It belongs to the call of `origin`,
    /// or to the innermost call of the task inside of `hold` if that is the same or a deeper one.
    pub(crate) fn nested(hold: Arc<Hold>, origin: Option<&Arc<Self>>) -> Arc<Self> {
        let innermost = innermost(|link| link.hold.id == hold.id);
        let has_entered =
            |origin: &&Arc<Self>| innermost.as_ref().is_some_and(|link| link.is_inside(origin));
        let live = |origin| Self::live_parent(origin).unwrap_or(origin);
        let origin = origin.map(live).filter(|origin| !has_entered(origin));
        let call = origin.or(innermost.as_ref()).map_or(Relation::First, Self::same_call);
        Arc::new(Self { hold, call })
    }

    /// The call to which this link belongs. It names no link between them: a lease that is passed
    /// from task to task would make a long chain.
    fn same_call(self: &Arc<Self>) -> Relation {
        Relation::Of(Arc::clone(self.base()))
    }

    /// The link that its call began with.
    fn base(self: &Arc<Self>) -> &Arc<Self> {
        match &self.call {
            Relation::Of(link) => link,
            Relation::First | Relation::Reentry(_) => self,
        }
    }

    /// Is this the call of `other`, or one inside of it, however deep?
    fn is_inside(self: &Arc<Self>, other: &Self) -> bool {
        self.calls().any(|call| call.is_same_call(other))
    }

    fn is_same_call(&self, other: &Self) -> bool {
        std::ptr::eq(self.children(), other.children())
    }

    /// This call, its parent, and so on.
    fn calls(self: &Arc<Self>) -> impl Iterator<Item = &Arc<Self>> {
        std::iter::successors(Some(self), |link| Some(&link.reentry()?.parent))
    }

    /// The innermost of these that is under way, with all those around it. `None`: this one.
    fn live_parent(self: &Arc<Self>) -> Option<&Arc<Self>> {
        let is_over = |call: &&ReentrantCall| call.is_over.load(Ordering::Acquire);
        let outermost = self.calls().filter_map(|link| link.reentry()).filter(is_over).last();
        outermost.map(|over| &over.parent)
    }

    /// `None`: the call that took the lock.
    fn reentry(&self) -> Option<&ReentrantCall> {
        match &self.call {
            Relation::First => None,
            Relation::Reentry(call) => Some(call),
            Relation::Of(link) => link.reentry(),
        }
    }

    fn children(&self) -> &Turns {
        self.reentry().map_or(&self.hold.turns, |call| &call.children)
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        &self.hold
    }

    /// Runs `step` as a part of the body that holds this link.
    pub(crate) fn run_within<T>(self: &Arc<Self>, step: impl FnOnce() -> T) -> T {
        let _entered = Entered::new(Arc::clone(self));
        step()
    }
}

/// In place while a step runs. At the end of a thread, when its locals are gone, a step runs
/// without it; a call inside of that step does not find what its task holds.
struct Entered {
    is_in_place: bool,
}

impl Entered {
    fn new(link: Arc<HoldLink>) -> Self {
        let link = (task::try_id(), link);
        Self { is_in_place: ENTERED.try_with(|links| links.borrow_mut().push(link)).is_ok() }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        if self.is_in_place {
            let left = ENTERED.try_with(|links| links.borrow_mut().pop());
            // Outside of the borrow: this may be the last reference.
            drop(left);
        }
    }
}

/// The innermost link of the current task that is the wanted one.
fn innermost(is_it: impl Fn(&HoldLink) -> bool) -> Option<Arc<HoldLink>> {
    with_links(|links| links.iter().map(|(_, link)| link).rfind(|link| is_it(link)).cloned())
        .flatten()
}

/// Looks at the links of the current task, the innermost last. `None`: the thread is about to end.
fn with_links<T>(look: impl FnOnce(&[OfTask]) -> T) -> Option<T> {
    let task = task::try_id();
    let own = |links: &[OfTask]| links.iter().rev().take_while(|(of, _)| *of == task).count();
    ENTERED
        .try_with(|links| {
            let links = links.borrow();
            look(&links[links.len() - own(&links)..])
        })
        .ok()
}

/// The link to the lock that the current task took last.
pub(crate) fn current() -> Option<Arc<HoldLink>> {
    innermost(|_| true)
}

/// The holds of the current task, the one taken last first; one may come several times.
pub(crate) fn holds() -> Vec<Arc<Hold>> {
    with_links(|links| links.iter().rev().map(|(_, link)| Arc::clone(&link.hold)).collect())
        .unwrap_or_default()
}

/// The current task's hold of a key of one client, if its lease still holds. `name`: the key
/// without the client's prefix.
pub(crate) fn find(client: u64, name: &str) -> Option<Held> {
    let is_it = |link: &&Arc<HoldLink>| link.hold.client.id == client && link.hold.has_key(name);
    // A body may have begun outside of the calls in which it is polled now.
    let link = with_links(|links| {
        let own = links.iter().rev().map(|(_, link)| link).filter(is_it);
        own.reduce(|inner, outer| if outer.is_inside(inner) { outer } else { inner }).cloned()
    });
    let link = link.flatten().filter(|link| !link.hold.is_over())?;
    let live_parent = link.live_parent().cloned();
    Some(Held { parent: live_parent.unwrap_or(link) })
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

impl Drop for Reentry {
    /// Before its turn ends.
    fn drop(&mut self) {
        if let Some(call) = self.link.reentry() {
            call.is_over.store(true, Ordering::Release);
        }
    }
}

impl Held {
    /// Fails for a call of a kind that cannot run inside of the hold, and would wait for it. `key`:
    /// what the call wants.
    pub(crate) fn check_kind(&self, kind: Kind, key: &str) -> Result<(), LockError> {
        if kind.may_run_inside(self.parent.hold.claim.kind) {
            return Ok(());
        }
        Err(LockError::AlreadyHeld { key: key.to_owned(), with: Vec::new() })
    }

    /// Re-enters if no sibling is inside of the hold.
    pub(crate) fn enter_now(&self) -> Option<Reentry> {
        self.parent.children().try_take().map(|turn| self.reenter(turn))
    }

    /// Re-enters once the siblings that came before are done. The timer runs on the executor, so
    /// that neither a sibling that is not polled nor a caller without timers prolongs the wait.
    pub(crate) fn wait_for_turn(self, engine: &Arc<Engine>, wait: Wait, key: &str) -> Entering {
        let (engine, key) = (Arc::clone(engine), key.to_owned());
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
                    return Poll::Ready(Err(LockError::ShuttingDown { key: key.clone() }));
                }
                if time_up.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                let (key, waited) = (key.clone(), clock.now().since(started));
                Poll::Ready(Err(LockError::TurnTaken { key, waited }))
            })
            .await
        })))
    }

    fn reenter(&self, turn: Turn) -> Reentry {
        let hold = Arc::clone(&self.parent.hold);
        let call = ReentrantCall {
            parent: Arc::clone(self.parent.base()),
            children: Turns::default(),
            is_over: AtomicBool::new(false),
        };
        Reentry { link: Arc::new(HoldLink { hold, call: Relation::Reentry(call) }), _turn: turn }
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
