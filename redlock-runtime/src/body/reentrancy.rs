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
//! waits for the child. Where the parent does not, its turn lasts until the children are done that
//! began, or began to wait, before its end.

use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};

use tokio::task;

use crate::error::LockError;
use crate::hold::{Hold, Turn, Turns};

mod call_tree;
pub(crate) mod entering;

thread_local! {
    /// The links of the bodies that are being polled on this thread, the innermost last.
    static ENTERED: RefCell<Vec<OfTask>> = const { RefCell::new(Vec::new()) };
}

/// A link, and the task that polls its body; `None`: a future outside of tokio's tasks, such as
/// that of `block_on`.
type OfTask = (Option<task::Id>, Arc<HoldLink>);

/// A link to a lock that a task holds while it polls a body.
pub(crate) struct HoldLink {
    hold: Arc<Hold>,
    call: Relation,
}

/// To which call inside of its hold a link belongs. The children of a call take turns.
enum Relation {
    /// The call that took the lock.
    First,
    Reentry(ReentrantCall),
    /// The call of another link.
    Of(Arc<HoldLink>),
}

/// A call that re-entered its hold.
struct ReentrantCall {
    /// `None` only while it is dropped.
    parent: Option<Arc<HoldLink>>,
    /// How many calls are around it.
    depth: usize,
    children: Turns,
    /// Its own turn. The call keeps it, and so do the calls inside of it, but no link does.
    turn: Weak<Turn>,
    /// The call itself is done.
    is_over: AtomicBool,
}

impl fmt::Debug for HoldLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HoldLink").field(&self.hold).finish()
    }
}

impl HoldLink {
    /// A link to `hold` for a body that the current task polls. It belongs to the call of `origin`,
    /// or to the innermost call of the task inside of `hold` if that is the same or a deeper one.
    pub(crate) fn nested(hold: Arc<Hold>, origin: Option<&Arc<Self>>) -> Arc<Self> {
        let innermost = innermost(|link| link.hold.id == hold.id);
        let has_entered =
            |origin: &&Arc<Self>| innermost.as_ref().is_some_and(|link| link.is_inside(origin));
        let origin = origin.map(|origin| origin.under_way().0);
        let origin = origin.filter(|origin| !has_entered(origin));
        let call = origin.or(innermost.as_ref()).map_or(Relation::First, Self::same_call);
        Arc::new(Self { hold, call })
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        &self.hold
    }

    /// Is it a link to a hold of this key? `name`: the key without the client's prefix.
    fn is_to(&self, client: u64, name: &str) -> bool {
        self.hold.client.id == client && self.hold.has_key(name)
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

/// Is the current task inside of a hold of this client that goes on?
pub(crate) fn is_inside(client: u64) -> bool {
    let is_it = |hold: &Hold| hold.client.id == client && !hold.is_over();
    with_links(|links| links.iter().any(|(_, link)| is_it(&link.hold))).unwrap_or_default()
}

/// The current task's hold of a key of one client, if its lease still holds: the innermost one that
/// has not ended. `name`: the key without the client's prefix.
pub(crate) fn find(client: u64, name: &str) -> Option<Reenterable> {
    let is_it = |link: &&Arc<HoldLink>| link.is_to(client, name) && !link.hold.is_over();
    let found = with_links(|links| {
        let mut own = links.iter().rev().map(|(_, link)| link).filter(is_it);
        let innermost = own.next()?;
        // A body may have begun outside of the calls in which it is polled now.
        let (link, is_only_hold) = own.fold((innermost, true), |(inner, is_only), outer| {
            let is_same = outer.hold.id == innermost.hold.id;
            (if outer.is_inside(inner) { outer } else { inner }, is_only && is_same)
        });
        Some((Arc::clone(link), is_only_hold))
    });
    let (link, is_only_hold) = found.flatten()?;
    // Nothing may have noticed yet that its time is up. A hold further out is looked for then.
    if !is_only_hold && matches!(link.hold.check(), Err(LockError::Lost { .. })) {
        return find(client, name);
    }
    let (parent, turn) = link.under_way();
    Some(Reenterable { parent: Arc::clone(parent), turn })
}

/// The same for several keys, which have to be those of one hold. A task that holds some of them
/// only must not wait for the others: it would not take them in the order of keys.
pub(crate) fn find_all<'a>(
    client: u64,
    names: impl Iterator<Item = &'a str> + Clone,
) -> Result<Option<Reenterable>, LockError> {
    let held = names.clone().find_map(|name| Some((name, find(client, name)?)));
    let Some((name, held)) = held else { return Ok(None) };
    if names.clone().all(|name| held.parent.hold.has_key(name)) {
        return Ok(Some(held));
    }
    let with = names.filter(|other| *other != name).map(str::to_owned).collect();
    Err(LockError::AlreadyHeld { key: name.to_owned(), with })
}

/// Fails for a call that would re-enter a hold of one of these keys if that hold has ended: the
/// call must not take a lock of its own, as its code counts on the outer one. To be asked where the
/// task holds none of the keys.
pub(crate) fn check_not_ended<'a>(
    client: u64,
    mut names: impl Iterator<Item = &'a str>,
) -> Result<(), LockError> {
    let link = names.find_map(|name| innermost(|link| link.is_to(client, name)));
    link.map_or(Ok(()), |link| link.hold.check())
}

/// The hold that a call finds when it wants a lock which its task holds already.
#[derive(Debug)]
pub(crate) struct Reenterable {
    parent: Arc<HoldLink>,
    /// The turn of the parent.
    turn: Option<Arc<Turn>>,
}
