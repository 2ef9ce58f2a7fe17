//! Durations as they are written in the attribute: `"10s"`, `"1500ms"`, `"1m30s"`.

/// Milliseconds of `text`, or what is wrong with it.
pub(crate) fn parse_ms(text: &str) -> Result<u64, String> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err("the duration is empty; write for example \"10s\"".to_owned());
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (digits, after) = split(rest, |c| c.is_ascii_digit());
        if digits.is_empty() {
            return Err(no_number(rest));
        }
        if after.starts_with(['.', ',']) {
            return Err(fraction(rest));
        }
        if after.starts_with('_') {
            let (shown, _) = split(rest, |c| !c.is_whitespace());
            let plain = shown.replace('_', "");
            return Err(format!("`{shown}` has a `_`; write \"{plain}\""));
        }
        let (unit, after) = split(after.trim_start(), char::is_alphabetic);
        let ms = match unit {
            "ms" => 1,
            "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "" => {
                return Err(format!(
                    "`{digits}` has no unit; write \"{digits}s\" or \"{digits}ms\""
                ));
            }
            other => return Err(unknown_unit(digits, other)),
        };
        let number = digits.parse::<u64>().ok();
        total = number
            .and_then(|number| number.checked_mul(ms))
            .and_then(|part| total.checked_add(part))
            .ok_or("the duration is too large")?;
        rest = after.trim_start();
    }
    Ok(total)
}

fn no_number(rest: &str) -> String {
    if rest.starts_with('-') {
        return "a duration cannot be negative".to_owned();
    }
    format!("expected a number at `{rest}`; write for example \"10s\" or \"1m30s\"")
}

fn unknown_unit(digits: &str, unit: &str) -> String {
    let hint = match unit.to_lowercase().as_str() {
        "s" | "sec" | "secs" | "second" | "seconds" => Some("s"),
        "ms" | "msec" | "msecs" | "milli" | "millis" | "millisecond" | "milliseconds" => Some("ms"),
        // Not `M`, which is just as near to a month.
        "min" | "mins" | "minute" | "minutes" => Some("m"),
        "h" | "hr" | "hrs" | "hour" | "hours" => Some("h"),
        "d" | "day" | "days" => Some("d"),
        _ => None,
    };
    let hint = hint.map_or(String::new(), |unit| format!("write \"{digits}{unit}\"; "));
    format!("unknown time unit `{unit}`; {hint}the units are ms, s, m, h, d")
}

fn fraction(rest: &str) -> String {
    let (shown, _) = split(rest, |c| !c.is_whitespace());
    let hint = in_a_smaller_unit(shown)
        .map_or("as in \"1500ms\" for 1.5s".to_owned(), |smaller| format!("\"{smaller}\""));
    format!("`{shown}` has a fraction; write it in a smaller unit, {hint}")
}

/// `500ms` for `0.5s`, if the result is a whole number.
fn in_a_smaller_unit(written: &str) -> Option<String> {
    let (number, unit) = split(written, |c| c.is_ascii_digit() || matches!(c, '.' | ','));
    let (whole, fraction) = number.split_once(['.', ','])?;
    let (smaller, factor) = match unit {
        "s" => ("ms", 1000),
        "m" => ("s", 60),
        "h" => ("m", 60),
        "d" => ("h", 24),
        _ => return None,
    };
    let scale = 10_u64.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let whole: u64 = whole.parse().ok()?;
    let fraction: u64 = fraction.parse().ok()?;
    let total = whole.checked_mul(scale)?.checked_add(fraction)?.checked_mul(factor)?;
    (total % scale == 0).then(|| format!("{}{smaller}", total / scale))
}

/// The longest prefix whose characters satisfy `keep`, and what follows.
fn split(text: &str, keep: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !keep(c)).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::parse_ms;

    #[test]
    fn units_add_up() {
        for (text, ms) in [
            ("10s", 10_000),
            ("1500ms", 1500),
            ("1m30s", 90_000),
            ("2h 5m", 7_500_000),
            (" 1d ", 86_400_000),
            ("0s", 0),
            ("10 s", 10_000),
        ] {
            assert_eq!(parse_ms(text), Ok(ms), "{text}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in [
            ("", "the duration is empty"),
            ("  ", "the duration is empty"),
            ("10", "`10` has no unit"),
            ("1m30", "`30` has no unit"),
            ("10sec", "unknown time unit `sec`"),
            ("10µs", "unknown time unit `µs`"),
            ("s", "expected a number at `s`"),
            ("10s!", "expected a number at `!`"),
            ("-5s", "cannot be negative"),
            ("1.5s", "`1.5s` has a fraction"),
            ("1,5s", "`1,5s` has a fraction"),
            ("0.5s", "write it in a smaller unit, \"500ms\""),
            ("1.5h", "\"90m\""),
            ("1.5m", "\"90s\""),
            ("1.5d", "\"36h\""),
            ("0.0001s", "as in \"1500ms\""),
            ("10S", "write \"10s\""),
            ("10mins", "write \"10m\""),
            ("10M", "unknown time unit `M`; the units"),
            ("1_000ms", "write \"1000ms\""),
            ("99999999999999999999s", "too large"),
            ("18446744073709551615d", "too large"),
            ("18446744073709551615ms 1ms", "too large"),
        ] {
            let error = parse_ms(text).err().unwrap_or_default();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
