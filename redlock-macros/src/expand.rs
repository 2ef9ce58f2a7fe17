//! Quotes the expansion. All checks were made before, so no function here can fail.
//!
//! All names that the expansion adds are `mixed_site`, so the user's code cannot see them, and the
//! user's names cannot change what they mean. All code of the user keeps its tokens.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, LitStr, Signature};

use crate::hygiene;
use crate::item::{Binding, Function};
use crate::lend::{self, Lent};
use crate::part::{Part, Value};
use crate::plan::{KeyPlan, Plan};
use crate::quoting::{Chain, adopt, mixed, no_return, private};
use crate::returns::{self, Returns};
use crate::shape::{Built, Shape};
use crate::spec::{is_constant, spec, template_name};
use crate::template::Template;
use crate::values::OnError;

pub(crate) fn expand(plan: &Plan) -> TokenStream {
    let function = &plan.function;
    let (attrs, vis) = (&function.attrs, &function.vis);
    let inner_attrs = &function.inner_attrs;
    let (sig, body) = match &plan.shape {
        Shape::Async => around_body(plan),
        Shape::Built(built) => (function.sig.clone(), inside_built(plan, built)),
    };
    let body = braces(quote!(#inner_attrs #body), function.body.span());
    quote!(#(#attrs)* #vis #sig #body)
}

/// The function without its lock, for a compile that fails: its callers, the diagnostics of its
/// body and the editor's completion all depend on it. Its arguments count as used, as the key may
/// be all that uses them.
pub(crate) fn unlocked(function: &Function) -> TokenStream {
    let Function { attrs, vis, sig, inner_attrs, body } = function;
    let bindings = function.bindings().into_iter();
    let is_variable = |name: &Ident| name != "self" && !hygiene::is_upper_case(name);
    let uses = bindings.filter(|binding| is_variable(&binding.name)).map(
        |Binding { name, cfgs, .. }| quote_spanned!(Span::mixed_site()=> #(#cfgs)* let _ = &#name;),
    );
    let content = body.stream();
    let body = braces(quote!(#inner_attrs #(#uses)* #content), body.span());
    quote!(#(#attrs)* #vis #sig #body)
}

/// `async fn`: its body becomes the locked future.
fn around_body(plan: &Plan) -> (Signature, TokenStream) {
    let function = &plan.function;
    let returns = returns::of_async(&function.sig);
    let edge = return_edge(&returns);
    let block = &function.body;
    let captured = captured(plan, &function.bindings(), &block.stream());
    // Parentheses keep `unused_braces` quiet without an `allow` that would reach into the body.
    let future = quote_spanned!(Span::mixed_site()=> async move { #captured #edge (#block) });
    let lent = plan.key.as_ref().and_then(|key| lend::lent(key, function));
    let mut sig = function.sig.clone();
    if let Some(lent) = &lent {
        lend::take_mutability(&mut sig, lent);
    }
    let prepared = prepare(plan, lent.as_ref());
    let run = run(plan, &returns, &future);
    (sig, quote!(#prepared #run))
}

/// `{ before; Box::pin(async move { .. }) }`: the lock goes into the box.
fn inside_built(plan: &Plan, built: &Built) -> TokenStream {
    let returns = returns::of_built(&plan.function.sig);
    let before = &built.before;
    let prepared = prepare(plan, None);
    // Attributes below this one take the hygiene of their own names from these braces.
    let at = built.block.brace_token.span.join();
    // The key is rendered when the function is called, so that the future need not capture the
    // arguments. It captures them anyway under async-trait, which unpacks some inside of the block,
    // and attributes below expect no code outside of the box.
    let (outside, inside, block) = match &plan.hoisted {
        None => (prepared, TokenStream::new(), built.block.to_token_stream()),
        Some(hoisted) => {
            let ((before, after), rest) = (hoisted.lets(), &hoisted.rest);
            let bindings: Vec<Binding> = hoisted.names.iter().cloned().map(Binding::of).collect();
            let captured = captured(plan, &bindings, rest);
            let block = braces(quote!(#captured #rest), at).to_token_stream();
            (TokenStream::new(), quote!(#(#before)* #prepared #(#after)*), block)
        }
    };
    let (opening, body) = (&built.opening, body_opening(plan, built));
    let run = run(plan, &returns, &quote!(#body #block));
    let block = braces(quote!(#inside #run), at);
    let future = quote!(#opening #block);
    let future = built.boxed.as_ref().map_or_else(|| future.clone(), |pin| quote!(#pin(#future)));
    let before: TokenStream = before.iter().map(ToTokens::to_token_stream).collect();
    let future = no_return(plan, before.clone(), quote!(#before #future));
    quote!(#outside #future)
}

/// The `async move` of the locked body, as it was written: the body captures what the block of the
/// plain function captures, so that both drop the arguments at the same point. If the handler reads
/// variables, the body captures field by field in every edition: the handler may read other fields.
fn body_opening(plan: &Plan, built: &Built) -> TokenStream {
    if handler_may_use(plan, &[plan.names.clone(), built.locals()].concat()) {
        return quote_spanned!(Span::mixed_site()=> async move);
    }
    built.opening.clone()
}

/// May `on_error` read a variable of one of these names? A parameter of its closure hides what it
/// is named after.
fn handler_may_use(plan: &Plan, names: &[Ident]) -> bool {
    let OnError::With(handler) = &plan.args.on_error else { return false };
    let Expr::Closure(closure) = handler else {
        return hygiene::may_use(handler.to_token_stream(), names);
    };
    let mut own = Vec::new();
    closure.inputs.iter().for_each(|input| hygiene::bound(input, &mut own));
    let is_other = |name: &&Ident| !hygiene::is_one_of(name, &own);
    let others: Vec<Ident> = names.iter().filter(is_other).cloned().collect();
    hygiene::may_use(closure.body.to_token_stream(), &others)
}

fn braces(tokens: TokenStream, span: Span) -> Group {
    hygiene::grouped(Delimiter::Brace, tokens, span)
}

/// Moves the variables that `body` uses into it, the last argument first: captured in this
/// order, they are dropped in this order before the release, as in a plain function. So are those
/// of which the caller wants nothing but the drop: their names begin with `_`, and neither the key
/// nor an option reads them. Arguments of which `on_error` may need a part are left out, and
/// what may be a unit struct, whose type need not be known from its name.
fn captured(plan: &Plan, bindings: &[Binding], body: &TokenStream) -> TokenStream {
    let read_before = plan.read_before();
    let this = plan.hoisted.as_ref().and_then(|hoisted| hoisted.this.as_ref());
    let is_captured = |binding: &&Binding| {
        let name = std::slice::from_ref(&binding.name);
        let is_kept = || {
            let is_for_drop = hygiene::is_underscored(&binding.name) && this != Some(&binding.name);
            is_for_drop && !hygiene::mentions(read_before.clone(), name)
        };
        let is_used = hygiene::may_use(body.clone(), name) || is_kept();
        is_used && !handler_may_use(plan, name) && !hygiene::is_upper_case(&binding.name)
    };
    taken(plan, bindings.iter().rev().filter(is_captured))
}

/// Takes variables by value in code that never runs: this is not a borrow, and lints count them as
/// used.
fn taken<'a>(plan: &Plan, bindings: impl Iterator<Item = &'a Binding>) -> TokenStream {
    let at = Span::mixed_site();
    let private = private(plan, at);
    let taken: TokenStream = bindings
        .map(|Binding { name, cfgs, .. }| {
            quote_spanned!(at=> #(#cfgs)* #private::take_variable!(#name);)
        })
        .collect();
    if taken.is_empty() {
        return taken;
    }
    quote_spanned! {at=>
        if let ::core::option::Option::Some(__never) =
            ::core::option::Option::None::<#private::Never>
        {
            #taken
            match __never {}
        }
    }
}

/// Gives the block the function's return type, so that the body infers as in the plain function.
/// Written so that no lint fires: an `allow` here would clash with the user's `forbid`.
fn return_edge(returns: &Returns) -> TokenStream {
    if returns.never {
        return TokenStream::new();
    }
    let ty = &returns.ty;
    let never_returned = mixed(returns.span);
    quote_spanned! {never_returned=>
        if let ::core::option::Option::Some(__returned) = ::core::option::Option::None::<#ty> {
            return __returned;
        }
    }
}

/// The expressions that are evaluated before the body captures the arguments: one statement each,
/// so that no temporary is held across an `.await`.
fn prepare(plan: &Plan, lent: Option<&Lent>) -> TokenStream {
    let spec = (!is_constant(&plan.args)).then(|| {
        let spec = spec(plan);
        let spec = no_return(plan, spec.clone(), spec);
        quote_spanned!(Span::mixed_site()=> let __spec = #spec;)
    });
    let client = plan.args.client.as_ref().map(|client| {
        let (at, client) = (mixed(client.span()), adopt(plan, client));
        let private = private(plan, at);
        let called = quote_spanned!(at=> #private::client(#client));
        let client = no_return(plan, client, called);
        quote_spanned!(Span::mixed_site()=> let __client = #client;)
    });
    let key = bind_key(plan, lent);
    quote_spanned!(Span::mixed_site()=> #key #spec #client)
}

fn bind_key(plan: &Plan, lent: Option<&Lent>) -> TokenStream {
    let at = Span::mixed_site();
    let key = plan.key.as_ref().map(|key| no_return(plan, key.code(), self::key(plan, key)));
    let Some(Lent { bindings, by_move }) = lent else {
        return quote_spanned!(at=> let __key = #key;);
    };
    let private = private(plan, at);
    let names: Vec<_> = bindings.iter().map(|binding| &binding.name).collect();
    let mutability = bindings.iter().map(|binding| binding.mutability);
    let by_move = by_move.then(|| quote_spanned!(at=> move));
    let body = plan.function.body.stream();
    let is_left =
        |binding: &&Binding| !hygiene::may_use(body.clone(), std::slice::from_ref(&binding.name));
    let taken = taken(plan, bindings.iter().filter(is_left));
    // The body has to see the arguments under their own names. `clippy::shadow_reuse` would blame
    // the user, who could not cure it. A crate that forbids this lint gets an error in either case.
    quote_spanned! {at=>
        #[allow(clippy::shadow_reuse)]
        let (__key, #(#mutability #names),*) =
            #private::lend((#(#names,)*), #by_move |(#(#names,)*)| {
                let __key = #key;
                (__key, #(#names),*)
            });
        #taken
    }
}

fn run(plan: &Plan, returns: &Returns, future: &TokenStream) -> TokenStream {
    let ty = &returns.ty;
    let at = mixed(returns.span);
    let pending = match &plan.args.on_error {
        OnError::Convert => {
            let private = private(plan, at);
            quote_spanned!(at=> #private::convert::<#ty, _>(#future))
        }
        OnError::Panic => {
            let private = private(plan, at);
            // A closure calls it, so that the panic names the place of the attribute.
            let panic_on = quote_spanned!(at=> |__error| #private::panic_on(__error));
            quote_spanned!(at=> #private::handle(#future, #panic_on))
        }
        OnError::With(handler) => {
            let at = mixed(handler.span());
            let (private, handler) = (private(plan, at), called(handler));
            quote_spanned!(at=> #private::handle(#future, #handler))
        }
    };
    let pending = if plan.args.skips_busy {
        let (private, template) = (private(plan, at), template_name(plan));
        let skipped = quote_spanned!(at=> #private::skipped::<#ty>());
        quote_spanned!(at=> #private::skip_busy(#pending, #template, #skipped))
    } else {
        pending
    };
    let private = private(plan, Span::mixed_site());
    let spec = if is_constant(&plan.args) {
        let spec = spec(plan);
        quote_spanned!(Span::mixed_site()=> const { #spec })
    } else {
        quote_spanned!(Span::mixed_site()=> __spec)
    };
    let client = if plan.args.client.is_some() {
        quote_spanned!(Span::mixed_site()=> __client)
    } else {
        quote_spanned!(Span::mixed_site()=> #private::global())
    };
    let lock = if plan.args.awaits_release {
        // An output that cannot be kept meanwhile is reported at the return type.
        quote_spanned!(at=> __redlock_lock_until_released)
    } else {
        quote_spanned!(Span::mixed_site()=> __redlock_lock)
    };
    // No `allow` here, which a crate may forbid. `clippy::implicit_return` wants the `return`,
    // after which a `!` would be unreachable. An output that is `Send` does not need the import: in
    // braces all of it is code of this crate, where the path before them need not be.
    let last = if returns.never {
        quote_spanned!(Span::mixed_site()=> __locked.await)
    } else {
        quote_spanned!(Span::mixed_site()=> return __locked.await;)
    };
    quote_spanned! {Span::mixed_site()=>
        let __locked = {
            use #private::{LockLocal as _};
            #pending.#lock(#spec, __key, #client)
        };
        #last
    }
}

/// A path is called here, so that a wrong path is one error: as a value it would also fail the
/// bounds of two methods.
fn called(handler: &Expr) -> TokenStream {
    let at = mixed(handler.span());
    match handler {
        Expr::Path(_) => quote_spanned!(at=> move |__error| #handler(__error)),
        closure => closure.to_token_stream(),
    }
}

fn key(plan: &Plan, key: &KeyPlan) -> TokenStream {
    match key {
        KeyPlan::Template(template) => rendered(plan, template),
        KeyPlan::Value(value) => {
            let at = mixed(value.span());
            let (private, value) = (private(plan, at), adopt(plan, value));
            quote_spanned!(at=> #private::display_key(&(#value)))
        }
        KeyPlan::Several(keys) => {
            let at = Span::mixed_site();
            let names: Vec<_> =
                (0..keys.len()).map(|n| format_ident!("__key{n}", span = at)).collect();
            let (private, keys) = (private(plan, at), keys.iter().map(|one| listed(plan, one)));
            // One statement each: a guard in one key is dropped before the next key takes another.
            quote_spanned!(at=> { #(let #names = #keys;)* #private::several([#(#names),*]) })
        }
        KeyPlan::Values(values) => {
            let at = mixed(values.span());
            let (private, values) = (private(plan, at), adopt(plan, values));
            quote_spanned!(at=> #private::display_keys(#values))
        }
    }
}

/// A key of a list; errors of its type say so.
fn listed(plan: &Plan, key: &KeyPlan) -> TokenStream {
    let KeyPlan::Value(value) = key else { return self::key(plan, key) };
    let at = mixed(value.span());
    let (private, value) = (private(plan, at), adopt(plan, value));
    quote_spanned!(at=> #private::Key::listed(&(#value)))
}

fn rendered(plan: &Plan, template: &Template) -> TokenStream {
    let at = mixed(template.literal.span());
    let private = private(plan, at);
    if let [Part::Text(text)] = template.parts.as_slice() {
        return quote_spanned!(at=> #private::literal_key(#text));
    }
    let mut render = Chain::new(match &template.delimiters {
        None => quote_spanned!(at=> #private::Render::new()),
        Some(delimiters) => quote_spanned!(at=> #private::Render::injective(#delimiters)),
    });
    for part in &template.parts {
        match part {
            Part::Text(text) => render.add(quote_spanned!(at=> .text(#text))),
            Part::Value(value) => render.add_read(placeholder(plan, value)),
        }
    }
    render.end_with(&quote_spanned!(at=> .finish()))
}

fn placeholder(plan: &Plan, value: &Value) -> TokenStream {
    let at = mixed(value.span);
    let private = private(plan, at);
    let name = value.source.trim();
    let expr = hygiene::raw_keywords(adopt(plan, &value.expr));
    let arguments = if value.format.is_empty() {
        // One error of this crate for a type that has no `Display`, instead of two of rustc's.
        let part = quote_spanned!(at=> #private::part(&&(#expr)));
        quote_spanned!(at=> #private::format_args!("{}", #part))
    } else {
        let format = LitStr::new(&format!("{{:{}}}", value.format), at);
        quote_spanned!(at=> #private::format_args!(#format, #expr))
    };
    quote_spanned!(at=> .value(#name, #arguments))
}

#[cfg(test)]
mod tests;
