//! Text that other programs have written, such as the value of a key: how it is shown.

use std::borrow::Cow;

/// So many characters are shown. An owner value of this library never has more: the name of its
/// client has up to 256 bytes.
const SHOWN: usize = 300;

/// The beginning of `text`: errors may be kept, and cloned for many callers.
pub(crate) fn cut(text: &str) -> String {
    cut_after(SHOWN, text)
}

/// The first `most` characters of `text`, and that it goes on.
pub(crate) fn cut_after(most: usize, text: &str) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// The beginning of `text` for messages and events. Characters that control a terminal, begin a
/// line, or that nobody sees are escaped; an empty text is shown as a pair of quotes.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    let text = match text.char_indices().nth(SHOWN) {
        Some(_) => Cow::Owned(cut(text)),
        None => Cow::Borrowed(text),
    };
    if text.is_empty() { Cow::Borrowed("\"\"") } else { escaped(text) }
}

/// What a server or a client library says, in one line.
pub(crate) fn in_one_line(text: String) -> String {
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let text = if text.contains(['\n', '\r']) { lines.join("; ") } else { text };
    escaped(Cow::Owned(text)).into_owned()
}

fn escaped(text: Cow<'_, str>) -> Cow<'_, str> {
    let is_seen = |c: char| matches!(c, '"' | '\'' | '\\') || c.escape_debug().len() == 1;
    if text.chars().all(is_seen) { text } else { Cow::Owned(text.escape_debug().to_string()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_reader_sees_is_one_short_line() {
        for text in ["web-3:9f0c", "3 readers", "caf\u{e9} `it's` \"\\\"", "Jose\u{301}"] {
            assert_eq!(shown(text), text);
        }
        assert_eq!(shown(""), "\"\"");
        assert_eq!(shown("a\nb\u{1b}[2J\u{202e}\u{200b}\u{2028}"), {
            "a\\nb\\u{1b}[2J\\u{202e}\\u{200b}\\u{2028}"
        });
        let long = "\u{e9}".repeat(SHOWN + 1);
        assert_eq!(shown(&long), format!("{}...", &long[..2 * SHOWN]));
        assert_eq!(shown(&cut(&long)), shown(&long), "what was cut stays so");
    }

    #[test]
    fn what_a_client_library_says_in_several_lines_becomes_one() {
        let said = |text: &str| in_one_line(text.to_owned());
        assert_eq!(
            said("Parse error at 1\nUnexpected `33`\n"),
            "Parse error at 1; Unexpected `33`"
        );
        assert_eq!(said("  ERR `it's` \"so\""), "  ERR `it's` \"so\"");
        assert_eq!(said("a\r\n\u{1b}[2J"), "a; \\u{1b}[2J");
        assert_eq!(said(""), "");
    }

    /// The longest name of a client, and a lock that it has let go of.
    #[test]
    fn an_owner_value_is_never_cut() {
        let owner = crate::owner::Owner::of_nobody(&"w".repeat(256));
        assert_eq!(cut(&owner.retained()), owner.retained());
    }
}
