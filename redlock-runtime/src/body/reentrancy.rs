//! Which locks the current task holds: how a nested call finds the outer hold.
//!
//! Identity is the task, not the thread: a link to a hold is in place only while the body of a
//! locked call is polled, and moves between threads with it. Bodies are polled inside of each other
//! as their calls are nested. A body may also poll other tasks, such as those of a `LocalSet` or of
//! a runtime of its own: each link knows its task, and other tasks do not see it. Executors other
//! than tokio's give their tasks no identity: what such an executor polls inside of a body counts
//! as a part of that body.
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

use crate::hold::{Hold, Turn, Turns};

mod call_tree;
pub(crate) mod entering;
pub(crate) mod lookup;

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
    /// The link of the call that took the lock of `hold`.
    pub(crate) fn new(hold: Arc<Hold>) -> Arc<Self> {
        Arc::new(Self { hold, call: Relation::First })
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
