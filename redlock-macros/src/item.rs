//! The function under the attribute: its signature is parsed, its body stays tokens.

use proc_macro2::{Delimiter, Group, Ident, TokenStream, TokenTree};
use quote::ToTokens;
use syn::parse::{Parse, ParseStream};
use syn::{Attribute, Error, FnArg, GenericParam, LitStr, Pat, Signature, Token, Type, Visibility};

use crate::diagnostics::Errors;
use crate::{hygiene, returns};

/// A name that a parameter binds.
pub(crate) struct Binding {
    pub(crate) name: Ident,
    /// `#[cfg(..)]`s of the parameter, which are not evaluated yet.
    pub(crate) cfgs: Vec<Attribute>,
    /// The parameter has attributes, which say something of this variable only, as `#[allow]` does.
    pub(crate) has_attrs: bool,
    pub(crate) mutability: Option<Token![mut]>,
    /// The parameter is this name only, and its type is small: a primitive or a reference.
    pub(crate) is_small: bool,
}

impl Binding {
    /// A binding with a name only.
    pub(crate) fn of(name: Ident) -> Binding {
        Binding { name, cfgs: Vec::new(), has_attrs: false, mutability: None, is_small: false }
    }
}

/// Attributes that box futures, known by the lifetimes that they add.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Boxing {
    AsyncTrait,
    AsyncRecursion,
}

/// The function under the attribute. Its body is not parsed: parsing would cost compile time and
/// would reject half-typed bodies, and break the editor's completion in them.
pub(crate) struct Function {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) sig: Signature,
    /// `#![..]` at the head of the body: these attributes belong to the whole function.
    pub(crate) inner_attrs: TokenStream,
    /// The user's own braces with their spans, so that errors and lifetimes of temporaries stay
    /// those of the plain function.
    pub(crate) body: Group,
}

pub(crate) fn parse(item: TokenStream, errors: &mut Errors) -> Option<Function> {
    let function: Function = errors.keep(syn::parse2(item))?;
    if let Some(keyword) = &function.sig.constness {
        errors.over(keyword, "`#[redis_lock]` cannot be used on a `const fn`");
        return None;
    }
    Some(function)
}

impl Function {
    /// Every name that the parameters bind, `self` included.
    pub(crate) fn names(&self) -> Vec<Ident> {
        self.bindings().into_iter().map(|binding| binding.name).collect()
    }

    /// The bindings of the parameters, in their order, `self` included.
    pub(crate) fn bindings(&self) -> Vec<Binding> {
        let mut bindings = Vec::new();
        for input in &self.sig.inputs {
            let typed = match input {
                FnArg::Typed(typed) => typed,
                FnArg::Receiver(this) => {
                    bindings.push(Binding::of(Ident::new("self", this.self_token.span)));
                    continue;
                }
            };
            let is_whole = matches!(&*typed.pat, Pat::Ident(pattern) if pattern.subpat.is_none());
            hygiene::each_binding(&mut typed.pat.clone(), &mut |pattern| {
                bindings.push(Binding {
                    name: pattern.ident.clone(),
                    cfgs: cfgs(&typed.attrs),
                    has_attrs: !typed.attrs.is_empty(),
                    mutability: pattern.mutability.filter(|_| pattern.by_ref.is_none()),
                    is_small: is_whole && is_small(&typed.ty),
                });
            });
        }
        bindings
    }

    /// The attribute that has boxed the future of what was an `async fn`. Such a future may borrow
    /// every argument. `None`: there is none.
    pub(crate) fn boxed_by(&self) -> Option<Boxing> {
        self.sig.generics.lifetimes().find_map(|one| {
            match one.lifetime.ident.to_string().as_str() {
                "async_trait" => Some(Boxing::AsyncTrait),
                "async_recursion" => Some(Boxing::AsyncRecursion),
                _ => None,
            }
        })
    }

    pub(crate) fn is_const_generic(&self, name: &Ident) -> bool {
        let mut params = self.sig.generics.params.iter();
        params.any(|param| match param {
            GenericParam::Const(param) => hygiene::is_same(&param.ident, name),
            _ => false,
        })
    }

    pub(crate) fn not_async(&self) -> Error {
        let name = &self.sig.ident;
        let message = if returns::is_future(&self.sig) {
            format!(
                "`#[redis_lock]` has to see the body that it locks: make `{name}` an `async fn`, \
                 or end it with `Box::pin(async move {{ .. }})` or `async move {{ .. }}`, awaiting \
                 inside what it returns now"
            )
        } else {
            format!(
                "`#[redis_lock]` needs an `async fn`, but `{name}` is not async here. If another \
                 attribute such as `#[tokio::main]` or `#[tokio::test]` stands above, move \
                 `#[redis_lock]` above it"
            )
        };
        Error::new_spanned(self.sig.fn_token, message)
    }
}

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let attrs = input.call(Attribute::parse_outer)?;
        let vis: Visibility = input.parse()?;
        if !is_function(input) {
            let message = "`#[redis_lock]` can only be used on an `async fn`";
            let rest: TokenStream = input.parse()?;
            return Err(Error::new_spanned(head(rest), message));
        }
        let sig: Signature = input.parse()?;
        let Ok(TokenTree::Group(body)) = input.parse() else {
            let message = format!(
                "`{}` has no body to run under the lock; put `#[redis_lock]` on the implementation",
                sig.ident
            );
            return Err(Error::new(sig.ident.span(), message));
        };
        // The tokens that follow are rustc's to check.
        input.parse::<TokenStream>()?;
        let (inner_attrs, body) = split_inner_attrs(body);
        Ok(Function { attrs, vis, sig, inner_attrs, body })
    }
}

/// Attributes that decide whether the parameter exists.
fn cfgs(attrs: &[Attribute]) -> Vec<Attribute> {
    let decides =
        |attr: &&Attribute| attr.path().is_ident("cfg") || attr.path().is_ident("cfg_attr");
    attrs.iter().filter(decides).cloned().collect()
}

/// A guess by the tokens of the type: a wrong one costs only some bytes of the future.
fn is_small(ty: &Type) -> bool {
    const PRIMITIVES: [&str; 16] = [
        "bool", "char", "f32", "f64", "i8", "i16", "i32", "i64", "i128", "isize", "u8", "u16",
        "u32", "u64", "u128", "usize",
    ];
    match ty {
        Type::Reference(_) => true,
        Type::Path(path) => {
            path.path.get_ident().is_some_and(|name| PRIMITIVES.iter().any(|p| name == p))
        }
        _ => false,
    }
}

/// Is this `fn`, after any qualifiers?
fn is_function(input: ParseStream<'_>) -> bool {
    let ahead = input.fork();
    loop {
        let qualifier = ahead.peek(Token![async])
            || ahead.peek(Token![const])
            || ahead.peek(Token![unsafe])
            || ahead.peek(Token![extern])
            || ahead.peek(LitStr);
        if !qualifier || ahead.parse::<TokenTree>().is_err() {
            return ahead.peek(Token![fn]);
        }
    }
}

/// `struct S` of `struct S { .. }`: enough for an error to point at.
fn head(item: TokenStream) -> TokenStream {
    item.into_iter().take_while(|token| !matches!(token, TokenTree::Group(_))).take(2).collect()
}

fn split_inner_attrs(body: Group) -> (TokenStream, Group) {
    let tokens: Vec<TokenTree> = body.stream().into_iter().collect();
    let mut n = 0;
    while let [TokenTree::Punct(hash), TokenTree::Punct(bang), TokenTree::Group(attr), ..] =
        &tokens[n..]
        && hash.as_char() == '#'
        && bang.as_char() == '!'
        && attr.delimiter() == Delimiter::Bracket
    {
        n += 3;
    }
    if n == 0 {
        return (TokenStream::new(), body);
    }
    let rest = tokens[n..].iter().cloned().collect();
    let rest = hygiene::grouped(Delimiter::Brace, rest, body.span());
    let attrs = tokens[..n].iter().map(ToTokens::to_token_stream).collect();
    (attrs, rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quote::quote;

    fn problems(item: TokenStream) -> Vec<String> {
        let mut errors = Errors::default();
        parse(item, &mut errors);
        errors.messages()
    }

    #[test]
    fn half_typed_bodies_are_functions() {
        assert!(problems(quote!(async fn f(id: u64) { id. })).is_empty());
        assert!(problems(quote!(pub(crate) async unsafe fn f() { let })).is_empty());
    }

    #[test]
    fn other_items_are_refused() {
        for item in [
            quote!(
                struct S;
            ),
            quote!(
                const N: u8 = 1;
            ),
            quote!(impl S {}),
            quote!(
                mod m;
            ),
        ] {
            assert_eq!(problems(item), ["`#[redis_lock]` can only be used on an `async fn`"]);
        }
        assert!(
            problems(quote!(
                async fn f();
            ))[0]
                .starts_with("`f` has no body")
        );
        assert!(
            problems(quote!(
                const fn f() {}
            ))[0]
                .contains("`const fn`")
        );
    }

    #[test]
    fn inner_attributes_stay_in_front() {
        let item = quote!(
            async fn f() {
                #![allow(x)]
                #![deny(y)]
                body
            }
        );
        let function = parse(item, &mut Errors::default());
        let function = function.map(|f| (f.inner_attrs.to_string(), f.body.stream().to_string()));
        assert_eq!(
            function,
            Some(("# ! [allow (x)] # ! [deny (y)]".to_owned(), "body".to_owned()))
        );
    }

    #[test]
    fn names_come_out_of_patterns() {
        let item = quote!(
            async fn f<const N: usize>(
                &self,
                a: u8,
                (b, [c, ..]): P,
                S { d, e: g, .. }: S,
                T(h @ 1..): T,
                _: u8,
                &i: &u8,
                r#type: u8,
            ) {
            }
        );
        let function = parse(item, &mut Errors::default());
        let names = function.map(|f| f.names().iter().map(Ident::to_string).collect::<Vec<_>>());
        let expected = ["self", "a", "b", "c", "d", "g", "h", "i", "r#type"];
        assert_eq!(names.unwrap_or_default(), expected);
    }
}
