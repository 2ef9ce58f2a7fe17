//! Finds expressions in an option's value that would suspend or leave the function.
//!
//! A value is evaluated where the key is: before the lock. A `return` in it would return without
//! the lock, however deeply it is nested. So would one before a future that is built by hand.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Block, Expr, Pat, Stmt};

use crate::{hygiene, macro_body};

/// The first `.await`, `?` or `return` that belongs to the function itself.
pub(crate) fn leaves(expr: &Expr) -> Option<(&'static str, TokenStream)> {
    let what = match expr {
        Expr::Await(_) => "`.await`",
        Expr::Try(_) => "`?`",
        Expr::Return(_) => "`return`",
        _ => return within(expr),
    };
    Some((what, expr.to_token_stream()))
}

fn within(expr: &Expr) -> Option<(&'static str, TokenStream)> {
    match expr {
        // These suspend or leave themselves, not the function.
        Expr::Closure(_) | Expr::Async(_) | Expr::Const(_) | Expr::TryBlock(_) => None,
        Expr::Block(inner) => block(&inner.block),
        Expr::Unsafe(inner) => block(&inner.block),
        Expr::Loop(inner) => block(&inner.body),
        Expr::While(inner) => leaves(&inner.cond).or_else(|| block(&inner.body)),
        Expr::ForLoop(inner) => leaves(&inner.expr).or_else(|| block(&inner.body)),
        Expr::If(inner) => {
            leaves(&inner.cond).or_else(|| block(&inner.then_branch)).or_else(|| {
                let (_, otherwise) = inner.else_branch.as_ref()?;
                leaves(otherwise)
            })
        }
        Expr::Match(inner) => leaves(&inner.expr).or_else(|| {
            inner.arms.iter().find_map(|arm| guard(&arm.pat).or_else(|| leaves(&arm.body)))
        }),
        Expr::Let(inner) => leaves(&inner.expr),
        Expr::Assign(inner) => leaves(&inner.left).or_else(|| leaves(&inner.right)),
        Expr::Break(inner) => inner.expr.as_deref().and_then(leaves),
        Expr::Macro(call) => macro_body::evaluated(&call.mac).iter().find_map(leaves),
        other => hygiene::children(other).into_iter().find_map(leaves),
    }
}

fn guard(pattern: &Pat) -> Option<(&'static str, TokenStream)> {
    match pattern {
        Pat::Guard(pattern) => leaves(&pattern.guard),
        _ => None,
    }
}

fn block(block: &Block) -> Option<(&'static str, TokenStream)> {
    in_statements(&block.stmts)
}

/// The same in a row of statements.
pub(crate) fn in_statements(stmts: &[Stmt]) -> Option<(&'static str, TokenStream)> {
    stmts.iter().find_map(|stmt| match stmt {
        Stmt::Local(local) => {
            let init = local.init.as_ref()?;
            let otherwise = init.diverge.as_ref().map(|(_, otherwise)| &**otherwise);
            leaves(&init.expr).or_else(|| otherwise.and_then(leaves))
        }
        Stmt::Expr(expr, _) => leaves(expr),
        Stmt::Macro(call) => macro_body::evaluated(&call.mac).iter().find_map(leaves),
        Stmt::Item(_) => None,
    })
}

/// Does `code` call a macro? Only its expansion, which is not known here, could hide a way out.
/// In doubt the answer is yes.
pub(crate) fn calls_macro(code: TokenStream) -> bool {
    let tokens: Vec<TokenTree> = code.into_iter().collect();
    let is_call = |tokens: &[TokenTree]| match tokens {
        [TokenTree::Ident(_), TokenTree::Punct(bang), TokenTree::Group(_)] => bang.as_char() == '!',
        _ => false,
    };
    tokens.windows(3).any(is_call)
        || tokens.into_iter().any(|token| match token {
            TokenTree::Group(group) => calls_macro(group.stream()),
            _ => false,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(value: &str) -> Option<&'static str> {
        let expr: syn::Result<Expr> = syn::parse_str(value);
        expr.ok().and_then(|expr| leaves(&expr)).map(|(what, _)| what)
    }

    #[test]
    fn ways_out_are_found_however_deep() {
        for (value, what) in [
            ("{ if n == 0 { return Ok(1) } n }", "`return`"),
            ("match n { 0 => f().await, _ => 1 }", "`.await`"),
            ("match n { 0 if f()? => 1, _ => 2 }", "`?`"),
            ("{ let x = f()?; x }", "`?`"),
            ("{ let Some(x) = n else { return Ok(1) }; x }", "`return`"),
            ("if f()? { 1 } else { 2 }", "`?`"),
            ("if a { 1 } else { g()? }", "`?`"),
            ("loop { break f()?; }", "`?`"),
            ("{ for x in f()? {} 1 }", "`?`"),
            ("{ for x in n { f(x)?; } 1 }", "`?`"),
            ("{ while n { return 1; } 1 }", "`return`"),
            ("{ x = f()?; 1 }", "`?`"),
            ("{ *f()? = 1; 1 }", "`?`"),
            ("{ while let Some(x) = f().await {} 1 }", "`.await`"),
            ("format!(\"{}\", f()?)", "`?`"),
            ("format!(\"{x}\", x = f()?)", "`?`"),
            ("{ println!(\"{}\", f().await); 1 }", "`.await`"),
            ("unsafe { f()? }", "`?`"),
            ("S { a: [1, f()?] }", "`?`"),
            ("S { a, ..f()? }", "`?`"),
            ("S { a, ..f().await }", "`.await`"),
            ("&raw const f()?.x", "`?`"),
            ("json!({\"id\": f(id)?})", "`?`"),
            ("vec![f().await; 2]", "`.await`"),
            ("matches!(f()?, Some(x) if x > 1)", "`?`"),
            ("matches!(x, Some(x) if g(x)?)", "`?`"),
            ("{ map! { \"a\" => return Ok(1) }; 1 }", "`return`"),
            ("json!({ \"a\": ids.map(|id| id?), \"b\": b? })", "`?`"),
            ("json!({ \"a\": async { a? }, \"b\": b? })", "`?`"),
            ("json!({ \"a\": a | b?, \"c\": a || b })", "`?`"),
        ] {
            assert_eq!(found(value), Some(what), "{value}");
        }
    }

    #[test]
    fn closures_and_blocks_leave_themselves() {
        for value in [
            "n.map(|x| { if x == 0 { return 1; } x })",
            "(|| -> Option<u8> { Some(f()? + 1) })()",
            "drop(async { f().await? })",
            "{ fn g() -> u8 { return 1; } g() }",
            "loop { break 1; }",
            "json!({ \"a\": ids.map(|id| -> R { id? }), \"b\": ids.map(move || id?) })",
            "json!({ \"a\": async move { f().await? }, \"b\": b })",
            "json!({ \"a\": { fn g() -> u8 { return 1; } g() } })",
            "sql!(SELECT x FROM t WHERE id = ?)",
            "bounds!(T: ?Sized, .., x..await_)",
        ] {
            assert!(syn::parse_str::<Expr>(value).is_ok(), "{value}");
            assert_eq!(found(value), None, "{value}");
        }
    }

    #[test]
    fn macro_calls_are_found_however_deep() {
        for (code, calls) in [
            ("ensure!(n > 0)", true),
            ("a::ensure! { n > 0 }", true),
            ("{ f(&[vec![1]]); 1 }", true),
            ("a != (b)", false),
            ("a + (b)", false),
            ("f(!a)", false),
        ] {
            assert_eq!(code.parse().map(calls_macro).ok(), Some(calls), "{code}");
        }
    }
}
