//! The text of tokens, as it is shown.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// The text of `tokens`, with those spaces only that tell words apart. Where else the compiler puts
/// spaces differs from version to version, and a label of metrics must not.
pub(crate) fn source_text(tokens: TokenStream) -> String {
    let mut text = String::new();
    append(tokens, &mut text);
    text
}

fn append(tokens: TokenStream, text: &mut String) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                text.push_str(open);
                append(group.stream(), text);
                text.push_str(close);
            }
            token => {
                let token = token.to_string();
                if text.ends_with(is_of_word) && token.starts_with(is_of_word) {
                    text.push(' ');
                }
                text.push_str(&token);
            }
        }
    }
}

fn is_of_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_told_apart_and_nothing_else_is() {
        let text = |source: &str| source_text(source.parse().unwrap());
        assert_eq!(text("order . lock_key ( )"), "order.lock_key()");
        assert_eq!(text("format ! (\"a {}\" , id as u64)"), "format!(\"a {}\",id as u64)");
        assert_eq!(text("& keys [ 0 .. n + 1 ]"), "&keys[0..n+1]");
        assert_eq!(text("{ match x { _ => 'c' } }"), "{match x{_=>'c'}}");
    }
}
