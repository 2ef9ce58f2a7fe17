//! The return type, where the expansion has to name it.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote_spanned};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    GenericArgument, PathArguments, ReturnType, Signature, Token, Type, TypeParamBound, TypePath,
};

use crate::hygiene;

/// The output of a function's future.
pub(crate) struct Returns {
    /// The type with every `impl Trait` replaced by `_`; just `_` if the type is not written out.
    pub(crate) ty: TokenStream,
    pub(crate) span: Span,
    pub(crate) never: bool,
}

/// The return type of an `async fn`. Without one, errors point at the function's name.
pub(crate) fn of_async(sig: &Signature) -> Returns {
    match &sig.output {
        ReturnType::Default => {
            let span = sig.ident.span();
            Returns { ty: quote_spanned!(span=> ()), span, never: false }
        }
        ReturnType::Type(_, ty) => of_type(ty),
    }
}

/// The `Output` in the return type of a function that builds its future.
pub(crate) fn of_built(sig: &Signature) -> Returns {
    let ReturnType::Type(_, ty) = &sig.output else { return of_async(sig) };
    if let Some(output) = output(ty) {
        return of_type(output);
    }
    let span = ty.span();
    let ty = if is_alias(ty) {
        let (at, alias) = (Span::mixed_site().located_at(span), ty.to_token_stream());
        quote_spanned!(at=> <#alias as ::core::future::Future>::Output)
    } else {
        unknown(span)
    };
    Returns { ty, span, never: false }
}

/// Is this the name of a future, such as `BoxFuture<'a, T>` or `Self::Future`, which the compiler
/// can ask for its output? A `Pin` of something that is no `dyn Future` need not be one.
fn is_alias(ty: &Type) -> bool {
    match ty {
        Type::Paren(inner) => is_alias(&inner.elem),
        Type::Group(inner) => is_alias(&inner.elem),
        Type::Path(named) => {
            let is_pin = named.path.segments.last().is_some_and(|last| last.ident == "Pin");
            !is_pin && !names(ty.to_token_stream(), |name| name == "impl")
        }
        _ => false,
    }
}

/// Does a function that is not async return a future, judged by the tokens of its type?
pub(crate) fn is_future(sig: &Signature) -> bool {
    match &sig.output {
        ReturnType::Default => false,
        ReturnType::Type(_, ty) => {
            names(ty.to_token_stream(), |name| name.to_string().contains("Future"))
        }
    }
}

fn names(tokens: TokenStream, is_meant: fn(&Ident) -> bool) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Group(group) => names(group.stream(), is_meant),
        TokenTree::Ident(name) => is_meant(&name),
        _ => false,
    })
}

fn of_type(ty: &Type) -> Returns {
    let never = is_never(ty);
    // Naming `!` as a type argument is unstable; it is inferred.
    let erased = if never { unknown(ty.span()) } else { erase_impl(ty.to_token_stream()) };
    Returns { ty: erased, span: ty.span(), never }
}

/// The type of a macro's `$t:ty` stands in an invisible group.
fn is_never(ty: &Type) -> bool {
    match ty {
        Type::Group(inner) => is_never(&inner.elem),
        ty => matches!(ty, Type::Never(_)),
    }
}

fn unknown(span: Span) -> TokenStream {
    quote_spanned!(span=> _)
}

/// `T` of `Pin<Box<dyn Future<Output = T> + 'a>>` or of `impl Future<Output = T>`, where it is
/// written out.
fn output(ty: &Type) -> Option<&Type> {
    match ty {
        Type::ImplTrait(bounds) => output_of_bounds(&bounds.bounds),
        Type::TraitObject(bounds) => output_of_bounds(&bounds.bounds),
        Type::Paren(inner) => output(&inner.elem),
        Type::Group(inner) => output(&inner.elem),
        Type::Path(TypePath { qself: None, path, .. }) => {
            arguments(&path.segments.last()?.arguments).find_map(|argument| match argument {
                GenericArgument::Type(inner) => output(inner),
                _ => None,
            })
        }
        _ => None,
    }
}

fn output_of_bounds(bounds: &Punctuated<TypeParamBound, Token![+]>) -> Option<&Type> {
    bounds.iter().find_map(|bound| {
        let TypeParamBound::Trait(bound) = bound else { return None };
        arguments(&bound.path.segments.last()?.arguments).find_map(|argument| match argument {
            GenericArgument::AssocType(assoc) if assoc.ident == "Output" => Some(&assoc.ty),
            _ => None,
        })
    })
}

fn arguments(arguments: &PathArguments) -> impl Iterator<Item = &GenericArgument> {
    match arguments {
        PathArguments::AngleBracketed(arguments) => Some(&arguments.args),
        _ => None,
    }
    .into_iter()
    .flatten()
}

/// Replaces each `impl Trait`, which cannot be written in a body, by `_`. It works on tokens,
/// because syn's `visit-mut` would double the build time of this crate.
fn erase_impl(tokens: TokenStream) -> TokenStream {
    let mut out = TokenStream::new();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Ident(ident) if ident == "impl" => {
                skip_bounds(&mut tokens);
                out.extend([TokenTree::Ident(Ident::new("_", ident.span()))]);
            }
            TokenTree::Group(group) => {
                let erased = erase_impl(group.stream());
                let erased = hygiene::grouped(group.delimiter(), erased, group.span());
                out.extend([TokenTree::Group(erased)]);
            }
            other => out.extend([other]),
        }
    }
    out
}

/// Up to the `,`, `;` or `>` of this level.
fn skip_bounds(tokens: &mut std::iter::Peekable<proc_macro2::token_stream::IntoIter>) {
    let mut depth = 0_usize;
    while let Some(token) = tokens.peek() {
        let punct = match token {
            TokenTree::Punct(punct) => punct.as_char(),
            _ => ' ',
        };
        match punct {
            '<' => depth += 1,
            '>' | ',' | ';' if depth == 0 => return,
            '>' => depth -= 1,
            // The `>` of `->` closes no bracket.
            '-' => drop(tokens.next()),
            _ => {}
        }
        tokens.next();
    }
}

#[cfg(test)]
mod tests {
    use proc_macro2::Delimiter;
    use quote::quote;

    use super::*;

    #[test]
    fn impl_trait_becomes_an_underscore() {
        for (ty, erased) in [
            (quote!(impl Display), quote!(_)),
            (quote!(Result<impl Display, E>), quote!(Result<_, E>)),
            (quote!(Result<impl Fn(A) -> Vec<B> + 'a, E>), quote!(Result<_, E>)),
            (quote!(Result<(impl A, impl B<C, D>), E>), quote!(Result<(_, _), E>)),
            (quote!(Result<A<impl B<C>>, E>), quote!(Result<A<_>, E>)),
            (quote!(Result<[impl A; 2], E>), quote!(Result<[_; 2], E>)),
            (quote!(Result<&'a str, E>), quote!(Result<&'a str, E>)),
        ] {
            assert_eq!(erase_impl(ty).to_string(), erased.to_string());
        }
    }

    #[test]
    fn the_output_is_found_where_it_is_written() {
        // As the `$t:ty` of a macro.
        let group = |ty| hygiene::grouped(Delimiter::None, ty, Span::call_site());
        let (alias, future) =
            (group(quote!(BoxFuture<'a, A>)), group(quote!(impl Future<Output = A>)));
        for (sig, expected) in [
            (quote!(fn f() -> Pin<Box<dyn Future<Output = Result<A, B>> + Send + 'a>>), "Result"),
            (quote!(fn f() -> impl Future<Output = Result<impl A, B>> + 'a), "Result < _ , B >"),
            (quote!(fn f() -> BoxFuture<'a, A>), "< BoxFuture < 'a , A > as :: core :: future"),
            (quote!(fn f() -> Self::Future), "< Self :: Future as :: core :: future"),
            (quote!(fn f() -> BoxFuture<'a, Result<impl A, B>>), "_"),
            (quote!(fn f() -> (BoxFuture<'a, A>)), "< (BoxFuture < 'a , A >) as :: core :: future"),
            (quote!(fn f() -> #alias), "< BoxFuture < 'a , A > as :: core :: future"),
            (quote!(fn f() -> (impl Future<Output = A>)), "A"),
            (quote!(fn f() -> #future), "A"),
            (quote!(fn f() -> impl Job<Error = E> + Future<Output = A>), "A"),
            (quote!(fn f() -> Pin<Box<dyn BoxedTask>>), "_"),
            (quote!(fn f() -> impl Task), "_"),
            (quote!(fn f()), "()"),
        ] {
            let ty = syn::parse2(sig).map(|sig| of_built(&sig).ty.to_string());
            assert!(ty.as_ref().is_ok_and(|ty| ty.starts_with(expected)), "{ty:?}");
        }
    }
}
