//! A list of bounded length, as part of a state.

/// A few items in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Few<T, const N: usize>([Option<T>; N]);

impl<T: Copy + PartialEq, const N: usize> Few<T, N> {
    pub(crate) const EMPTY: Self = Self([None; N]);

    pub(crate) fn iter(&self) -> impl Iterator<Item = T> + '_ {
        self.0.iter().map_while(|item| *item)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut().flatten()
    }

    pub(crate) fn has(&self, item: T) -> bool {
        self.iter().any(|other| other == item)
    }

    pub(crate) fn first(&self) -> Option<T> {
        self.0[0]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0[0].is_none()
    }

    /// An item that does not fit is lost, as a message may be.
    pub(crate) fn push(&mut self, item: T) {
        if let Some(end) = self.0.iter_mut().find(|place| place.is_none()) {
            *end = Some(item);
        }
    }

    /// The item has to fit: its loss would not be part of the model.
    pub(crate) fn must_push(&mut self, item: T) {
        self.assert_room();
        self.push(item);
    }

    pub(crate) fn must_push_front(&mut self, item: T) {
        self.assert_room();
        self.0.rotate_right(1);
        self.0[0] = Some(item);
    }

    fn assert_room(&self) {
        assert!(self.0[N - 1].is_none());
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        let first = self.0[0].take();
        self.0.rotate_left(1);
        first
    }

    pub(crate) fn retain(&mut self, keeps: impl Fn(T) -> bool) {
        let mut kept = Self::EMPTY;
        self.iter().filter(|item| keeps(*item)).for_each(|item| kept.push(item));
        *self = kept;
    }

    /// Each time that it occurs.
    pub(crate) fn remove(&mut self, item: T) {
        self.retain(|other| other != item);
    }

    pub(crate) fn remove_first(&mut self, item: T) {
        if let Some(at) = self.0.iter().position(|other| *other == Some(item)) {
            self.0[at] = None;
            self.0[at..].rotate_left(1);
        }
    }
}

impl<T: Copy + Ord, const N: usize> Few<T, N> {
    /// Behind what is smaller; each item once.
    pub(crate) fn insert(&mut self, item: T) {
        if !self.has(item) {
            self.push(item);
            self.0.sort_unstable_by_key(|item| (item.is_none(), *item));
        }
    }
}
