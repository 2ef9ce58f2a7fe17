//! Numbers for people.

use crate::harness::Spread;

/// Three digits that matter, thousands apart: 0.0312, 1.15, 63.2, 12,300.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub fn number(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 {
        return "0".to_owned();
    }
    if size < 0.000_1 {
        return "< 0.0001".to_owned();
    }
    if size < 100.0 {
        let digits = 2 - size.log10().floor() as i32;
        let text = format!("{value:.*}", usize::try_from(digits.clamp(1, 4)).unwrap_or(1));
        return text;
    }
    let unit = 10_f64.powi((size.log10().floor() as i32 - 2).max(0));
    let digits = ((value / unit).round() * unit).abs() as u64;
    let digits = digits.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    let sign = if value < 0.0 { "-" } else { "" };
    sign.to_owned() + &groups.join(",")
}

/// The median, and the least and the most where they are others.
pub fn spread(spread: Spread) -> String {
    let (median, min, max) = (number(spread.median), number(spread.min), number(spread.max));
    if min == max { median } else { format!("{median} ({min}-{max})") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_that_matter() {
        for (value, text) in [
            (0.0, "0"),
            (0.000_001, "< 0.0001"),
            (0.031_24, "0.0312"),
            (1.149, "1.15"),
            (63.21, "63.2"),
            (100.4, "100"),
            (12_345.0, "12,300"),
            (870_123.0, "870,000"),
            (1_234_567.0, "1,230,000"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn a_spread_shows_its_ends_where_they_differ() {
        assert_eq!(spread(Spread { median: 2.0, min: 2.0, max: 2.0 }), "2.00");
        assert_eq!(spread(Spread { median: 2.0, min: 1.0, max: 3.0 }), "2.00 (1.00-3.00)");
    }
}
