//! Durations as people type them: `5` (seconds), `0.5`, `1500ms`, `5s`, `2m`, `1h`, `1d`.

use std::time::Duration;

use redlock::Wait;

const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// A duration of at most a year.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let advice = "write seconds, as in `5`, or a number with a unit: `500ms`, `5s`, `2m`, `1h`";
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let seconds = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        _ => return Err(format!("`{unit}` is no unit; {advice}")),
    };
    let number: f64 = number.parse().map_err(|_| advice.to_owned())?;
    let found = Duration::try_from_secs_f64(number * seconds).unwrap_or(Duration::MAX);
    if found > LONGEST {
        return Err("it is longer than 365 days".to_owned());
    }
    Ok(found)
}

/// A duration, or `forever`.
pub(crate) fn parse_wait(text: &str) -> Result<Wait, String> {
    match text {
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
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_says_what_to_write() {
        for text in ["", "s", "-1", "5 s", "5x", "1.2.3", "forever", "ms5", "inf", "NaN"] {
            assert!(parse(text).is_err(), "{text}");
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
        assert_eq!(parse_wait("5"), Ok(Wait::AtMost(Duration::from_secs(5))));
    }

    #[test]
    fn durations_are_shown_for_people() {
        let shown = |millis| show(Duration::from_millis(millis));
        assert_eq!([shown(340), shown(5_240), shown(200_000)], ["340 ms", "5.2 s", "3 min 20 s"]);
        assert_eq!(shown(7_500_000), "2 h 5 min");
    }
}
