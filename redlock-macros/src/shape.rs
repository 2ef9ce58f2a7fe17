//! Where the lock goes: around the body of an `async fn`, or inside of a future that the function
//! builds by hand, like the ones that async-trait and async-recursion make of an `async fn`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{Block, Expr, ExprAsync, ExprCall, Local, Pat, Stmt};

use crate::hygiene;
use crate::item::{Boxing, Function};

pub(crate) enum Shape {
    Async,
    Built(Built),
}

/// `{ before; Box::pin(async move { block }) }`, or the same without the box.
pub(crate) struct Built {
    pub(crate) before: Vec<Stmt>,
    /// `Box::pin`, as it was written.
    pub(crate) boxed: Option<Box<Expr>>,
    /// `async move`, as it was written: its edition says whether the block captures variables as a
    /// whole.
    pub(crate) opening: TokenStream,
    pub(crate) block: Block,
}

/// The `let`s at the head of the block that only give parameters other names, as those that
/// async-trait puts there to take patterns apart.
pub(crate) struct Hoisted {
    lets: Vec<Stmt>,
    /// The variable that `self` has been moved into.
    pub(crate) this: Option<Ident>,
    /// The key is rendered before that: a string such as `"{self}"` cannot name the variable.
    pub(crate) formats_self: bool,
    pub(crate) names: Vec<Ident>,
    /// The statements of the block without the `let`s.
    pub(crate) rest: TokenStream,
}

/// `None`: the function is not async and builds no future in its last expression.
pub(crate) fn of(function: &Function) -> Option<Shape> {
    if function.sig.asyncness.is_some() {
        return Some(Shape::Async);
    }
    let block: Block = syn::parse2(function.body.to_token_stream()).ok()?;
    let (Stmt::Expr(last, None), before) = block.stmts.split_last()? else { return None };
    let (boxed, future) = match last {
        Expr::Async(future) => (None, future),
        Expr::Call(call) => (Some(call.func.clone()), boxed_async(call)?),
        _ => return None,
    };
    let (before, keyword, block) = (before.to_vec(), future.async_token, future.block.clone());
    let moves = future.capture.map_or_else(
        || quote_spanned!(Span::mixed_site()=> move),
        |written| written.to_token_stream(),
    );
    Some(Shape::Built(Built { before, boxed, opening: quote!(#keyword #moves), block }))
}

/// The block of `Box::pin(async move { .. })`.
fn boxed_async(call: &ExprCall) -> Option<&ExprAsync> {
    let Expr::Path(function) = &*call.func else { return None };
    let names = function.path.segments.iter().rev().map(|segment| segment.ident.to_string());
    let is_box_pin = names.take(2).eq(["pin", "Box"]);
    match call.args.first() {
        Some(Expr::Async(future)) if is_box_pin && call.args.len() == 1 => Some(future),
        _ => None,
    }
}

impl Built {
    /// The variables that the statements before the future bind.
    pub(crate) fn locals(&self) -> Vec<Ident> {
        let mut names = Vec::new();
        for stmt in &self.before {
            if let Stmt::Local(local) = stmt {
                hygiene::bound(&local.pat, &mut names);
            }
        }
        names
    }

    /// Takes those `let`s out, so that a key can name what they bind. async-recursion adds none:
    /// what it has in the block is the user's.
    pub(crate) fn hoist(&self, params: &[Ident], boxing: Option<Boxing>) -> Hoisted {
        let (mut this, mut names) = (None, Vec::new());
        let (mut lets, mut rest) = (Vec::new(), quote!());
        let mut leading = boxing != Some(Boxing::AsyncRecursion);
        for (n, stmt) in self.block.stmts.iter().enumerate() {
            match rebinding(stmt, params) {
                Some((local, from)) if leading => {
                    if let (Pat::Ident(pattern), true) = (&local.pat, *from == "self") {
                        this = Some(pattern.ident.clone());
                    }
                    hygiene::bound(&local.pat, &mut names);
                    lets.push(stmt.clone());
                }
                _ => {
                    // async-trait's `if let Some(__ret) = None::<Ret> { return __ret; }`
                    let is_edge = n == 0 && matches!(stmt, Stmt::Expr(Expr::If(_), None));
                    leading &= is_edge && boxing == Some(Boxing::AsyncTrait);
                    stmt.to_tokens(&mut rest);
                }
            }
        }
        Hoisted { lets, this, formats_self: false, names, rest }
    }
}

impl Hoisted {
    /// The name that `self` has in the key, if another one.
    pub(crate) fn this_in_key(&self) -> Option<&Ident> {
        self.this.as_ref().filter(|_| !self.formats_self)
    }

    /// The `let`s before the key, and those after it.
    pub(crate) fn lets(&self) -> (Vec<&Stmt>, Vec<&Stmt>) {
        let moves_self = |stmt: &Stmt| match stmt {
            Stmt::Local(Local { pat: Pat::Ident(name), .. }) => {
                Some(&name.ident) == self.this.as_ref()
            }
            _ => false,
        };
        self.lets.iter().partition(|stmt| !(self.formats_self && moves_self(stmt)))
    }
}

/// `let pat = param;` or `let pat = { let param = param; param };`, without a type. Any other
/// statement in such a block is the user's code, which runs under the lock.
fn rebinding<'a>(stmt: &'a Stmt, params: &[Ident]) -> Option<(&'a Local, &'a Ident)> {
    let Stmt::Local(local) = stmt else { return None };
    let init = local.init.as_ref().filter(|init| init.diverge.is_none())?;
    let value = match &*init.expr {
        Expr::Block(block) => match block.block.stmts.split_last()? {
            (Stmt::Expr(value, None), before) if before.iter().all(is_of_itself) => value,
            _ => return None,
        },
        value => value,
    };
    let Expr::Path(path) = value else { return None };
    let from = path.path.get_ident().filter(|name| hygiene::is_one_of(name, params))?;
    (!matches!(local.pat, Pat::Type(_))).then_some((local, from))
}

/// `let name = name;`
fn is_of_itself(stmt: &Stmt) -> bool {
    let Stmt::Local(Local { pat: Pat::Ident(name), init: Some(init), .. }) = stmt else {
        return false;
    };
    let value = match &*init.expr {
        Expr::Path(path) => path.path.get_ident(),
        _ => None,
    };
    let is_same = value.is_some_and(|value| hygiene::is_same(value, &name.ident));
    is_same && init.diverge.is_none() && name.by_ref.is_none()
}

#[cfg(test)]
mod tests;
