//! Token streams as flat lists. Unlike a syntax tree they show what stands inside macro calls.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::tree::Source;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) text: String,
    pub(crate) line: usize,
}

/// All tokens in order; `::` is one token, brackets are tokens of their own.
pub(crate) fn tokens(source: &Source) -> Vec<Token> {
    let stream: TokenStream =
        source.text.parse().unwrap_or_else(|error| panic!("{}: {error}", source.path));
    let mut flat = Vec::new();
    flatten(stream, &mut flat);
    flat
}

fn flatten(stream: TokenStream, flat: &mut Vec<Token>) {
    for tree in stream {
        let line = tree.span().start().line;
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                flat.push(Token { text: open.to_owned(), line });
                flatten(group.stream(), flat);
                let line = group.span_close().end().line;
                flat.push(Token { text: close.to_owned(), line });
            }
            TokenTree::Punct(punct) => match flat.last_mut() {
                Some(last) if last.text == ":" && punct.as_char() == ':' => last.text.push(':'),
                _ => flat.push(Token { text: punct.to_string(), line }),
            },
            TokenTree::Ident(ident) => flat.push(Token { text: ident.to_string(), line }),
            // The text of a literal is nobody's business: it could look like code.
            TokenTree::Literal(_) => flat.push(Token { text: "\"\"".to_owned(), line }),
        }
    }
}

/// The places where these tokens follow each other.
pub(crate) fn find<'a>(
    tokens: &'a [Token],
    pattern: &'a [&str],
) -> impl Iterator<Item = usize> + 'a {
    let windows = tokens.windows(pattern.len()).enumerate();
    let fits =
        move |window: &[Token]| window.iter().zip(pattern).all(|(token, text)| token.text == *text);
    windows.filter(move |(_, window)| fits(window)).map(|(at, _)| at)
}
