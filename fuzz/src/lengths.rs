//! Durations against a second reading of the same little language.

use crate::duration::parse_ms;

pub fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let parsed = parse_ms(&text).ok();
    assert_eq!(parsed, reference(&text), "{text:?}");
    if let Some(ms) = parsed {
        assert_eq!(parse_ms(&format!("{ms}ms")), Ok(ms));
        assert_eq!(parse_ms(&format!(" {}s  {} ms ", ms / 1000, ms % 1000)), Ok(ms));
    }
}

/// `(number unit)+` with white space anywhere but inside of the two, in 128 bits.
fn reference(text: &str) -> Option<u64> {
    let chars: Vec<char> = text.chars().collect();
    let (mut at, mut total, mut parts) = (0, 0_u128, 0);
    let skip = |at: &mut usize| {
        while chars.get(*at).is_some_and(|c| c.is_whitespace()) {
            *at += 1;
        }
    };
    loop {
        skip(&mut at);
        let Some(_) = chars.get(at) else { break };
        let (first, mut number) = (at, 0_u128);
        while let Some(digit) = chars.get(at).filter(|c| c.is_ascii()).and_then(|c| c.to_digit(10))
        {
            number = number.saturating_mul(10).saturating_add(digit.into());
            at += 1;
        }
        if at == first {
            return None;
        }
        skip(&mut at);
        let word: String = chars[at..].iter().take_while(|c| c.is_alphabetic()).collect();
        at += word.chars().count();
        let unit = match word.as_str() {
            "ms" => 1,
            "s" => 1000,
            "m" => 60 * 1000,
            "h" => 60 * 60 * 1000,
            "d" => 24 * 60 * 60 * 1000,
            _ => return None,
        };
        total = total.saturating_add(number.saturating_mul(unit));
        parts += 1;
    }
    (parts > 0).then_some(total).and_then(|total| total.try_into().ok())
}
