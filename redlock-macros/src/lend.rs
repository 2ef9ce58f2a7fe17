//! Lends arguments to the key without leaving a copy of them in the future.
//!
//! A variable that was borrowed once keeps its place in an async function's future, although it is
//! moved into the body right after (rust-lang/rust#96084). So large arguments that a key reads are
//! moved through a closure and back: the borrow happens in the closure's own frame.

use proc_macro2::{Ident, TokenStream};
use syn::{FnArg, Pat, PatIdent, Type};

use crate::hygiene;
use crate::item::Function;
use crate::template::{Part, Template};

/// The arguments that go through the closure.
pub(crate) struct Lent {
    pub(crate) names: Vec<Ident>,
    /// Whether the closure may take everything it reads by value.
    pub(crate) by_move: bool,
}

/// `None`: nothing is worth it.
pub(crate) fn lent(template: &Template, function: &Function) -> Option<Lent> {
    let mut names: Vec<Ident> = Vec::new();
    let mut by_move = true;
    for name in read_by(template) {
        match kind(function, name) {
            Kind::Large if names.contains(name) => {}
            Kind::Large if is_read_by_body(function, name) => names.push(name.clone()),
            Kind::Copied => {}
            Kind::Large | Kind::Other => by_move = false,
        }
    }
    (!names.is_empty()).then_some(Lent { names, by_move })
}

fn read_by(template: &Template) -> impl Iterator<Item = &Ident> {
    template.parts.iter().flat_map(|part| match part {
        Part::Value(value) => hygiene::reads(&value.expr),
        Part::Text(_) => Vec::new(),
    })
}

enum Kind {
    /// By value, and of any size.
    Large,
    /// Small, and still there after it was taken by value.
    Copied,
    /// `self`, parts of a pattern, `mut` arguments, constants: left where they are.
    Other,
}

fn kind(function: &Function, name: &Ident) -> Kind {
    for input in &function.sig.inputs {
        let FnArg::Typed(typed) = input else { continue };
        let Pat::Ident(PatIdent { by_ref: None, mutability, ident, subpat: None, .. }) =
            &*typed.pat
        else {
            continue;
        };
        if ident == name {
            return match (&*typed.ty, mutability) {
                (ty, _) if is_copied(ty) => Kind::Copied,
                // Moved back it would need its own `mut`, and the argument's would be too much.
                (Type::Reference(_), _) | (_, Some(_)) => Kind::Other,
                _ => Kind::Large,
            };
        }
    }
    if hygiene::is_constant(name) { Kind::Copied } else { Kind::Other }
}

fn is_copied(ty: &Type) -> bool {
    const PRIMITIVES: [&str; 16] = [
        "bool", "char", "f32", "f64", "i8", "i16", "i32", "i64", "i128", "isize", "u8", "u16",
        "u32", "u64", "u128", "usize",
    ];
    match ty {
        Type::Reference(reference) => reference.mutability.is_none(),
        Type::Path(path) => {
            path.path.get_ident().is_some_and(|name| PRIMITIVES.iter().any(|p| name == p))
        }
        _ => false,
    }
}

/// An argument that only the key reads is not moved into the body: it stays where it is.
fn is_read_by_body(function: &Function, name: &Ident) -> bool {
    let body: TokenStream = function.body.stream();
    hygiene::mentions(body, std::slice::from_ref(name))
}
