//! Tells which clocks of a group of nodes are far off the others. Pure.

/// The clocks that are far off the others, by node, and by how many milliseconds. `None`: most
/// clocks do not agree, or too few are known, so that the right time is unknown.
pub(crate) fn odd_clocks(offsets: &[Option<i64>], quorum: usize) -> Option<Vec<(usize, i64)>> {
    /// More than the difference between hosts that synchronise their clocks at all.
    const FAR: u64 = 1_000_000;
    let mut known: Vec<i64> = offsets.iter().copied().flatten().collect();
    known.sort_unstable();
    let median = known.get(known.len() / 2).copied()?;
    let off = |offset: i64| offset.saturating_sub(median);
    if known.iter().filter(|offset| off(**offset).unsigned_abs() <= FAR).count() < quorum {
        return None;
    }
    let odd = |(index, offset): (usize, &Option<i64>)| {
        let off = off((*offset)?);
        (off.unsigned_abs() > FAR).then_some((index, off / 1000))
    };
    Some(offsets.iter().enumerate().filter_map(odd).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_far_off_is_told_from_clocks_that_nobody_set() {
        let second = 1_000_000;
        let odd = |offsets: &[Option<i64>], quorum| odd_clocks(offsets, quorum);
        assert_eq!(odd(&[Some(0), Some(60 * second), Some(0)], 2), Some(vec![(1, 60_000)]));
        assert_eq!(
            odd(&[Some(0), None, Some(-7 * second), Some(9), Some(3)], 3),
            Some(vec![(2, -7_000)])
        );
        assert_eq!(odd(&[Some(0), Some(60 * second), Some(-60 * second)], 2), None);
        assert_eq!(odd(&[Some(0), Some(60 * second), None], 2), None);
        assert_eq!(odd(&[Some(0), None, None], 2), None);
        assert_eq!(odd(&[None, None, None], 2), None);
        assert_eq!(odd(&[Some(0), Some(900_000), Some(5)], 2), Some(vec![]));
        // A difference of one second is not far yet.
        let offsets = [0, second, 0, 60 * second].map(Some);
        assert_eq!(odd(&offsets, 3), Some(vec![(3, 59_000)]));
    }
}
