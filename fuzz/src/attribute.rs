//! The whole attribute on any text between its parentheses.

use proc_macro2::{Span, TokenStream, TokenTree};

use crate::diagnostics::Errors;
use crate::{args, expand, item, plan};

const FUNCTION: &str = "pub(crate) async fn f<T: Sum>(&self, id: u64, (a, b): (u8, T), mut order: \
                        Vec<Order>) -> Result<T, Error> { order.push(id); Ok(a) }";

pub fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let parsed: Result<(TokenStream, TokenStream), _> =
        text.parse().and_then(|options| FUNCTION.parse().map(|function| (options, function)));
    if let Ok((options, function)) = parsed {
        lock(&text, options, function);
    }
    // Positions would pile up for ever.
    proc_macro2::extra::invalidate_current_thread_spans();
}

fn lock(text: &str, options: TokenStream, function: TokenStream) {
    let mut errors = Errors::default();
    let args = args::parse(options, &mut errors);
    let function = item::parse(function, &mut errors).expect("the function is good");
    let plan = plan::plan(args, function, &mut errors);
    match (plan, errors.into_compile_errors()) {
        (Some(plan), None) => {
            let expanded = expand::expand(&plan);
            syn::parse2::<syn::ImplItem>(expanded.clone())
                .unwrap_or_else(|error| panic!("{text:?}: {error}: {expanded}"));
        }
        (None, None) => panic!("{text:?}: neither a plan nor an error"),
        (_, Some(errors)) => check_errors(text, errors),
    }
}

/// Every error has words, and a place in what was written unless it is about what is missing. Where
/// the text ends too early, syn says only what it expected.
fn check_errors(text: &str, errors: TokenStream) {
    let mut messages = Vec::new();
    collect(errors, &mut messages);
    assert!(!messages.is_empty(), "{text:?}");
    for (message, span) in messages {
        assert!(message.len() > 2, "{text:?}: an error without words");
        let is_missing = ["needs a key", "end of input"].iter().any(|what| message.contains(what))
            || message.starts_with("\"expected ") && !message.contains("option");
        assert!(is_missing || span.byte_range().end > 0, "{text:?}: no place for {message}");
    }
}

/// The texts in `compile_error!("..")`, in order.
fn collect(tokens: TokenStream, messages: &mut Vec<(String, Span)>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => collect(group.stream(), messages),
            TokenTree::Literal(literal) => messages.push((literal.to_string(), literal.span())),
            _ => {}
        }
    }
}
