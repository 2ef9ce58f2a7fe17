//! Nanoseconds in buckets of 0.8 %, the same in all languages of `bench/peers`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Below 256 ns a bucket each, above 128 for every power of two.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct Histogram {
    buckets: BTreeMap<u32, u64>,
    max: u64,
}

/// Buckets as an array: counting must cost nothing beside what is measured.
#[derive(Debug, Clone)]
pub struct Recorder {
    buckets: Vec<u64>,
    max: u64,
}

const BUCKETS: usize = 256 + 128 * 56;

impl Recorder {
    pub fn new() -> Recorder {
        Recorder { buckets: vec![0; BUCKETS], max: 0 }
    }

    pub fn count(&mut self, nanos: u64) {
        self.buckets[bucket(nanos)] += 1;
        self.max = self.max.max(nanos);
    }

    pub fn finish(&self, into: &mut Histogram) {
        for (index, &count) in (0..).zip(&self.buckets) {
            if count > 0 {
                *into.buckets.entry(index).or_default() += count;
            }
        }
        into.max = into.max.max(self.max);
    }
}

impl Histogram {
    pub fn merge(&mut self, other: &Histogram) {
        for (&index, &count) in &other.buckets {
            *self.buckets.entry(index).or_default() += count;
        }
        self.max = self.max.max(other.max);
    }

    pub fn max(&self) -> u64 {
        self.max
    }

    /// `None` without any values; the middle of its bucket otherwise.
    #[allow(clippy::cast_precision_loss)]
    pub fn quantile(&self, part: f64) -> Option<f64> {
        let total: u64 = self.buckets.values().sum();
        let wanted = (total as f64 * part).max(1.0);
        let mut seen = 0;
        for (&index, &count) in &self.buckets {
            seen += count;
            if seen as f64 >= wanted {
                return Some(middle(index).min(self.max as f64));
            }
        }
        None
    }
}

fn bucket(nanos: u64) -> usize {
    let shift = (64 - nanos.leading_zeros()).saturating_sub(8);
    usize::try_from(u64::from(shift) * 128 + (nanos >> shift)).expect("at most 7,424")
}

#[allow(clippy::cast_precision_loss)]
fn middle(index: u32) -> f64 {
    if index < 256 {
        return f64::from(index);
    }
    let shift = index / 128 - 1;
    let from = u64::from(index - shift * 128) << shift;
    from as f64 + (1_u64 << shift) as f64 / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_within_half_a_percent_of_its_bucket() {
        for nanos in [0, 1, 127, 128, 255, 256, 257, 511, 512, 1_000, 65_535, 65_536, 123_456_789] {
            let index = u32::try_from(bucket(nanos)).unwrap();
            let middle = middle(index);
            #[allow(clippy::cast_precision_loss)]
            let nanos = nanos as f64;
            assert!((middle - nanos).abs() <= nanos * 0.005, "{nanos} is taken for {middle}");
        }
        assert!(bucket(u64::MAX) < BUCKETS);
    }

    #[test]
    fn quantiles_are_of_all_that_was_counted() {
        let mut recorder = Recorder::new();
        (1..=100).for_each(|nanos| recorder.count(nanos));
        let (mut all, mut again) = (Histogram::default(), Histogram::default());
        recorder.finish(&mut again);
        all.merge(&again);
        assert_eq!(
            (all.quantile(0.5), all.quantile(0.99), all.max()),
            (Some(50.0), Some(99.0), 100)
        );
        assert_eq!(Histogram::default().quantile(0.5), None);
    }
}
