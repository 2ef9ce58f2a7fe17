//! Which locks the current task holds: how a nested call finds the outer hold.
//!
//! Identity is the task, not the thread: the chain of holds is in place only while the body of a
//! locked call is polled, and moves between threads with it.

use std::sync::Arc;

use crate::renewal::Hold;

tokio::task_local! {
    static HELD: Arc<Link>;
}

/// One lock held by the task, and those it took before.
#[derive(Debug)]
pub(crate) struct Link {
    hold: Arc<Hold>,
    outer: Option<Arc<Link>>,
}

impl Link {
    /// A link to `hold`, on top of what the current task holds.
    pub(crate) fn nested(hold: Arc<Hold>) -> Arc<Self> {
        match HELD.try_with(Arc::clone) {
            Ok(outer) if outer.hold.id == hold.id => outer,
            outer => Arc::new(Self { hold, outer: outer.ok() }),
        }
    }

    /// Runs `step` as a part of the task that holds this link.
    pub(crate) fn enter<T>(self: &Arc<Self>, step: impl FnOnce() -> T) -> T {
        HELD.sync_scope(Arc::clone(self), step)
    }
}

/// The lock that the current task took last.
pub(crate) fn current() -> Option<Arc<Hold>> {
    HELD.try_with(|link| Arc::clone(&link.hold)).ok()
}

/// The current task's hold of a key of one client, if it has one that still holds. `name`: the key
/// without the client's prefix.
pub(crate) fn find(client: u64, name: &str) -> Option<Arc<Hold>> {
    HELD.try_with(|link| {
        let mut next = Some(link);
        while let Some(link) = next {
            let hold = &link.hold;
            if hold.client == client && hold.claim.key.name() == name {
                return (!hold.is_over()).then(|| Arc::clone(hold));
            }
            next = link.outer.as_ref();
        }
        None
    })
    .ok()
    .flatten()
}
