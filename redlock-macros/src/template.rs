//! Parses the key template: `"stock-<order.id:05>"` becomes texts and expressions.

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};
use syn::{Error, Expr, LitStr};

use crate::diagnostics::Errors;
use crate::hygiene::is_punct;
use crate::part::{Part, Value};
use crate::{delimiters, hygiene, scan};

pub(crate) struct Template {
    pub(crate) literal: LitStr,
    pub(crate) parts: Vec<Part>,
    /// With two or more placeholders: what the runtime must escape besides `%`, `{` and `}`.
    pub(crate) delimiters: Option<String>,
}

/// Reports everything that is wrong with the template, then returns the parts that could be parsed.
pub(crate) fn parse(literal: LitStr, errors: &mut Errors) -> Template {
    let parts = parts(&literal, errors);
    let (parts, delimiters) = delimiters::choose(parts);
    Template { literal, parts, delimiters }
}

/// An error about a byte range of the literal. On stable the span is the whole literal, so the
/// message draws the caret itself.
pub(crate) fn error(
    literal: &LitStr,
    start: usize,
    end: usize,
    message: impl std::fmt::Display,
) -> Error {
    let text = literal.value();
    // A range that is not one of the text stands for all of it.
    let is_range = text.get(start..end).is_some();
    let (start, end) = if is_range { (start, end) } else { (0, text.len()) };
    let exact = exact(literal, start, end);
    let span = exact.unwrap_or_else(|| literal.span());
    if exact.is_some() || text.contains(char::is_control) {
        return Error::new(span, message);
    }
    let indent = " ".repeat(text[..start].chars().count());
    let carets = "^".repeat(text[start..end].chars().count().max(1));
    Error::new(span, format!("{message}\n    {text}\n    {indent}{carets}"))
}

/// An error about `part` of the literal, or about all of it where that is written otherwise.
pub(crate) fn error_about(literal: &LitStr, part: &str, message: impl std::fmt::Display) -> Error {
    let text = literal.value();
    let start = text.find(part);
    let (start, end) = start.map_or((0, text.len()), |start| (start, start + part.len()));
    error(literal, start, end, message)
}

fn parts(literal: &LitStr, errors: &mut Errors) -> Vec<Part> {
    let template = literal.value();
    if template.is_empty() {
        let message = "the lock key is empty: every caller would share one lock named \"\"";
        errors.at(literal.span(), message);
    }
    let bytes = template.as_bytes();
    let (mut parts, mut text, mut at) = (Vec::new(), String::new(), 0);
    // Text that begins after a bad placeholder is most likely a part of it.
    let mut is_good = true;
    while let Some(c) = template[at..].chars().next() {
        let doubled = matches!(c, '<' | '>') && bytes.get(at + 1) == Some(&bytes[at]);
        if c == '<' && !doubled {
            let Some(ends) = scan::ends(bytes, at + 1) else {
                let message = "this placeholder is never closed: expected `>` (write `<<` for a \
                               literal `<`)";
                errors.push(error(literal, at, template.len(), message));
                return parts;
            };
            if !text.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut text)));
            }
            let value = errors.keep(value(literal, &template, at, &ends));
            is_good &= value.is_some();
            parts.extend(value.map(Part::Value));
            at = ends.close + 1;
            continue;
        }
        if c == '>' && !doubled {
            if is_good {
                errors.push(unmatched(literal, &template, at));
            }
            return parts;
        }
        text.push(c);
        at += c.len_utf8() + usize::from(doubled);
    }
    if !text.is_empty() {
        parts.push(Part::Text(text));
    }
    check_text(literal, &parts, errors);
    parts
}

/// An error for the `>` at `at`, which closes no placeholder. It may belong to an expression that
/// was cut off too early.
fn unmatched(literal: &LitStr, template: &str, at: usize) -> Error {
    let starts = template[..at].match_indices('<').map(|(open, _)| open + 1);
    let ends = || template[at..].match_indices('>').map(|(close, _)| at + close);
    let whole = starts
        .flat_map(|start| ends().map(move |end| (start, end)))
        .filter(|(start, end)| template[*start..*end].contains('>'))
        .find(|(start, end)| syn::parse_str::<Expr>(&template[*start..*end]).is_ok());
    let Some((start, end)) = whole else {
        let message = "unmatched `>` in the lock key; write `>>` for a literal `>`";
        return error(literal, at, at + 1, message);
    };
    let source = template[start..end].trim();
    let message = format!(
        "a `>` ends a placeholder; put an expression with one in parentheses: `<({source})>`"
    );
    error(literal, start - 1, end + 1, message)
}

/// The placeholder between the `<` at `open` and its end.
fn value(literal: &LitStr, template: &str, open: usize, ends: &scan::Ends) -> syn::Result<Value> {
    let (start, end) = (open + 1, ends.colon.unwrap_or(ends.close));
    let source = &template[start..end];
    if source.trim().is_empty() {
        let message = "empty placeholder; name a function argument, as in `<id>`";
        return Err(error(literal, open, ends.close + 1, message));
    }
    let exact = exact(literal, start, end);
    let span = exact.unwrap_or_else(|| literal.span());
    // Located at the literal but with the hygiene of this crate: rustc then never offers to replace
    // the whole literal by a variable. For paths and functions it would: these are located before
    // the literal.
    let at = Span::mixed_site().located_at(span);
    let before = if exact.is_some() { at } else { at.located_at(beginning(span)) };
    let expr = syn::parse_str::<TokenStream>(source)
        .and_then(|tokens| syn::parse2::<Expr>(respan(tokens, at, before)))
        .map_err(|_| error(literal, start, end, not_an_expression(source)))?;
    if let Some(what) = hygiene::forbidden_in_template(&expr) {
        let message = format!(
            "{what} is not allowed in a lock key; compute the value before the call or inside a \
             method"
        );
        return Err(error(literal, start, end, message));
    }
    if matches!(expr, Expr::Lit(_)) {
        let message = format!(
            "`<{source}>` is the same text in every call; name an argument, as in `<id>`, or write \
             the text without the brackets"
        );
        return Err(error(literal, start, end, message));
    }
    let format = ends.colon.map_or("", |colon| &template[colon + 1..ends.close]);
    if let Some(colon) = ends.colon {
        let behind = &template[ends.close + 1..];
        // `<id:>5>`
        let is_aligned = behind.starts_with(|c: char| c.is_ascii_digit()) && behind.contains('>');
        let problem = match format_problem(format) {
            Some(_) if is_aligned && format.chars().count() <= 1 => Some(ALIGNED),
            problem => problem,
        };
        if let Some(problem) = problem {
            return Err(error(literal, colon + 1, ends.close, problem));
        }
    }
    let (format, source) = (format.to_owned(), source.to_owned());
    Ok(Value { expr, format, source, start, end, span })
}

fn not_an_expression(source: &str) -> String {
    let source = source.trim();
    // `type` is a keyword where `r#type` is a name: the parameter itself had to be written so.
    if syn::parse_str::<syn::Ident>(&format!("r#{source}")).is_ok() {
        return format!(
            "`{source}` is a keyword; write `<r#{source}>` for an argument of that name"
        );
    }
    format!(
        "`{source}` is not an expression; a placeholder holds an argument, a field, an index or a \
         method call, as in `<order.item[0].id()>`"
    )
}

/// `[+|-][#][0][width][.precision][type]`: what `format!` accepts, without fill and alignment,
/// whose `<` and `>` are the template's own brackets, and without arguments of its own.
fn format_problem(format: &str) -> Option<&'static str> {
    if format.contains(['<', '^']) {
        return Some(ALIGNED);
    }
    let digits = |text: &str| text.trim_start_matches(|c: char| c.is_ascii_digit()).to_owned();
    let rest = format.strip_prefix(['+', '-']).unwrap_or(format);
    let rest = digits(rest.strip_prefix('#').unwrap_or(rest));
    let kind = match rest.strip_prefix('.') {
        Some(precision) if precision.starts_with(|c: char| c.is_ascii_digit()) => digits(precision),
        Some(_) => return Some(BAD_FORMAT),
        None => rest,
    };
    // `{:#?}` breaks most values into lines.
    if format.contains('#') && kind.ends_with('?') {
        return Some(PRETTY);
    }
    let known = matches!(&*kind, "" | "?" | "x?" | "X?" | "x" | "X" | "o" | "b" | "e" | "E");
    (format.is_empty() || !known).then_some(BAD_FORMAT)
}

/// Reports texts that no value can turn into a valid key.
fn check_text(literal: &LitStr, parts: &[Part], errors: &mut Errors) {
    let texts = || parts.iter().filter_map(Part::text);
    if let Some(c) = texts().flat_map(str::chars).find(|c| c.is_control()) {
        let message = format!(
            "the lock key contains the control character `{}`; a key must be readable in logs and \
             on a terminal",
            c.escape_default()
        );
        errors.at(literal.span(), message);
    }
    let length: usize = texts().map(str::len).sum();
    if length > LONGEST_TEXT {
        let message =
            format!("the lock key has {length} bytes of text; a key may have {LONGEST_TEXT} bytes");
        errors.at(literal.span(), message);
    }
    let has_tag = has_tag(parts);
    for (reserved, what) in RESERVED_ENDS {
        // Without a hash tag the queue of a lock never has the name of another lock.
        let applies = reserved == FENCE || has_tag;
        if applies && parts.last().and_then(Part::text).is_some_and(|text| text.ends_with(reserved))
        {
            let end = literal.value().len();
            let message = format!(
                "a lock key cannot end in `{reserved}`: keys of that form hold {what} of other \
                 locks"
            );
            errors.push(error(literal, end - reserved.len(), end, message));
        }
    }
    // The mistake that was found first is more likely the cause.
    if !has_tag && texts().any(|text| text.contains('}')) && errors.is_empty() {
        let text = literal.value();
        let at = text.find("{}").or_else(|| text.find('}')).unwrap_or_default();
        let end = text[at..].find('}').map_or(at + 1, |close| at + close + 1);
        let message = "braces in a lock key are the hash tag of Redis Cluster, which cannot be \
                       empty and has to be opened before it is closed, as in `{stock}-<id>`; write \
                       an argument as `<id>`";
        errors.push(error(literal, at, end, message));
    }
}

/// Is there any text between the first `{` and the first `}` after it? Values are never empty.
fn has_tag(parts: &[Part]) -> bool {
    let shape: String = parts
        .iter()
        .map(|part| match part {
            Part::Text(text) => text.as_str(),
            Part::Value(_) => "v",
        })
        .collect();
    let tag = shape.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
    tag.is_some_and(|(tag, _)| !tag.is_empty())
}

/// The span of a byte range, if the compiler can give it (nightly) and offsets in the literal's
/// value are offsets in its source (no escapes).
fn exact(literal: &LitStr, start: usize, end: usize) -> Option<Span> {
    let token = literal.token();
    let source = token.to_string();
    if !source.starts_with('"') || source.len() != literal.value().len() + 2 {
        return None;
    }
    token.subspan(start + 1..=end).map(|span| span.resolved_at(literal.span()))
}

/// Gives the tokens of a placeholder the span `at`, and those of paths and functions the span
/// `before`.
fn respan(tokens: TokenStream, at: Span, before: Span) -> TokenStream {
    let trees: Vec<TokenTree> = tokens.into_iter().collect();
    let respan_one = |place: usize| {
        let last = place.checked_sub(1).and_then(|place| trees.get(place));
        let next = trees.get(place + 1);
        let mut token = trees[place].clone();
        let is_path = match &token {
            TokenTree::Ident(name) => {
                let is_segment = is_punct(next, ':') || is_punct(last, ':');
                let is_called = is_arguments(next) && !is_punct(last, '.');
                hygiene::is_constant(name) || is_segment || is_called
            }
            TokenTree::Group(group) => {
                let inner = respan(group.stream(), at, before);
                token = Group::new(group.delimiter(), inner).into();
                false
            }
            _ => false,
        };
        token.set_span(if is_path { before } else { at });
        token
    };
    (0..trees.len()).map(respan_one).collect()
}

fn is_arguments(token: Option<&TokenTree>) -> bool {
    matches!(token, Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis)
}

/// Where `span` begins, without any length: what is put there replaces nothing.
fn beginning(span: Span) -> Span {
    if proc_macro::is_available() { span.unwrap().start().into() } else { span }
}

const ALIGNED: &str = "fill and alignment are not supported in a lock key; pad a number with \
                       zeros, as in `<id:05>`";

const PRETTY: &str = "`#?` prints most values on several lines, and a key cannot hold line breaks; \
                      leave out the `#`";

const BAD_FORMAT: &str =
    "invalid format after `:`; use what `format!` accepts, as in `<id:05>` or `<id:?>`";

/// The longest key that the runtime takes; more literal text than that can never fit.
const LONGEST_TEXT: usize = 1024;

const FENCE: &str = ":fence";

/// Keys with these ends hold the runtime's own data.
const RESERVED_ENDS: [(&str, &str); 3] = [
    (FENCE, "the fencing tokens"),
    (":queue", "the waiting queues"),
    (":holders", "the sets of holders"),
];

#[cfg(test)]
mod tests;
