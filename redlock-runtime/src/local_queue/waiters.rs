//! The waiters of one key in this process, in their order. Adding, removing and timing out a waiter
//! takes logarithmic time.

use std::collections::{BTreeMap, BTreeSet};

use super::waiter::Waiter;
use crate::clock::Moment;

/// So many waiters are counted before one that gives up.
const MOST_COUNTED: usize = 1000;

/// Most locks never have a waiter, and need no memory for one.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    /// `None`: nobody waits.
    all: Option<Box<Ordered>>,
}

#[derive(Debug, Default)]
struct Ordered {
    /// The first waiter has the lowest number.
    in_order: BTreeMap<i64, Waiter>,
    /// The numbers of all waiters, ordered by the ends of their waits.
    by_end: BTreeSet<(Moment, i64)>,
    by_id: BTreeMap<u64, i64>,
}

impl Waiters {
    pub(crate) fn len(&self) -> usize {
        self.all.as_ref().map_or(0, |all| all.in_order.len())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn front(&self) -> Option<&Waiter> {
        self.all.as_ref()?.in_order.first_key_value().map(|(_, waiter)| waiter)
    }

    pub(crate) fn push_front(&mut self, waiter: Waiter) {
        let all = self.all.get_or_insert_default();
        let first = all.in_order.first_key_value().map_or(0, |(number, _)| *number);
        all.insert(first - 1, waiter);
    }

    pub(crate) fn push_back(&mut self, waiter: Waiter) {
        let all = self.all.get_or_insert_default();
        let last = all.in_order.last_key_value().map_or(0, |(number, _)| *number);
        all.insert(last + 1, waiter);
    }

    pub(crate) fn pop_front(&mut self) -> Option<Waiter> {
        let all = self.all.as_mut()?;
        let (number, waiter) = all.in_order.pop_first()?;
        Some(all.forget(number, waiter))
    }

    /// `None`: the waiter has gone, or was taken out before.
    pub(crate) fn remove(&mut self, id: u64) -> Option<Waiter> {
        let all = self.all.as_mut()?;
        let number = *all.by_id.get(&id)?;
        let waiter = all.in_order.remove(&number)?;
        Some(all.forget(number, waiter))
    }

    /// The earliest end of a wait.
    pub(crate) fn earliest_end(&self) -> Moment {
        let first = self.all.as_ref().and_then(|all| all.by_end.first());
        first.map_or(Moment::NEVER, |(end, _)| *end)
    }

    /// Takes out the waiters whose wait ends by `now` and that may leave. Each comes with how many
    /// stand before it still, unless they are too many to be counted.
    pub(crate) fn take_overdue(
        &mut self,
        now: Moment,
        may_go: impl Fn(&Waiter) -> bool,
    ) -> Vec<(Waiter, Option<u32>)> {
        let Some(all) = &mut self.all else { return Vec::new() };
        let overdue = all.by_end.range(..=(now, i64::MAX)).map(|(_, number)| *number);
        let overdue: Vec<i64> = overdue.filter(|number| may_go(&all.in_order[number])).collect();
        let taken = overdue.into_iter().filter_map(|number| {
            let waiter = all.in_order.remove(&number)?;
            let before = all.in_order.range(..number).take(MOST_COUNTED).count();
            let before = u32::try_from(before).ok().filter(|_| before < MOST_COUNTED);
            Some((all.forget(number, waiter), before))
        });
        taken.collect()
    }

    /// Takes out all of these, in their order. The others keep theirs.
    pub(crate) fn take_all(&mut self, is_it: impl Fn(&Waiter) -> bool) -> Vec<Waiter> {
        let (taken, left): (Vec<_>, Vec<_>) = std::mem::take(self).into_iter().partition(is_it);
        for waiter in left {
            self.push_back(waiter);
        }
        taken
    }

    pub(crate) fn into_iter(self) -> impl Iterator<Item = Waiter> {
        self.all.into_iter().flat_map(|all| all.in_order.into_values())
    }
}

impl Ordered {
    fn insert(&mut self, number: i64, waiter: Waiter) {
        self.by_end.insert((waiter.end(), number));
        self.by_id.insert(waiter.id, number);
        self.in_order.insert(number, waiter);
    }

    fn forget(&mut self, number: i64, waiter: Waiter) -> Waiter {
        self.by_end.remove(&(waiter.end(), number));
        self.by_id.remove(&waiter.id);
        waiter
    }
}
