//! Finds where a placeholder of a key template ends.

/// Byte offsets within the template: the `:` before the format, if any, and the closing `>`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ends {
    pub(crate) colon: Option<usize>,
    pub(crate) close: usize,
}

/// The first `:` and `>` outside of brackets, string and character literals and turbofishes.
pub(crate) fn ends(bytes: &[u8], start: usize) -> Option<Ends> {
    let (mut at, mut depth, mut colon) = (start, 0_usize, None);
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b'"' => at = string_end(bytes, at),
            b'\'' => at = char_end(bytes, at),
            b':' if bytes.get(at + 1) == Some(&b':') => {
                at += 1;
                if bytes.get(at + 1) == Some(&b'<') {
                    at = turbofish_end(bytes, at + 1);
                }
            }
            b':' if depth == 0 && colon.is_none() => colon = Some(at),
            b'>' if depth == 0 => return Some(Ends { colon, close: at }),
            _ => {}
        }
        at += 1;
    }
    None
}

/// Offset of the closing quote, or of the end.
fn string_end(bytes: &[u8], open: usize) -> usize {
    let mut at = open + 1;
    while at < bytes.len() && bytes[at] != b'"' {
        at += 1 + usize::from(bytes[at] == b'\\');
    }
    at
}

/// Offset of the closing `'`; the offset of `open` itself where it begins a lifetime.
fn char_end(bytes: &[u8], open: usize) -> usize {
    // The longest character literal is `'\u{10ffff}'`.
    let first = open + 1 + usize::from(bytes.get(open + 1) == Some(&b'\\'));
    let closing = bytes.iter().skip(first + 1).take(10).position(|byte| *byte == b'\'');
    let escaped = first > open + 1;
    match closing {
        Some(n) if escaped || n == 0 || bytes[first] >= 0x80 => first + 1 + n,
        _ => open,
    }
}

/// Offset of the `>` that closes the `<` at `open`.
fn turbofish_end(bytes: &[u8], open: usize) -> usize {
    let (mut at, mut angle) = (open, 0_usize);
    while at < bytes.len() {
        match bytes[at] {
            b'<' => angle += 1,
            b'>' if bytes[at - 1] != b'-' => {
                angle -= 1;
                if angle == 0 {
                    break;
                }
            }
            _ => {}
        }
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::ends;

    /// Source and format of the placeholder that begins `text` (after its `<`).
    fn cut(text: &str) -> Option<(&str, Option<&str>)> {
        let ends = ends(text.as_bytes(), 0)?;
        let source = &text[..ends.colon.unwrap_or(ends.close)];
        Some((source, ends.colon.map(|colon| &text[colon + 1..ends.close])))
    }

    #[test]
    fn ends_at_the_first_free_bracket_or_colon() {
        for (text, source, format) in [
            ("id>-x", "id", None),
            ("id:05>", "id", Some("05")),
            ("id:?>>>", "id", Some("?")),
            ("a.b[0].c()>", "a.b[0].c()", None),
            ("(a > b)>", "(a > b)", None),
            ("a::b>", "a::b", None),
            ("a::<B<C>>()>", "a::<B<C>>()", None),
            ("a::<fn() -> B>()>", "a::<fn() -> B>()", None),
            ("f(\">\")>", "f(\">\")", None),
            ("f(\"\\\">\")>", "f(\"\\\">\")", None),
            ("\":\":>5>", "\":\"", Some("")),
            ("'>'>", "'>'", None),
            ("'\\'':?>", "'\\''", Some("?")),
            ("'é'>", "'é'", None),
            ("f::<'a>()>", "f::<'a>()", None),
            ("m[\"a:b\"]:x>", "m[\"a:b\"]", Some("x")),
            ("S { a: b }.c:05>", "S { a: b }.c", Some("05")),
            ("id:a:b>", "id", Some("a:b")),
        ] {
            assert_eq!(cut(text), Some((source, format)), "{text}");
        }
    }

    #[test]
    fn an_open_placeholder_has_no_end() {
        for text in ["id", "(id>", "f(\">", "a::<b", "\"\\"] {
            assert_eq!(ends(text.as_bytes(), 0), None, "{text}");
        }
    }
}
