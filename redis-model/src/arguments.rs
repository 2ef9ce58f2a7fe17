//! The arguments of commands, as Redis reads them.

use std::str;

use crate::reply::Reply;

/// An integer in the only form that Redis takes: no sign but a minus, no leading zero, no space.
pub(crate) fn integer(word: &[u8]) -> Result<i64, Reply> {
    let wrong = || Reply::error("ERR value is not an integer or out of range");
    let text = str::from_utf8(word).map_err(|_| wrong())?;
    let number: i64 = text.parse().map_err(|_| wrong())?;
    if number.to_string() == text { Ok(number) } else { Err(wrong()) }
}

/// Positions of a list from a start and an end, both of which may count from its end.
pub(crate) fn range(start: i64, end: i64, length: usize) -> std::ops::Range<usize> {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let from_start = |at: i64| if at < 0 { at + length } else { at };
    let (start, end) = (from_start(start).max(0), from_start(end).min(length - 1));
    if start > end {
        return 0..0;
    }
    let position = |at: i64| usize::try_from(at).unwrap_or_default();
    position(start)..position(end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_have_one_form() {
        for (word, number) in [("0", 0), ("-7", -7), ("9223372036854775807", i64::MAX)] {
            assert_eq!(integer(word.as_bytes()), Ok(number));
        }
        for word in ["", "+7", "07", " 7", "7.0", "-0", "1e3", "9223372036854775808", "\u{fc}"] {
            assert!(integer(word.as_bytes()).is_err(), "{word}");
        }
        assert!(integer(b"\xff").is_err());
    }

    #[test]
    fn a_range_may_count_from_the_end() {
        for (start, end, expected) in
            [(0, -1, 0..3), (1, 1, 1..2), (-2, -1, 1..3), (-9, 9, 0..3), (2, 1, 0..0), (3, 9, 0..0)]
        {
            assert_eq!(range(start, end, 3), expected, "{start} {end}");
        }
        assert_eq!(range(0, -1, 0), 0..0);
    }
}
