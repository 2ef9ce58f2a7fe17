//! Texts that many share, such as keys and owner values.

use std::sync::Arc;

/// Most texts have no more bytes.
const SHORT: usize = 128;

/// Joins the parts of a text. A short one takes one allocation, as each lock needs two of them.
pub(crate) fn join<const N: usize>(parts: [&str; N]) -> Arc<str> {
    let (mut text, mut end) = ([0; SHORT], 0);
    for part in parts {
        let Some(place) = text.get_mut(end..end + part.len()) else { return parts.concat().into() };
        place.copy_from_slice(part.as_bytes());
        end += part.len();
    }
    match std::str::from_utf8(&text[..end]) {
        Ok(text) => text.into(),
        Err(_) => unreachable!("each part is text"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_any_length_are_joined() {
        assert_eq!(&*join(["", "é", ""]), "é");
        for length in [SHORT - 3, SHORT - 2, SHORT - 1, SHORT, 3 * SHORT] {
            let long = "x".repeat(length);
            assert_eq!(*join(["é", &long]), format!("é{long}"));
        }
    }
}
