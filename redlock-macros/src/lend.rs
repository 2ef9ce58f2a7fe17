//! Passes arguments through a closure before they are moved into the body.
//!
//! A variable that was borrowed once keeps its space in an async function's future, although it is
//! moved into the body right after (rust-lang/rust#96084). So arguments that a key reads are passed
//! through a closure and back: the borrow happens in the closure's own frame. They go in as its
//! arguments, so that it does not matter which of them are `Copy`.

use proc_macro2::Ident;
use quote::ToTokens;
use syn::{Expr, FnArg, Receiver, ReceiverKind, Signature};

use crate::item::{Binding, Function};
use crate::part::Part;
use crate::plan::KeyPlan;
use crate::{hygiene, macro_body};

/// The arguments that go through the closure.
pub(crate) struct Lent {
    pub(crate) bindings: Vec<Binding>,
    /// Whether the closure may take the other variables that it reads by value: `&self`, or none.
    pub(crate) by_move: bool,
}

/// `None`: no argument is worth the closure.
pub(crate) fn lent(key: &KeyPlan, function: &Function) -> Option<Lent> {
    let exprs = borrowing(key)?;
    let body = function.body.stream();
    let reads = |expr: &Expr, name: &Ident| {
        hygiene::mentions(expr.to_token_stream(), std::slice::from_ref(name))
    };
    // A method may consume an argument that the body does not need afterwards. And it may change a
    // `mut` argument: `mut` in the pattern of the closure would be a warning wherever it does not.
    let comes_back = |Binding { name, mutability, .. }: &Binding| {
        mutability.is_none() && hygiene::may_use(body.clone(), std::slice::from_ref(name))
            || exprs.iter().all(|expr| is_place(expr) || !reads(expr, name))
    };
    let (this, bindings): (Vec<_>, Vec<_>) = function
        .bindings()
        .into_iter()
        .filter(|binding| exprs.iter().any(|expr| reads(expr, &binding.name)))
        .partition(|binding| binding.name == "self");
    let (bindings, rest): (Vec<_>, Vec<_>) =
        bindings.into_iter().partition(|binding| !binding.has_attrs && comes_back(binding));
    let is_shared = this.is_empty() || function.sig.receiver().is_some_and(is_shared);
    let is_worth_it = bindings.iter().any(|binding| !binding.is_small);
    is_worth_it.then_some(Lent { bindings, by_move: rest.is_empty() && is_shared })
}

/// The expressions of keys that certainly borrow what they name: a template, `format!(..)`, or a
/// variable.
fn borrowing(key: &KeyPlan) -> Option<Vec<Expr>> {
    match key {
        KeyPlan::Template(template) => {
            Some(template.parts.iter().filter_map(Part::expr).cloned().collect())
        }
        KeyPlan::Value(Expr::Macro(call)) if call.mac.path.is_ident("format") => {
            macro_body::arguments(&call.mac)
        }
        KeyPlan::Value(expr) => is_place(expr).then(|| vec![expr.clone()]),
        KeyPlan::Several(keys) => {
            keys.iter().map(borrowing).collect::<Option<Vec<_>>>().map(|exprs| exprs.concat())
        }
        // It is iterated over, and may be used up.
        KeyPlan::Values(_) => None,
    }
}

/// An expression that is borrowed, whatever its type.
fn is_place(expr: &Expr) -> bool {
    match expr {
        Expr::Path(_) | Expr::Lit(_) => true,
        Expr::Field(field) => is_place(&field.base),
        Expr::Index(index) => is_place(&index.expr) && is_place(&index.index),
        Expr::Paren(inner) => is_place(&inner.expr),
        Expr::Reference(inner) => inner.mutability.is_none() && is_place(&inner.expr),
        _ => false,
    }
}

/// `&self`
fn is_shared(receiver: &Receiver) -> bool {
    matches!(&receiver.kind, ReceiverKind::Reference(_, _, None))
}

/// Lent arguments come back as new variables. These are `mut` in the place of the arguments.
pub(crate) fn take_mutability(sig: &mut Signature, lent: &Lent) {
    for input in &mut sig.inputs {
        let FnArg::Typed(typed) = input else { continue };
        hygiene::every_binding(&mut typed.pat, &mut |pattern| {
            if lent.bindings.iter().any(|binding| binding.name == pattern.ident) {
                pattern.mutability = pattern.mutability.filter(|_| pattern.by_ref.is_some());
            }
        });
    }
}
