//! In which order calls nest their locks, by template. Two orders that contradict each other can
//! make calls wait for each other: a deadlock, across processes too. Pure.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::mutex::Mutex;

/// How many orders are remembered. A program has as many as its source code nests templates.
const MOST: usize = 1024;

/// The orders that the calls of one client have used.
#[derive(Debug, Default)]
pub(crate) struct LockOrder {
    seen: Mutex<SeenOrders>,
}

/// A lock, as far as its order matters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ordered<'a> {
    pub(crate) template: &'static str,
    pub(crate) key: &'a str,
}

/// Orders that contradict each other.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum OrderConflict {
    /// Each template was taken under the one before; the last one is the first one again.
    Circle(Vec<&'static str>),
    /// Locks of one template were nested, in no order of their keys.
    Unsorted(&'static str),
}

#[derive(Debug, Default)]
struct SeenOrders {
    /// The templates that were taken while a template was held.
    under: BTreeMap<&'static str, BTreeSet<&'static str>>,
    /// Templates that were nested in themselves.
    within: BTreeMap<&'static str, Directions>,
    count: usize,
}

impl LockOrder {
    /// A call that holds `held` is about to wait for `wanted`. Returns the conflicts that are new.
    pub(crate) fn note<'a>(
        &self,
        held: impl Iterator<Item = Ordered<'a>>,
        wanted: Ordered<'_>,
    ) -> Vec<OrderConflict> {
        let mut seen = self.seen.lock();
        let note = |held: Ordered<'a>| {
            if held.template == wanted.template {
                seen.nested_within(held.template, held.key, wanted.key)
            } else {
                seen.nested(held.template, wanted.template)
            }
        };
        let mut conflicts: Vec<_> = held.filter_map(note).collect();
        // A longer circle tells nothing new where a pair is one.
        let is_pair = |conflict: &OrderConflict| conflict.templates() == 2;
        if conflicts.iter().any(is_pair) {
            conflicts.retain(|conflict| conflict.templates() <= 2);
        }
        conflicts
    }
}

impl OrderConflict {
    fn templates(&self) -> usize {
        match self {
            Self::Circle(path) => path.len() - 1,
            Self::Unsorted(_) => 1,
        }
    }
}

impl SeenOrders {
    fn nested(&mut self, held: &'static str, wanted: &'static str) -> Option<OrderConflict> {
        if self.under.get(held).is_some_and(|under| under.contains(wanted)) || self.is_full() {
            return None;
        }
        self.count += 1;
        self.under.entry(held).or_default().insert(wanted);
        let path = self.path(wanted, held)?;
        Some(OrderConflict::Circle([held].into_iter().chain(path).collect()))
    }

    fn nested_within(
        &mut self,
        template: &'static str,
        held: &str,
        wanted: &str,
    ) -> Option<OrderConflict> {
        if !self.within.contains_key(template) {
            if self.is_full() {
                return None;
            }
            self.count += 1;
        }
        let directions = self.within.entry(template).or_default();
        directions.note(held, wanted).then_some(OrderConflict::Unsorted(template))
    }

    fn is_full(&self) -> bool {
        self.count >= MOST
    }

    /// The shortest way on which `to` was taken under `from`, both included.
    fn path(&self, from: &'static str, to: &'static str) -> Option<Vec<&'static str>> {
        let mut before = BTreeMap::from([(from, from)]);
        let mut open = VecDeque::from([from]);
        while let Some(at) = open.pop_front() {
            if at == to {
                let step = |at: &&'static str| before.get(at).filter(|next| *next != at).copied();
                let mut path: Vec<_> = std::iter::successors(Some(to), step).collect();
                path.reverse();
                return Some(path);
            }
            for next in self.under.get(at).into_iter().flatten() {
                before.entry(next).or_insert_with(|| {
                    open.push_back(next);
                    at
                });
            }
        }
        None
    }
}

/// In which directions keys of one template were nested. A program sorts its keys as texts or as
/// numbers: only one of the two has to be an order.
#[derive(Debug, Default)]
struct Directions {
    as_texts: BothWays,
    as_numbers: BothWays,
    is_told: bool,
}

#[derive(Debug, Default)]
struct BothWays {
    is_up: bool,
    is_down: bool,
}

impl Directions {
    /// Returns whether these keys are the first that leave no order.
    fn note(&mut self, held: &str, wanted: &str) -> bool {
        self.as_texts.note(held.cmp(wanted));
        self.as_numbers.note(numeric(held, wanted));
        let is_unsorted = self.as_texts.are_seen() && self.as_numbers.are_seen();
        is_unsorted && !std::mem::replace(&mut self.is_told, true)
    }
}

impl BothWays {
    fn note(&mut self, direction: Ordering) {
        self.is_up |= direction == Ordering::Less;
        self.is_down |= direction == Ordering::Greater;
    }

    fn are_seen(&self) -> bool {
        self.is_up && self.is_down
    }
}

/// Compares texts, and the numbers in them by their value: `k-9` comes before `k-10`.
fn numeric(one: &str, other: &str) -> Ordering {
    let (mut one, mut other) = (one, other);
    while let (Some(a), Some(b)) = (one.chars().next(), other.chars().next()) {
        let order = if a.is_ascii_digit() && b.is_ascii_digit() {
            let (a, b) = (take_number(&mut one), take_number(&mut other));
            a.len().cmp(&b.len()).then(a.cmp(b))
        } else {
            (one, other) = (&one[a.len_utf8()..], &other[b.len_utf8()..]);
            a.cmp(&b)
        };
        if order.is_ne() {
            return order;
        }
    }
    one.len().cmp(&other.len())
}

/// Takes the digits at the beginning; returns them without leading zeros.
fn take_number<'a>(text: &mut &'a str) -> &'a str {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    *text = rest;
    digits.trim_start_matches('0')
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn lock(template: &'static str) -> Ordered<'static> {
        Ordered { template, key: template }
    }

    fn note(order: &LockOrder, held: &[&'static str], wanted: &'static str) -> Vec<String> {
        let conflicts = order.note(held.iter().map(|held| lock(held)), lock(wanted));
        let text = |conflict| match conflict {
            OrderConflict::Circle(path) => path.join(" "),
            OrderConflict::Unsorted(template) => format!("unsorted {template}"),
        };
        conflicts.into_iter().map(text).collect()
    }

    #[test]
    fn one_order_is_no_conflict_and_both_are_told_once() {
        let order = LockOrder::default();
        for _ in 0..3 {
            assert!(note(&order, &["a"], "b").is_empty());
            assert!(note(&order, &["b", "a"], "c").is_empty());
            assert!(note(&order, &["a"], "c").is_empty());
            assert!(note(&order, &[], "a").is_empty());
        }
        assert_eq!(note(&order, &["c"], "a"), ["c a c"]);
        assert!(note(&order, &["c"], "a").is_empty());
        assert!(note(&order, &["a"], "c").is_empty());
    }

    #[test]
    fn a_circle_of_three_is_a_conflict() {
        let order = LockOrder::default();
        assert!(note(&order, &["a"], "b").is_empty());
        assert!(note(&order, &["b"], "c").is_empty());
        assert!(note(&order, &["x"], "a").is_empty());
        assert_eq!(note(&order, &["c"], "a"), ["c a b c"]);
        assert_eq!(note(&order, &["c"], "x"), ["c x a b c"]);
    }

    #[test]
    fn a_pair_is_told_without_the_circles_around_it() {
        let order = LockOrder::default();
        assert!(note(&order, &["a"], "b").is_empty());
        assert!(note(&order, &["b"], "c").is_empty());
        assert_eq!(note(&order, &["b", "c"], "a"), ["b a b"]);
    }

    #[test]
    fn keys_of_one_template_may_be_sorted_as_texts_or_as_numbers() {
        let nest = |order: &LockOrder, held, wanted| {
            let ordered = |key| Ordered { template: "k-<n>", key };
            order.note([ordered(held)].into_iter(), ordered(wanted)).len()
        };
        let numbers = LockOrder::default();
        let texts = LockOrder::default();
        for (low, high) in [("k-9", "k-10"), ("k-1", "k-2"), ("k-2-9", "k-2-10")] {
            assert_eq!(nest(&numbers, low, high), 0);
            let (low, high) = (low.min(high), low.max(high));
            assert_eq!(nest(&texts, low, high), 0);
        }
        for order in [numbers, texts] {
            assert_eq!(nest(&order, "k-2", "k-1"), 1);
            assert_eq!(nest(&order, "k-2", "k-1"), 0, "it is told once");
        }
    }

    #[test]
    fn numbers_are_compared_by_value() {
        for (less, greater) in [("9", "10"), ("a9b", "a10"), ("a", "a1"), ("01", "2"), ("é1", "é2")]
        {
            assert_eq!(numeric(less, greater), Ordering::Less, "{less} {greater}");
            assert_eq!(numeric(greater, less), Ordering::Greater, "{less} {greater}");
        }
        assert_eq!(numeric("a10", "a10"), Ordering::Equal);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let order = LockOrder::default();
        for n in 0..2 * MOST {
            let template = Box::leak(n.to_string().into_boxed_str());
            order.note([lock("a")].into_iter(), lock(template));
            order.note([lock(template)].into_iter(), lock(template));
        }
        let seen = order.seen.lock();
        let all = seen.under.values().map(BTreeSet::len).sum::<usize>() + seen.within.len();
        assert_eq!(all, MOST);
    }
}
