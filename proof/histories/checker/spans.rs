//! Sets of moments.

use crate::log::Moment;

/// From a moment to before another one; in order, and apart from each other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Spans(Vec<(Moment, Moment)>);

impl Spans {
    pub(super) fn new(spans: impl IntoIterator<Item = (Moment, Moment)>) -> Spans {
        let mut spans: Vec<_> = spans.into_iter().filter(|(from, until)| from < until).collect();
        spans.sort_unstable();
        let mut apart: Vec<(Moment, Moment)> = Vec::new();
        for (from, until) in spans {
            match apart.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(until),
                _ => apart.push((from, until)),
            }
        }
        Spans(apart)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Moment, Moment)> {
        self.0.iter().copied()
    }

    pub(super) fn or(&self, other: &Spans) -> Spans {
        Spans::new(self.iter().chain(other.iter()))
    }

    /// What is in one span, too.
    pub(super) fn within(&self, from: Moment, until: Moment) -> Spans {
        Spans::new(self.iter().map(|span| (span.0.max(from), span.1.min(until))))
    }

    /// One span without all of these.
    pub(super) fn gaps(&self, from: Moment, until: Moment) -> Spans {
        let inside = self.within(from, until);
        let begins = std::iter::once(from).chain(inside.iter().map(|span| span.1));
        let ends = inside.iter().map(|span| span.0).chain(std::iter::once(until));
        Spans::new(begins.zip(ends))
    }

    /// How long all of them last.
    pub(super) fn length(&self) -> Moment {
        self.iter().map(|(from, until)| until - from).sum()
    }
}

impl IntoIterator for Spans {
    type Item = (Moment, Moment);
    type IntoIter = std::vec::IntoIter<(Moment, Moment)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_joined_cut_and_turned_around() {
        let spans = Spans::new([(5, 7), (1, 3), (3, 4), (9, 9), (6, 8)]);
        assert_eq!(spans, Spans(vec![(1, 4), (5, 8)]));
        assert_eq!(spans.within(2, 6), Spans(vec![(2, 4), (5, 6)]));
        assert_eq!(spans.gaps(0, 10), Spans(vec![(0, 1), (4, 5), (8, 10)]));
        assert_eq!(spans.gaps(2, 4), Spans::default());
        assert_eq!(spans.or(&Spans(vec![(4, 5)])), Spans(vec![(1, 8)]));
        assert_eq!(spans.length(), 6);
    }
}
