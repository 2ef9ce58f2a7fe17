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
            other => {
                return Err(format!("unknown time unit `{other}`; the units are ms, s, m, h, d"));
            }
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

fn fraction(rest: &str) -> String {
    let (shown, _) = split(rest, |c| !c.is_whitespace());
    format!("`{shown}` has a fraction; write it in a smaller unit, as in \"1500ms\" for 1.5s")
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
            ("99999999999999999999s", "too large"),
            ("18446744073709551615d", "too large"),
            ("18446744073709551615ms 1ms", "too large"),
        ] {
            let error = parse_ms(text).err().unwrap_or_default();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
