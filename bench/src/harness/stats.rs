//! Medians and spreads.

use serde::{Serialize, Serializer};

/// Of one figure over all rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Spread {
    /// `None` without values.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut values: Vec<_> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let median = match values.len() {
            0 => return None,
            odd if odd % 2 == 1 => values[middle],
            _ => f64::midpoint(values[middle - 1], values[middle]),
        };
        Some(Spread { median, min: values[0], max: values[values.len() - 1] })
    }
}

/// Median, least and most; one number where they are the same.
impl Serialize for Spread {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.min < self.max {
            [self.median, self.min, self.max].serialize(serializer)
        } else {
            self.median.serialize(serializer)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads_are_written_short() {
        let json = |median, min, max| serde_json::json!(Spread { median, min, max }).to_string();
        assert_eq!(json(2.0, 2.0, 2.0), "2.0");
        assert_eq!(json(2.5, 1.0, 4.0), "[2.5,1.0,4.0]");
    }

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_two() {
        let spread = |values: &[f64]| Spread::of(values.iter().copied());
        assert_eq!(spread(&[]), None);
        assert_eq!(spread(&[3.0, 1.0, 2.0]), Some(Spread { median: 2.0, min: 1.0, max: 3.0 }));
        assert_eq!(spread(&[4.0, 1.0]), Some(Spread { median: 2.5, min: 1.0, max: 4.0 }));
    }
}
