//! What all quoted code is made with: hygiene, places, and the path of the runtime.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::Expr;

use crate::plan::Plan;
use crate::shape::Hoisted;
use crate::{control, hygiene};

/// The expression, with the hygiene of the parameters for their names.
pub(crate) fn adopt(plan: &Plan, expr: &Expr) -> TokenStream {
    let this = plan.hoisted.as_ref().and_then(Hoisted::this_in_key);
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

/// An expression, with statements before it or without, that must not leave the function. A macro
/// that the user's part of it, `code`, calls may hide a `return`: a closure makes that an error of
/// its type.
pub(crate) fn no_return(plan: &Plan, code: TokenStream, value: TokenStream) -> TokenStream {
    if !control::calls_macro(code) {
        return value;
    }
    let at = Span::mixed_site();
    let private = private(plan, at);
    quote_spanned!(at=> #private::no_return(|| #private::NoReturn::of({ #value })))
}

/// Chained calls. Each one that evaluates code of the user is a statement of its own, as soon as
/// there are two of them: a guard that one of them takes is dropped before the next one takes it
/// again.
pub(crate) struct Chain {
    statements: TokenStream,
    open: TokenStream,
    reads: bool,
}

impl Chain {
    pub(crate) fn new(open: TokenStream) -> Self {
        Self { statements: TokenStream::new(), open, reads: false }
    }

    /// A call that evaluates nothing of the user's.
    pub(crate) fn add(&mut self, call: TokenStream) {
        self.open.extend(call);
    }

    /// A call that evaluates code of the user.
    pub(crate) fn add_read(&mut self, call: TokenStream) {
        if self.reads {
            self.end_statement();
        }
        self.open.extend(call);
        self.reads = true;
    }

    fn end_statement(&mut self) {
        let open = std::mem::take(&mut self.open);
        self.statements.extend(quote_spanned!(Span::mixed_site()=> let __chain = #open;));
        self.open = quote_spanned!(Span::mixed_site()=> __chain);
    }

    pub(crate) fn end_with(mut self, last: &TokenStream) -> TokenStream {
        if !self.statements.is_empty() {
            self.end_statement();
        }
        let Self { statements, open, .. } = self;
        if statements.is_empty() {
            return quote!(#open #last);
        }
        quote_spanned!(Span::mixed_site()=> { #statements #open #last })
    }
}
