//! The values of `key` and `keys`.

use syn::{Expr, ExprLit, Lit, LitStr};

use crate::diagnostics::Errors;
use crate::values::{plain, ungroup, without_suffix};

pub(crate) enum Key {
    Template(LitStr),
    Value(Expr),
    /// `keys = [..]`
    Several(Vec<Key>),
    /// `keys = <expression>`: something to iterate over.
    Values(Expr),
}

impl Key {
    /// The keys of a list, or this one.
    pub(crate) fn listed(self) -> Vec<Self> {
        match self {
            Self::Several(keys) => keys,
            one => vec![one],
        }
    }
}

pub(crate) fn key(value: Expr, errors: &mut Errors) -> Option<Key> {
    if !is_list(&value) {
        return one("key", value, errors);
    }
    let message = "`key` is one key, not a list; for several keys that are locked together write \
                   `keys = [..]`";
    errors.over(&value, message);
    // The mistakes in its templates are reported too.
    matches!(value, Expr::Array(_)).then(|| keys(value, errors)).flatten()
}

/// A list that is written out: an array, a slice or a `vec!`.
fn is_list(value: &Expr) -> bool {
    match value {
        Expr::Array(_) | Expr::Repeat(_) => true,
        Expr::Reference(inner) => is_list(&inner.expr),
        Expr::Macro(call) => call.mac.path.is_ident("vec"),
        _ => false,
    }
}

/// The value of `key`, or one in the list of `keys`.
fn one(option: &str, value: Expr, errors: &mut Errors) -> Option<Key> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(Key::Template(text)),
        Expr::Lit(other) => {
            let message = format!(
                "a literal in `{option}` must be a string such as \"stock-<id>\"; any other \
                 expression may have any type that implements `Display`"
            );
            errors.over(other, message);
            None
        }
        other => plain(option, other, errors).map(Key::Value),
    }
}

/// The keys that could be read, beside errors for the others: their templates are checked too.
pub(crate) fn keys(value: Expr, errors: &mut Errors) -> Option<Key> {
    match value {
        Expr::Array(list) if list.elems.is_empty() => {
            let message = "`keys` names no key, so that nothing would be locked; write \
                           `keys = [\"acct-<from>\", \"acct-<to>\"]`";
            errors.over(list, message);
            None
        }
        Expr::Array(list) => {
            let keys = list.elems.into_iter().filter_map(|value| {
                without_suffix(ungroup(value), errors).and_then(|value| listed(value, errors))
            });
            let keys: Vec<Key> = keys.collect();
            check_twice(&keys, errors);
            Some(Key::Several(keys))
        }
        Expr::Lit(other) => {
            let message = "`keys` takes a list, `keys = [\"acct-<from>\", \"acct-<to>\"]`, or an \
                           expression to iterate over; for one key write `key = ..`";
            errors.over(other, message);
            None
        }
        other if is_repeated(&other) => {
            let message = "`[key; n]` is one key, again and again; write each key, as in `keys = \
                           [\"acct-<from>\", \"acct-<to>\"]`";
            errors.over(other, message);
            None
        }
        other => plain("keys", other, errors).map(Key::Values),
    }
}

/// `[key; n]`
fn is_repeated(value: &Expr) -> bool {
    match value {
        Expr::Repeat(_) => true,
        Expr::Reference(inner) => is_repeated(&inner.expr),
        Expr::Paren(inner) => is_repeated(&inner.expr),
        _ => false,
    }
}

fn listed(value: Expr, errors: &mut Errors) -> Option<Key> {
    if is_list(&value) {
        let message = "a key of `keys` is one key, not a list; write all keys into one list, as in \
                       `keys = [\"acct-<from>\", \"acct-<to>\"]`";
        errors.over(value, message);
        return None;
    }
    one("keys", value, errors)
}

/// The same template twice is one key, and probably another one was meant.
fn check_twice(keys: &[Key], errors: &mut Errors) {
    let mut seen = Vec::new();
    for key in keys {
        let Key::Template(template) = key else { continue };
        let text = template.value();
        if seen.contains(&text) {
            let message = format!(
                "the template `{text}` is in the list twice, and would be one key; name another \
                 argument, or leave it out"
            );
            errors.over(template, message);
        }
        seen.push(text);
    }
}
