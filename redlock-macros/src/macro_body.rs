//! The expressions in the body of a macro call, whose grammar only the macro itself knows.

use proc_macro2::{TokenStream, TokenTree};
use quote::quote;
use syn::parse::discouraged::Speculative;
use syn::parse::{ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Expr, ExprAwait, ExprReturn, ExprTry, ItemFn, Macro, Token};

/// The arguments of a macro that is called like a function.
pub(crate) fn arguments(call: &Macro) -> Option<Vec<Expr>> {
    let arguments = call.parse_body_with(Punctuated::<Expr, Token![,]>::parse_terminated);
    let value = |argument| match argument {
        // `name = value`, as in `format!`.
        Expr::Assign(named) => *named.right,
        value => value,
    };
    arguments.map(|all| all.into_iter().map(value).collect()).ok()
}

/// What a macro may evaluate: its arguments, or everything that reads like an expression in a body
/// such as `x; 2`, `x, Some(_) if y` or `{"id": x}`.
pub(crate) fn evaluated(call: &Macro) -> Vec<Expr> {
    arguments(call).unwrap_or_else(|| readable(call.tokens.clone()))
}

fn readable(tokens: TokenStream) -> Vec<Expr> {
    // This reads token by token where nothing else can be read, so it does not fail.
    expressions.parse2(tokens).unwrap_or_default()
}

/// At each place the longest expression that begins there. Where none begins, a token is passed
/// over.
fn expressions(input: ParseStream<'_>) -> syn::Result<Vec<Expr>> {
    let mut found = Vec::new();
    let mut passed = None;
    while !input.is_empty() {
        let ahead = input.fork();
        if let Ok(expr) = ahead.parse() {
            input.advance_to(&ahead);
            found.push(expr);
            passed = None;
            continue;
        }
        // A function inside of the body returns from itself.
        let ahead = input.fork();
        if ahead.parse::<ItemFn>().is_ok() {
            input.advance_to(&ahead);
            passed = None;
            continue;
        }
        found.extend(way_out(input, passed.as_ref()));
        let token: TokenTree = input.parse()?;
        if let TokenTree::Group(group) = &token {
            found.extend(readable(group.stream()));
        }
        passed = Some(token);
    }
    Ok(found)
}

/// The `.await`, `?` or `return` that `input` begins with, though it is in no expression. Its
/// operand is the token that was `passed` over: the group of `f(a => b)?`.
fn way_out(input: ParseStream<'_>, passed: Option<&TokenTree>) -> Option<Expr> {
    let is_operand = !matches!(passed, None | Some(TokenTree::Punct(_)));
    let operand = Box::new(Expr::Verbatim(quote!(#passed)));
    let (attrs, ahead) = (Vec::new(), input.fork());
    if input.peek(Token![return]) {
        let return_token = ahead.parse().ok()?;
        return Some(Expr::Return(ExprReturn { attrs, return_token, expr: None }));
    }
    if !is_operand {
        return None;
    }
    if input.peek(Token![?]) {
        let question_token = ahead.parse().ok()?;
        return Some(Expr::Try(ExprTry { attrs, expr: operand, question_token }));
    }
    let (dot_token, await_token) = (ahead.parse().ok()?, ahead.parse().ok()?);
    Some(Expr::Await(ExprAwait { attrs, base: operand, dot_token, await_token }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(body: &str) -> Vec<String> {
        let call: syn::Result<Macro> = syn::parse_str(&format!("m!({body})"));
        let exprs = call.map(|call| evaluated(&call)).unwrap_or_default();
        exprs.iter().map(|expr| quote!(#expr).to_string().replace(' ', "")).collect()
    }

    #[test]
    fn arguments_are_values() {
        assert_eq!(found("a, b = c, d + 1,"), ["a", "c", "d+1"]);
    }

    #[test]
    fn other_bodies_are_read_piece_by_piece() {
        for (body, exprs) in [
            ("f(a).await; 2", &["f(a).await", "2"][..]),
            ("a?, Some(b) if b > 1", &["a?", "Some(b)", "b>1"]),
            ("{ \"id\": f(a)?, \"b\": [c] }", &["\"id\"", "f(a)?", "\"b\"", "[c]"]),
            ("a => |b| b?, c => async { d? }", &["a", "|b|b?", "c", "async{d?}"]),
            ("fn f() -> u8 { return a; } b", &["b"]),
            ("a WHERE b = ?", &["a", "WHERE"]),
            ("T: ?Sized, ..a", &["T", "Sized", "..a"]),
        ] {
            assert_eq!(found(body), exprs, "{body}");
        }
    }

    /// The operand is not an expression, but a group of tokens that an inner macro understands.
    #[test]
    fn ways_out_after_other_tokens_are_found() {
        for (body, way_out) in [
            ("f(a => b)? => c", "(a=>b)?"),
            ("f(a => b).await => c", "(a=>b).await"),
            ("return => a", "return"),
        ] {
            assert!(found(body).iter().any(|expr| expr == way_out), "{body}: {:?}", found(body));
        }
    }
}
