//! Names: which ones a function binds, which ones an expression reads, and whose hygiene they get.

use proc_macro2::{Delimiter, Group, Ident, Literal, Punct, Spacing, Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::{Expr, ExprPath, Pat, PatIdent};

use crate::macro_body;

/// The names that `pattern` binds.
pub(crate) fn bound(pattern: &Pat, out: &mut Vec<Ident>) {
    each_binding(&mut pattern.clone(), &mut |pattern| out.push(pattern.ident.clone()));
}

/// Visits every part of `pattern` that binds a name, of alternatives those of the first one: each
/// binds the same names.
pub(crate) fn each_binding(pattern: &mut Pat, visit: &mut impl FnMut(&mut PatIdent)) {
    each_binding_of(1, pattern, visit);
}

/// Visits every part of `pattern` that binds a name, in all of its alternatives.
pub(crate) fn every_binding(pattern: &mut Pat, visit: &mut impl FnMut(&mut PatIdent)) {
    each_binding_of(usize::MAX, pattern, visit);
}

fn each_binding_of(cases: usize, pattern: &mut Pat, visit: &mut impl FnMut(&mut PatIdent)) {
    match pattern {
        Pat::Ident(name) => {
            visit(name);
            if let Some((_, inner)) = &mut name.subpat {
                each_binding_of(cases, inner, visit);
            }
        }
        Pat::Reference(inner) => each_binding_of(cases, &mut inner.pat, visit),
        Pat::Paren(inner) => each_binding_of(cases, &mut inner.pat, visit),
        Pat::Type(inner) => each_binding_of(cases, &mut inner.pat, visit),
        Pat::Tuple(all) => each_binding_in(cases, &mut all.elems, visit),
        Pat::TupleStruct(all) => each_binding_in(cases, &mut all.elems, visit),
        Pat::Struct(all) => {
            each_binding_in(cases, all.fields.iter_mut().map(|field| &mut *field.pat), visit);
        }
        Pat::Slice(all) => each_binding_in(cases, &mut all.elems, visit),
        Pat::Or(or) => each_binding_in(cases, or.cases.iter_mut().take(cases), visit),
        _ => {}
    }
}

fn each_binding_in<'a>(
    cases: usize,
    patterns: impl IntoIterator<Item = &'a mut Pat>,
    visit: &mut impl FnMut(&mut PatIdent),
) {
    patterns.into_iter().for_each(|inner| each_binding_of(cases, inner, visit));
}

/// The plain names that `expr` reads: `order` and `n` in `order.items[n].id()`. Functions, methods,
/// fields and paths are left out; the arguments of macros stay unknown.
pub(crate) fn reads(expr: &Expr) -> Vec<&Ident> {
    if let Expr::Path(ExprPath { qself: None, path, .. }) = expr {
        return path.get_ident().into_iter().collect();
    }
    let mut names = Vec::new();
    for child in children(expr) {
        names.extend(reads(child));
    }
    names
}

/// Does `expr` read `_`, which stands in place of a name that a parameter does not have?
pub(crate) fn reads_blank(expr: &Expr) -> bool {
    matches!(expr, Expr::Infer(_)) || children(expr).into_iter().any(reads_blank)
}

/// `LIKE_THIS`: a constant or a const generic, which need not be an argument.
pub(crate) fn is_constant(name: &Ident) -> bool {
    name.to_string().chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

/// `LikeThis`: what a pattern has under this name may be a unit struct or a constant.
pub(crate) fn is_upper_case(name: &Ident) -> bool {
    name.unraw().to_string().starts_with(char::is_uppercase)
}

/// `_like_this`: no lint expects that the variable is read.
pub(crate) fn is_underscored(name: &Ident) -> bool {
    name.to_string().starts_with('_')
}

/// Are these one name? `id` and `r#id` are two spellings of it; `match` is a keyword, beside which
/// there may be a variable `r#match`.
pub(crate) fn is_same(one: &Ident, other: &Ident) -> bool {
    let (one, other) = (one.to_string(), other.to_string());
    if one == other {
        return true;
    }
    match (one.strip_prefix("r#"), other.strip_prefix("r#")) {
        (Some(raw), None) if raw == other => syn::parse_str::<Ident>(raw).is_ok(),
        (None, Some(raw)) if raw == one => syn::parse_str::<Ident>(raw).is_ok(),
        _ => false,
    }
}

/// Is `name` one of `names`, in whatever spelling?
pub(crate) fn is_one_of(name: &Ident, names: &[Ident]) -> bool {
    names.iter().any(|one| is_same(one, name))
}

/// Does any token of `tokens` have one of these names, or any literal contain one, like the string
/// of `format!`? In doubt the answer is yes.
pub(crate) fn mentions(tokens: TokenStream, names: &[Ident]) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => is_one_of(&ident, names),
        TokenTree::Group(group) => mentions(group.stream(), names),
        TokenTree::Literal(literal) => names.iter().any(|name| is_captured(name, &literal)),
        TokenTree::Punct(_) => false,
    })
}

/// May the code read a variable of one of these names? As [`mentions`], without the names of fields
/// and methods, and without those before a `:`: fields of a struct literal, and new variables.
pub(crate) fn may_use(tokens: TokenStream, names: &[Ident]) -> bool {
    let mut dots = Dots::default();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let is_field = dots.select_field(&token);
        let found = match token {
            TokenTree::Ident(_) if is_field || is_punct(tokens.peek(), ':') => false,
            TokenTree::Group(group) => may_use(group.stream(), names),
            token => mentions(token.into(), names),
        };
        if found {
            return true;
        }
    }
    false
}

/// How many dots stand before a token. One precedes a field or a method, two the end of a range.
#[derive(Default)]
struct Dots(usize);

impl Dots {
    /// Is `token`, the next one, the name of a field or a method?
    fn select_field(&mut self, token: &TokenTree) -> bool {
        let is_field = self.0 == 1;
        self.0 = if is_punct(Some(token), '.') { self.0 + 1 } else { 0 };
        is_field
    }
}

pub(crate) fn is_punct(token: Option<&TokenTree>, sign: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == sign)
}

/// Does any string in the code name `self`, like that of `format!("{self}")`?
pub(crate) fn formats_self(tokens: TokenStream) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Group(group) => formats_self(group.stream()),
        TokenTree::Literal(literal) => captures(&literal.to_string(), "self"),
        TokenTree::Ident(_) | TokenTree::Punct(_) => false,
    })
}

/// Does the string of `format!` name it?
fn is_captured(name: &Ident, literal: &Literal) -> bool {
    captures(&literal.to_string(), &name.unraw().to_string())
}

/// Does the format string `text` contain the word `name`, as in `{name}` or `{:name$}`?
fn captures(text: &str, name: &str) -> bool {
    let is_word = |c: char| c == '_' || c.is_alphanumeric();
    text.match_indices(name).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + name.len()..]);
        let is_open = before.rfind('{') > before.rfind('}');
        is_open && !before.ends_with(is_word) && !after.starts_with(is_word)
    })
}

/// A group whose delimiters have this span.
pub(crate) fn grouped(delimiter: Delimiter, tokens: TokenStream, span: Span) -> Group {
    let mut group = Group::new(delimiter, tokens);
    group.set_span(span);
    group
}

/// `gen` is a keyword in the edition of this crate, though not in those of all callers: in a
/// template, whose names have the hygiene of this crate, it has to be raw.
pub(crate) fn raw_keywords(tokens: TokenStream) -> TokenStream {
    let raw = |token: TokenTree| match token {
        TokenTree::Ident(ident) if ident == "gen" => Ident::new_raw("gen", ident.span()).into(),
        TokenTree::Group(group) => {
            grouped(group.delimiter(), raw_keywords(group.stream()), group.span()).into()
        }
        other => other,
    };
    tokens.into_iter().map(raw).collect()
}

/// Gives every mention of a parameter the hygiene of the parameter itself, so that it resolves even
/// when function and attribute come from different `macro_rules!`; also in the string of `format!`,
/// whose names have the hygiene of the string. All other names keep their own hygiene. `this`
/// replaces `self` where async-trait has moved it.
pub(crate) fn adopt(tokens: TokenStream, names: &[Ident], this: Option<&Ident>) -> TokenStream {
    let mut dots = Dots::default();
    let mut tokens = tokens.into_iter().peekable();
    let mut adopted = TokenStream::new();
    while let Some(token) = tokens.next() {
        let is_field = dots.select_field(&token);
        let token: TokenTree = match token {
            TokenTree::Ident(ident) if !is_field && !begins_path(tokens.peek()) => {
                let known = || names.iter().find(|name| is_same(name, &ident));
                let owner = this.filter(|_| ident == "self").or_else(known);
                let adopted = owner.map(|name| {
                    let mut name = name.clone();
                    name.set_span(name.span().located_at(ident.span()));
                    name
                });
                adopted.unwrap_or(ident).into()
            }
            TokenTree::Group(group) => {
                let inner = adopt(group.stream(), names, this);
                grouped(group.delimiter(), inner, group.span()).into()
            }
            TokenTree::Literal(mut literal) => {
                if let Some(name) = names.iter().find(|name| is_captured(name, &literal)) {
                    literal.set_span(name.span().located_at(literal.span()));
                }
                literal.into()
            }
            other => other,
        };
        adopted.extend([token]);
    }
    adopted
}

/// Is `next` the first half of a `::`? A name before it is a module or a type: the `self` of
/// `self::shard()` is not a receiver.
fn begins_path(next: Option<&TokenTree>) -> bool {
    let is_joint_colon =
        |punct: &Punct| punct.as_char() == ':' && punct.spacing() == Spacing::Joint;
    matches!(next, Some(TokenTree::Punct(punct)) if is_joint_colon(punct))
}

/// Why an expression cannot be in a placeholder, which may only read a value.
pub(crate) fn forbidden_in_template(expr: &Expr) -> Option<&'static str> {
    let what = match expr {
        Expr::Await(_) => "`.await`",
        Expr::Try(_) => "`?`",
        Expr::Return(_)
        | Expr::Break(_)
        | Expr::Continue(_)
        | Expr::If(_)
        | Expr::Match(_)
        | Expr::Loop(_)
        | Expr::While(_)
        | Expr::ForLoop(_)
        | Expr::Let(_) => "control flow",
        Expr::Async(_) | Expr::Block(_) | Expr::Unsafe(_) | Expr::Const(_) | Expr::TryBlock(_) => {
            "a block"
        }
        Expr::Assign(_) => "an assignment",
        Expr::Binary(binary) if is_assignment(&binary.op) => "an assignment",
        Expr::Closure(_) => "a closure",
        Expr::Macro(call) => {
            return macro_body::evaluated(&call.mac).iter().find_map(forbidden_in_template);
        }
        _ => return children(expr).into_iter().find_map(forbidden_in_template),
    };
    Some(what)
}

fn is_assignment(op: &syn::BinOp) -> bool {
    op.to_token_stream().to_string().ends_with('=') && !is_comparison(op)
}

fn is_comparison(op: &syn::BinOp) -> bool {
    use syn::BinOp::{Eq, Ge, Le, Ne};
    matches!(op, Eq(_) | Le(_) | Ge(_) | Ne(_))
}

/// The direct parts of an expression that is evaluated as a whole, without deferred code and
/// blocks.
pub(crate) fn children(expr: &Expr) -> Vec<&Expr> {
    match expr {
        Expr::Field(field) => vec![&field.base],
        Expr::Index(index) => vec![&index.expr, &index.index],
        Expr::MethodCall(call) => [&*call.receiver].into_iter().chain(&call.args).collect(),
        Expr::Call(call) => match &*call.func {
            Expr::Path(_) => call.args.iter().collect(),
            function => [function].into_iter().chain(&call.args).collect(),
        },
        Expr::Paren(inner) => vec![&inner.expr],
        Expr::Group(inner) => vec![&inner.expr],
        Expr::Unary(inner) => vec![&inner.expr],
        Expr::Reference(inner) => vec![&inner.expr],
        Expr::RawAddr(inner) => vec![&inner.expr],
        Expr::Cast(inner) => vec![&inner.expr],
        Expr::Await(inner) => vec![&inner.base],
        Expr::Try(inner) => vec![&inner.expr],
        Expr::Binary(binary) => vec![&binary.left, &binary.right],
        Expr::Tuple(tuple) => tuple.elems.iter().collect(),
        Expr::Array(array) => array.elems.iter().collect(),
        Expr::Repeat(repeat) => vec![&repeat.expr, &repeat.len],
        Expr::Range(range) => {
            [&range.start, &range.end].into_iter().flatten().map(|end| &**end).collect()
        }
        Expr::Struct(all) => {
            all.fields.iter().map(|field| &field.expr).chain(all.rest.as_deref()).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
