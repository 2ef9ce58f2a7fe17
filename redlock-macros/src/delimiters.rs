//! Makes a template injective: different values never render to the same key.
//!
//! The runtime escapes in every value `%`, `{`, `}` and the delimiters found here, each as `%` and
//! hexadecimal digits of its bytes. That alone is injective for one value. For several:
//!
//! Every separator (the text between two placeholders) contains a delimiter `d` which is neither
//! `%` nor a hexadecimal digit. No escaped value contains `d`: as a character of the value it was
//! escaped, and escapes consist of `%` and hexadecimal digits only. Let `d` be at offset `k` of its
//! separator; `d` was the first candidate there, so it does not occur before `k`. Reading a key
//! from the left, after the fixed text before the first value, the first `d` is at `length of the
//! escaped value + k`. So the escaped value can be read back, the separator can be skipped, and so
//! on; the last value ends where the fixed text after it begins. Key, template and the inverse of
//! the escape give back every value: two tuples with one key are equal.

use crate::part::Part;

/// Chooses a delimiter for each separator, adds one where it is missing, and returns the delimiters
/// for the runtime. `None`: with fewer than two placeholders, no values can be confused.
pub(crate) fn choose(parts: Vec<Part>) -> (Vec<Part>, Option<String>) {
    let values = parts.iter().filter(|part| matches!(part, Part::Value(_))).count();
    if values < 2 {
        return (parts, None);
    }
    let mut chosen = String::new();
    let mut out: Vec<Part> = Vec::new();
    let mut separator: Option<String> = None;
    for part in parts {
        match (&part, &mut separator) {
            // Text before the first value, or after the last one: no value follows it.
            (Part::Text(_), None) => out.push(part),
            (Part::Text(text), Some(separator)) => separator.push_str(text),
            (Part::Value(_), _) => {
                if let Some(separator) = separator.replace(String::new()) {
                    out.push(Part::Text(delimit(separator, &mut chosen)));
                }
                out.push(part);
            }
        }
    }
    out.extend(separator.filter(|text| !text.is_empty()).map(Part::Text));
    (out, Some(chosen))
}

/// `separator` with a delimiter in it, which is noted in `chosen`.
fn delimit(mut separator: String, chosen: &mut String) -> String {
    let delimiter = separator.chars().find(|c| !is_escape(*c)).unwrap_or_else(|| {
        separator.push(FALLBACK);
        FALLBACK
    });
    // Braces are escaped in every value already, because of hash tags.
    if !matches!(delimiter, '{' | '}') && !chosen.contains(delimiter) {
        chosen.push(delimiter);
    }
    separator
}

/// Is `c` a character that escapes consist of?
fn is_escape(c: char) -> bool {
    matches!(c, '%' | '0'..='9' | 'A'..='F')
}

/// Appended to a separator that has no delimiter of its own.
const FALLBACK: char = ':';

#[cfg(test)]
mod tests;
