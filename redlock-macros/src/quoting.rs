//! What all quoted code is made with: hygiene, places, and the path of the runtime.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::Expr;

use crate::hygiene;
use crate::plan::Plan;

/// The expression, with the hygiene of the parameters for their names.
pub(crate) fn adopt(plan: &Plan, expr: &Expr) -> TokenStream {
    let this = plan.hoisted.as_ref().and_then(|hoisted| hoisted.this.as_ref());
    hygiene::adopt(expr.to_token_stream(), &plan.names, this)
}

/// The path of the runtime's private module. Located at the call, because rustc labels the callee,
/// too.
pub(crate) fn private(plan: &Plan, at: Span) -> TokenStream {
    if let Some(path) = &plan.args.krate {
        quote_spanned!(at=> #path::__private)
    } else {
        quote_spanned!(at=> ::redlock::__private)
    }
}

/// The hygiene of this crate, at the place that an error should point at.
pub(crate) fn mixed(at: Span) -> Span {
    Span::mixed_site().located_at(at)
}
