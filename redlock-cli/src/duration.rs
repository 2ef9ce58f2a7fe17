//! Durations as people type them: `5` (seconds), `0.5`, and what the attribute takes: `1500ms`,
//! `5s`, `2m`, `1h`, `1d`, `1m30s`, `2h 5m`.

use std::time::Duration;

use redlock::Wait;

const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);
const ADVICE: &str =
    "write seconds, as in `5`, or numbers with units: `500ms`, `5s`, `2m`, `1h`, `1m30s`";

/// A duration of at most a year.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let (mut seconds, mut rest) = number(text.trim())?;
    if !rest.is_empty() {
        (seconds, rest) = (0.0, text.trim());
    }
    while !rest.is_empty() {
        let (count, after) = number(rest)?;
        let (unit, after) = split(after.trim_start(), char::is_alphabetic);
        seconds += count * seconds_of(unit)?;
        rest = after.trim_start();
    }
    let found = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    if found > LONGEST {
        return Err("it is longer than 365 days".to_owned());
    }
    Ok(found)
}

/// The number at the start, and what follows.
fn number(text: &str) -> Result<(f64, &str), String> {
    let (number, rest) = split(text, |c| c.is_ascii_digit() || c == '.');
    number.parse().map(|number| (number, rest)).map_err(|_| ADVICE.to_owned())
}

fn seconds_of(unit: &str) -> Result<f64, String> {
    match unit {
        "ms" => Ok(0.001),
        "s" => Ok(1.0),
        "m" => Ok(60.0),
        "h" => Ok(3_600.0),
        "d" => Ok(86_400.0),
        "" => Err(format!("a number without a unit stands alone; {ADVICE}")),
        _ => Err(format!("`{unit}` is no unit; {ADVICE}")),
    }
}

/// The longest start whose characters satisfy `keep`, and what follows.
fn split(text: &str, keep: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !keep(c)).unwrap_or(text.len()))
}

/// A duration, or `forever`.
pub(crate) fn parse_wait(text: &str) -> Result<Wait, String> {
    match text.trim() {
        "forever" => Ok(Wait::Forever),
        text => parse(text).map(Wait::from).map_err(|why| format!("{why}, or `forever`")),
    }
}

/// `340 ms`, `5.2 s`, `3 min 20 s`, `2 h 5 min`.
pub(crate) fn show(duration: Duration) -> String {
    let secs = duration.as_secs();
    match secs {
        0 => format!("{} ms", duration.as_millis()),
        1..60 => format!("{:.1} s", duration.as_secs_f64()),
        60..3_600 => format!("{} min {} s", secs / 60, secs % 60),
        _ => format!("{} h {} min", secs / 3_600, secs % 3_600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_number_means_seconds_as_in_flock() {
        for (text, millis) in [
            ("5", 5_000),
            ("0.5", 500),
            ("0", 0),
            ("1500ms", 1_500),
            ("5s", 5_000),
            ("2m", 120_000),
            ("1h", 3_600_000),
            ("1d", 86_400_000),
            ("0.5m", 30_000),
            ("365d", 31_536_000_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    /// `redlock-macros/src/duration.rs` has the same list.
    #[test]
    fn what_the_attribute_takes_is_a_duration_here() {
        for (text, millis) in [
            ("10s", 10_000),
            ("1500ms", 1_500),
            ("1m30s", 90_000),
            ("2h 5m", 7_500_000),
            (" 1d ", 86_400_000),
            ("0s", 0),
            ("10 s", 10_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_says_what_to_write() {
        for text in ["", "s", "-1", "5x", "1.2.3", "forever", "ms5", "inf", "NaN", "5s!", "5s,1s"] {
            assert!(parse(text).unwrap_err().contains("`500ms`"), "{text}");
        }
        for text in ["1m30", "1 2", "5 5s"] {
            assert!(parse(text).unwrap_err().contains("stands alone"), "{text}");
        }
        assert!(parse("5min").unwrap_err().contains("`2m`"));
        assert!(parse("9000d").unwrap_err().contains("365 days"));
        assert!(parse("99999999999999999999999999d").unwrap_err().contains("365 days"));
        assert!(parse_wait("ever").unwrap_err().contains("`forever`"));
    }

    #[test]
    fn a_wait_of_zero_is_one_attempt() {
        assert_eq!(parse_wait("0"), Ok(Wait::Never));
        assert_eq!(parse_wait("forever"), Ok(Wait::Forever));
        assert_eq!(parse_wait(" forever "), Ok(Wait::Forever));
        assert_eq!(parse_wait("5"), Ok(Wait::AtMost(Duration::from_secs(5))));
    }

    #[test]
    fn durations_are_shown_for_people() {
        let shown = |millis| show(Duration::from_millis(millis));
        assert_eq!([shown(340), shown(5_240), shown(200_000)], ["340 ms", "5.2 s", "3 min 20 s"]);
        assert_eq!(shown(7_500_000), "2 h 5 min");
        assert_eq!([shown(999), shown(1_000), shown(59_900)], ["999 ms", "1.0 s", "59.9 s"]);
        assert_eq!([shown(60_000), shown(3_599_000)], ["1 min 0 s", "59 min 59 s"]);
        assert_eq!(shown(3_600_000), "1 h 0 min");
    }
}
