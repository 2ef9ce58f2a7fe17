//! Keys that compile but mean one lock for all callers: an argument is named in plain text.

use proc_macro2::{Ident, Literal, TokenStream, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::{Block, Error, Expr, LitStr, Macro, Stmt};

use crate::part::Part;
use crate::template::{self, Template};
use crate::{hygiene, macro_body};

/// A template in which an argument is named in a way that is not a placeholder.
pub(crate) fn in_template(template: &Template, names: &[Ident]) -> Option<Error> {
    let values = || template.parts.iter().filter_map(Part::expr).map(ToTokens::to_token_stream);
    let is_read =
        |name: &&Ident| values().any(|value| hygiene::mentions(value, std::slice::from_ref(*name)));
    let unread: Vec<Ident> = names.iter().filter(|name| !is_read(name)).cloned().collect();
    in_brackets(template, &unread)
        .or_else(|| in_braces(template, &unread))
        .or_else(|| behind_sign(template, &unread))
}

/// A template in which `:id`, `$id` or `#id` names an argument that no placeholder reads. Behind a
/// word, `:` and `#` are delimiters: `stock:id` is ordinary text. Behind a hash tag they are where
/// the template has placeholders: without any, its braces were probably meant as one.
fn behind_sign(template: &Template, unread: &[Ident]) -> Option<Error> {
    let has_value = template.parts.iter().any(|part| part.expr().is_some());
    let mut before = None;
    let found = template.parts.iter().find_map(|part| {
        let Part::Text(text) = part else {
            before = Some(VALUE);
            return None;
        };
        text.match_indices([':', '$', '#']).find_map(|(at, sign)| {
            let before = text[..at].chars().next_back().or(before);
            let ends_word = |c| is_word(c) || c == '}' && has_value;
            let joins = |c| ends_word(c) && sign != "$" || [':', '$', '#'].contains(&c);
            let word = first_word(&text[at + sign.len()..]);
            let names_one = || unread.iter().any(|name| name.unraw() == word);
            (!before.is_some_and(joins) && names_one()).then_some((sign, word))
        })
    });
    let (sign, word) = found?;
    let message = format!(
        "`{sign}{word}` is plain text in a template, so that calls with another `{word}` would \
         share one lock; write `<{word}>`. Where the text is meant, give the key as an expression, \
         such as a constant"
    );
    Some(template::error_about(&template.literal, &[sign, word].concat(), message))
}

/// A template in which `{id}` stands behind a placeholder and names an argument that none reads. A
/// hash tag stands first.
fn in_braces(template: &Template, unread: &[Ident]) -> Option<Error> {
    let parts = template.parts.iter().skip_while(|part| part.expr().is_none());
    let mut texts = parts.filter_map(Part::text);
    let name_in = |text: &str| {
        let name = |name: &Ident| name.unraw().to_string();
        unread.iter().map(name).find(|name| text.contains(&format!("{{{name}}}")))
    };
    let name = texts.find_map(name_in)?;
    Some(plain_text(template, &format!("{{{name}}}"), &name))
}

/// Stands for the text of a placeholder, of which nothing is known but that it is a word.
const VALUE: char = 'v';

/// A template in which `{id}`, or the `<id>` of `<<id>>`, names an argument that no placeholder
/// reads; without placeholders, whether it is closed or not. Beside placeholders, see `in_braces`.
fn in_brackets(template: &Template, unread: &[Ident]) -> Option<Error> {
    let is_alone = template.parts.len() == 1;
    let mut texts = template.parts.iter().filter_map(Part::text);
    let brackets = [('<', "<<", '>', ">>"), ('{', "{", '}', "}")];
    let brackets = if is_alone { &brackets[..] } else { &brackets[..1] };
    let in_text = |text| {
        brackets.iter().find_map(|&(open, opened, close, closed)| {
            match named(text, open, close, unread) {
                Some(inner) => Some((inner.to_owned(), [opened, inner, closed].concat())),
                None if !is_alone => None,
                None => unclosed(text, open, unread)
                    .map(|inner| (inner.to_owned(), [opened, inner].concat())),
            }
        })
    };
    let (inner, shown) = texts.find_map(in_text)?;
    Some(plain_text(template, &shown, &inner))
}

/// Brackets or braces in a template, `shown`, which is their text and what is around it.
fn plain_text(template: &Template, shown: &str, inner: &str) -> Error {
    let is_alone = template.parts.len() == 1;
    let sharing = if is_alone { "all calls" } else { "calls that differ in it only" };
    let signs = if shown.starts_with('{') { "braces" } else { "brackets" };
    let message = format!(
        "`{shown}` is plain text in a template, so that {sharing} would share one lock; write \
         `<{inner}>`. Where the {signs} are meant, give the key as an expression, such as a \
         constant"
    );
    template::error_about(&template.literal, shown, message)
}

/// An expression with a string in which `<id>` names an argument that is not read elsewhere; or
/// whose value can be such a string, whatever a condition around it reads.
pub(crate) fn in_expression(expr: &Expr, names: &[Ident]) -> Option<Error> {
    let tokens = spelled_out(expr.to_token_stream());
    let is_unread = |name: &&Ident| !hygiene::mentions(tokens.clone(), std::slice::from_ref(*name));
    let unread: Vec<Ident> = names.iter().filter(is_unread).cloned().collect();
    let expr = syn::parse2::<Expr>(tokens.clone()).ok();
    let texts = expr.iter().flat_map(values).filter(is_text);
    in_strings(tokens.clone(), &unread)
        .or_else(|| texts.into_iter().find_map(|text| in_strings(text.to_token_stream(), names)))
}

fn in_strings(tokens: TokenStream, names: &[Ident]) -> Option<Error> {
    strings(tokens).into_iter().find_map(|literal| {
        let text = literal.value();
        let inner = named(&text, '<', '>', names)?.trim();
        let message = format!(
            "`<{inner}>` is plain text here, not a placeholder, so that calls would share one \
             lock; a template is a string literal alone, as in `key = \"stock-<{inner}>\"`, and \
             an expression takes arguments by `format!(..)`"
        );
        Some(Error::new(literal.span(), message))
    })
}

/// The code with the text of each `stringify!(..)` in its place: what stands there is not read.
fn spelled_out(tokens: TokenStream) -> TokenStream {
    let mut spelled: Vec<TokenTree> = Vec::new();
    for token in tokens {
        let TokenTree::Group(group) = token else {
            spelled.push(token);
            continue;
        };
        if let [.., TokenTree::Ident(name), TokenTree::Punct(bang)] = spelled.as_slice()
            && name == "stringify"
            && bang.as_char() == '!'
        {
            let mut text = Literal::string(&group.stream().to_string());
            text.set_span(name.span());
            spelled.truncate(spelled.len() - 2);
            spelled.push(text.into());
            continue;
        }
        let inner = spelled_out(group.stream());
        spelled.push(hygiene::grouped(group.delimiter(), inner, group.span()).into());
    }
    spelled.into_iter().collect()
}

/// The expressions of which one becomes the value: those at the ends of branches and blocks. Of a
/// list of keys, each of its elements.
fn values(expr: &Expr) -> Vec<Expr> {
    match expr {
        Expr::If(branch) => {
            let mut found = last_of(&branch.then_branch);
            found.extend(branch.else_branch.iter().flat_map(|(_, other)| values(other)));
            found
        }
        Expr::Match(all) => all.arms.iter().flat_map(|arm| values(&arm.body)).collect(),
        Expr::Block(block) => last_of(&block.block),
        Expr::Unsafe(block) => last_of(&block.block),
        Expr::Paren(inner) => values(&inner.expr),
        Expr::Reference(inner) => values(&inner.expr),
        Expr::Array(list) => list.elems.iter().flat_map(values).collect(),
        Expr::Macro(call) if is_vec(&call.mac) => {
            macro_body::arguments(&call.mac).iter().flatten().flat_map(values).collect()
        }
        value => vec![value.clone()],
    }
}

fn is_vec(call: &Macro) -> bool {
    call.path.segments.last().is_some_and(|segment| segment.ident == "vec")
}

fn last_of(block: &Block) -> Vec<Expr> {
    match block.stmts.last() {
        Some(Stmt::Expr(last, None)) => values(last),
        _ => Vec::new(),
    }
}

/// Is it made of literals and constants only?
fn is_text(expr: &Expr) -> bool {
    match expr {
        Expr::Lit(_) => true,
        Expr::Path(path) => path.path.get_ident().is_none_or(hygiene::is_constant),
        Expr::Macro(call) => call.mac.tokens.clone().into_iter().all(|token| match token {
            TokenTree::Literal(literal) => !literal.to_string().contains('{'),
            TokenTree::Punct(_) => true,
            TokenTree::Ident(_) | TokenTree::Group(_) => false,
        }),
        expr => {
            let parts = hygiene::children(expr);
            !parts.is_empty() && parts.into_iter().all(is_text)
        }
    }
}

/// The first of `names` that follows the last bracket. For texts in which `named` finds nothing, so
/// that this bracket is not closed.
fn unclosed<'a>(text: &'a str, open: char, names: &[Ident]) -> Option<&'a str> {
    let inner = &text[text.rfind(open)? + open.len_utf8()..];
    let word = first_word(inner);
    names.iter().any(|name| name.unraw() == word).then_some(word)
}

/// The word that `text` begins with; it may be empty.
fn first_word(text: &str) -> &str {
    &text[..text.find(|c| !is_word(c)).unwrap_or(text.len())]
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// The text between the first brackets that begin with one of `names`.
fn named<'a>(text: &'a str, open: char, close: char, names: &[Ident]) -> Option<&'a str> {
    text.match_indices(open).find_map(|(at, _)| {
        let inner = &text[at + open.len_utf8()..];
        let inner = &inner[..inner.find(close)?];
        let word = first_word(inner.trim_start());
        names.iter().any(|name| name.unraw() == word).then_some(inner)
    })
}

fn strings(tokens: TokenStream) -> Vec<LitStr> {
    let mut found = Vec::new();
    for token in tokens {
        match token {
            TokenTree::Group(group) => found.extend(strings(group.stream())),
            TokenTree::Literal(literal) => {
                found.extend(syn::parse2::<LitStr>(TokenTree::Literal(literal).into()));
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use proc_macro2::Span;

    use super::*;
    use crate::diagnostics::Errors;

    fn trap(template: &str) -> Option<String> {
        let literal = LitStr::new(template, Span::call_site());
        let template = template::parse(literal, &mut Errors::default());
        let names = [Ident::new("id", Span::call_site())];
        in_template(&template, &names).map(|error| error.to_string())
    }

    #[test]
    fn a_text_that_can_be_the_value_is_not_excused_by_a_condition() {
        let trap = |expr: &str| {
            let names = [Ident::new("id", Span::call_site())];
            in_expression(&syn::parse_str(expr).unwrap(), &names).is_some()
        };
        for expr in [
            r#"if id > 3 { "big-<id>" } else { "small" }"#,
            r#"if id > 3 { "big" } else if id > 1 { "some" } else { ("small-<id>") }"#,
            r#"match id { 0 => "zero", _ => "n-<id>" }"#,
            r#"match id { 0 => String::from("zero"), _ => { "n-<id>".to_owned() } }"#,
            r#"if id > 3 { PREFIX.to_owned() + "-<id>" } else { format!("few") }"#,
            r#"if id > 3 { format!("<id>") } else { format!("few-{id}") }"#,
            r#"{ let even = id % 2 == 0; &if even { "<id>" } else { "odd" } }"#,
            r#"if id > 3 { ["a-<id>", "b"] } else { ["a", "b"] }"#,
            r#"if id > 3 { unsafe { "a-<id>" } } else { "b" }"#,
            r#"vec!["acct-<id>".to_owned(), format!("acct-{id}")]"#,
            r#"&["acct-<id>".to_owned(), format!("acct-{id}")]"#,
            r#"if id > 3 { std::vec!["acct-<id>".to_owned(), name(id)] } else { vec![name(id)] }"#,
            "stringify!(stock-<id>)",
            r#"concat!("a-", std::stringify!(<id>))"#,
        ] {
            assert!(trap(expr), "{expr}");
        }
        for expr in [
            r#"if id > 3 { TEMPLATE } else { format!("small-{id}") }"#,
            r#""n-<id>".replace("<id>", &id.to_string())"#,
            r#"if id > 3 { "n-<id>".replace("<id>", &id.to_string()) } else { "few" }"#,
            r#"{ let text = render(id); text.replace("<id>", "x") }"#,
            r#"{ let n = id % 4; format!("<id>-{n}") }"#,
            r#"if id < 3 { stringify!(few) } else { "many" }"#,
            r#"vec!["acct-<id>".replace("<id>", &id.to_string()), format!("acct-{id}")]"#,
            r#"vec![name(id, "<id>"); 2]"#,
            r#"if id < 3 { render!("<id>", id) } else { render!("n-<id>", id) }"#,
        ] {
            assert!(!trap(expr), "{expr}");
        }
    }

    /// A doubled bracket in the brackets: the text that names the argument is written otherwise.
    #[test]
    fn a_name_in_brackets_is_found_beside_any_characters() {
        for (template, shown) in [
            ("xx<<id<<ééé>>", "`<<id<ééé>>`"),
            ("x{id<<ééé}", "`{id<ééé}`"),
            ("ééé<<id>>", "`<<id>>`"),
            ("ééé{id", "`{id`"),
        ] {
            let message = trap(template).unwrap_or_default();
            assert!(message.starts_with(shown), "{template}: {message}");
        }
        for template in ["x{ééé}", "x{idé}", "x{idé"] {
            assert_eq!(trap(template), None, "{template}");
        }
        let message = trap("<n>-<<id>>").unwrap_or_default();
        assert!(message.starts_with("`<<id>>`"), "{message}");
        for template in ["{id}-<id>", "<<id-<n>", "{id}-<n>", "{stock}-<n>", "{<n>}<n>", "{id<n>}"]
        {
            assert_eq!(trap(template), None, "{template}");
        }
    }

    /// A hash tag stands first, and is a word of its own.
    #[test]
    fn a_name_in_braces_is_found_behind_a_placeholder() {
        for template in ["stock-<n>-{id}", "<n>{id}", "{shop}-<n>-{x}{id}", "{<n>}-{id}"] {
            let message = trap(template).unwrap_or_default();
            assert!(message.starts_with("`{id}`"), "{template}: {message}");
            assert!(message.contains("differ in it only"), "{template}: {message}");
        }
        for template in ["{id}-<n>", "<n>-{id", "<n>-{ids}", "<n>-{shop}", "<n>-{id}-<id>"] {
            assert_eq!(trap(template), None, "{template}");
        }
    }

    /// Behind a hash tag as well, where a placeholder shows that the template is understood.
    #[test]
    fn a_sign_behind_a_word_is_a_delimiter() {
        for template in
            ["stock:id", "<n>:id", "{<n>}:id-<n>", "{<n>}#id", "{shop}:id-<n>", "{<n>}::id"]
        {
            assert_eq!(trap(template), None, "{template}");
        }
        for (template, shown) in [
            ("stock-:id", "`:id`"),
            ("<n>-#id", "`#id`"),
            ("<n>$id", "`$id`"),
            ("{<n>}$id", "`$id`"),
            ("{<n>}-:id", "`:id`"),
            ("{shop}:id", "`:id`"),
            ("{shop}#id", "`#id`"),
        ] {
            let message = trap(template).unwrap_or_default();
            assert!(message.starts_with(shown), "{template}: {message}");
        }
    }
}
