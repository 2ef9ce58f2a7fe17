//! The calls inside of one hold: a tree, whose siblings take turns.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{HoldLink, ReentrantCall, Relation};
use crate::hold::{Turn, Turns};

impl HoldLink {
    /// The call to which this link belongs. It names no link between them: a lease that is passed
    /// from task to task would make a long chain.
    pub(super) fn same_call(self: &Arc<Self>) -> Relation {
        Relation::Of(Arc::clone(self.base()))
    }

    /// The link that its call began with.
    pub(super) fn base(self: &Arc<Self>) -> &Arc<Self> {
        match &self.call {
            Relation::Of(link) => link,
            Relation::First | Relation::Reentry(_) => self,
        }
    }

    /// Is this the call of `other`, or one inside of it, however deep?
    pub(super) fn is_inside(self: &Arc<Self>, other: &Self) -> bool {
        self.calls().any(|call| call.is_same_call(other))
    }

    fn is_same_call(&self, other: &Self) -> bool {
        std::ptr::eq(self.children(), other.children())
    }

    /// This call, its parent, and so on.
    fn calls(self: &Arc<Self>) -> impl Iterator<Item = &Arc<Self>> {
        std::iter::successors(Some(self), |link| Some(&link.reentry()?.parent))
    }

    /// The innermost of these that is under way, and its turn. The call that took the lock needs
    /// none.
    pub(super) fn under_way(self: &Arc<Self>) -> (&Arc<Self>, Option<Arc<Turn>>) {
        let mut link = self;
        while let Some(call) = link.reentry() {
            if let Some(turn) = call.turn() {
                return (link, Some(turn));
            }
            link = &call.parent;
        }
        (link, None)
    }

    /// `None`: the call that took the lock.
    pub(super) fn reentry(&self) -> Option<&ReentrantCall> {
        match &self.call {
            Relation::First => None,
            Relation::Reentry(call) => Some(call),
            Relation::Of(link) => link.reentry(),
        }
    }

    pub(super) fn children(&self) -> &Turns {
        self.reentry().map_or(&self.hold.turns, |call| &call.children)
    }
}

impl ReentrantCall {
    /// Its turn. `None`: the call is over, also while calls inside of it go on.
    fn turn(&self) -> Option<Arc<Turn>> {
        if self.is_over.load(Ordering::Acquire) { None } else { self.turn.upgrade() }
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
