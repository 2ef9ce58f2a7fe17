//! The calls inside of one hold: a tree, whose siblings take turns.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{HoldLink, ReentrantCall, Relation, innermost};
use crate::hold::{Hold, Turn, Turns};

impl HoldLink {
    /// Links a body that the current task polls to `hold`. The link belongs to the call of
    /// `origin`; if the task is in that call already, or deeper inside of it, to the innermost such
    /// call.
    pub(crate) fn nested(hold: Arc<Hold>, origin: Option<&Arc<Self>>) -> Arc<Self> {
        let innermost = innermost(|link| link.hold.id == hold.id);
        let is_inside =
            |origin: &&Arc<Self>| innermost.as_ref().is_some_and(|link| link.is_inside(origin));
        let origin = origin.map(|origin| origin.nearest_under_way().0);
        let origin = origin.filter(|origin| !is_inside(origin));
        let call = origin.or(innermost.as_ref()).map_or(Relation::First, Self::relation);
        Arc::new(Self { hold, call })
    }

    /// The call to which this link belongs. It refers to the first link of that call: links to
    /// links would grow with each task to which a lease is passed.
    fn relation(self: &Arc<Self>) -> Relation {
        Relation::Of(Arc::clone(self.first_link()))
    }

    /// The link that its call began with.
    fn first_link(self: &Arc<Self>) -> &Arc<Self> {
        match &self.call {
            Relation::Of(link) => link,
            Relation::First | Relation::Reentry(_) => self,
        }
    }

    /// Is this the call of `other`, or one inside of it, however deep?
    pub(super) fn is_inside(self: &Arc<Self>, other: &Self) -> bool {
        let between = self.depth().checked_sub(other.depth());
        let call = between.and_then(|between| self.calls().nth(between));
        call.is_some_and(|call| call.is_same_call(other))
    }

    /// How many calls are around the call of this link.
    fn depth(&self) -> usize {
        self.reentry().map_or(0, |call| call.depth)
    }

    /// All links of a call share its turns.
    fn is_same_call(&self, other: &Self) -> bool {
        std::ptr::eq(self.children(), other.children())
    }

    /// This call, its parent, and so on.
    fn calls(self: &Arc<Self>) -> impl Iterator<Item = &Arc<Self>> {
        std::iter::successors(Some(self), |link| link.reentry()?.parent.as_ref())
    }

    /// From this call outwards, the first one that is not over, and its turn. The call that took
    /// the lock needs none.
    pub(super) fn nearest_under_way(self: &Arc<Self>) -> (&Arc<Self>, Option<Arc<Turn>>) {
        let mut link = self;
        while let Some(call) = link.reentry() {
            if let Some(turn) = call.turn() {
                return (link, Some(turn));
            }
            let Some(parent) = &call.parent else { break };
            link = parent;
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
    /// A call inside of that of `parent`.
    pub(super) fn inside(parent: &Arc<HoldLink>, turn: &Arc<Turn>) -> Self {
        Self {
            parent: Some(Arc::clone(parent.first_link())),
            depth: parent.depth() + 1,
            children: Turns::default(),
            turn: Arc::downgrade(turn),
            is_over: AtomicBool::new(false),
        }
    }

    /// Its turn. `None`: the call is over, even if calls inside of it go on.
    fn turn(&self) -> Option<Arc<Turn>> {
        if self.is_over.load(Ordering::Acquire) { None } else { self.turn.upgrade() }
    }
}

impl Drop for ReentrantCall {
    /// The calls around it that nothing else refers to are dropped one by one: a recursion could
    /// exhaust the stack.
    fn drop(&mut self) {
        let mut parent = self.parent.take();
        while let Some(mut link) = parent.and_then(Arc::into_inner) {
            parent = match &mut link.call {
                Relation::Reentry(call) => call.parent.take(),
                Relation::First | Relation::Of(_) => None,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::reentrancy::lookup::Reenterable;
    use crate::tests::fake::fake;

    /// Each call begins the next one and ends: all of them are inside of each other.
    #[test]
    fn a_long_chain_of_calls_ends_on_a_small_stack() {
        let chain = async || {
            let (redlock, _fake) = fake();
            let guard = redlock.lock("k").acquire().await.unwrap();
            let first = HoldLink::nested(Arc::clone(guard.lease().hold()), None);
            let mut call =
                Reenterable { parent: Arc::clone(&first), turn: None }.enter_now().unwrap();
            for _ in 0..100_000 {
                let (parent, turn) = call.link().nearest_under_way();
                let inside = Reenterable { parent: Arc::clone(parent), turn }.enter_now().unwrap();
                assert!(
                    inside.link().is_inside(call.link()) && !call.link().is_inside(inside.link())
                );
                call = inside;
            }
            assert!(call.link().is_inside(&first) && first.children().try_take().is_none());
            assert!(format!("{call:?}").len() < 10_000);
            drop(call);
            assert!(first.children().try_take().is_some());
        };
        let on_small_stack = move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .start_paused(true)
                .build();
            runtime.unwrap().block_on(tokio::task::unconstrained(chain()));
        };
        let thread = std::thread::Builder::new().stack_size(1 << 18).spawn(on_small_stack);
        thread.unwrap().join().unwrap();
    }

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
