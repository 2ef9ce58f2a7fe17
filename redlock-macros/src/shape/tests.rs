use quote::format_ident;

use super::*;
use crate::diagnostics::Errors;
use crate::item;

fn shape(item: TokenStream) -> Option<Shape> {
    of(&item::parse(item, &mut Errors::default())?)
}

fn built(item: TokenStream) -> Option<Built> {
    match shape(item)? {
        Shape::Built(built) => Some(built),
        Shape::Async => None,
    }
}

#[test]
fn futures_are_found_in_the_tail() {
    assert!(matches!(
        shape(quote!(
            async fn f() {}
        )),
        Some(Shape::Async)
    ));
    for boxed in [
        quote!(
            fn f() -> X {
                let n = 1;
                Box::pin(async move { n })
            }
        ),
        quote!(
            fn f() -> X {
                std::boxed::Box::pin(async move { 1 })
            }
        ),
        quote!(
            fn f() -> X {
                ::std::boxed::Box::pin(async { 1 })
            }
        ),
    ] {
        assert!(built(boxed).is_some_and(|built| built.boxed.is_some()));
    }
    let bare = built(quote!(
        fn f() -> impl Future<Output = X> {
            async move { 1 }
        }
    ));
    assert!(bare.is_some_and(|built| built.boxed.is_none()));
}

#[test]
fn other_functions_are_not_async() {
    for other in [
        quote!(
            fn f() {}
        ),
        quote!(
            fn f() -> X {
                Ok(1)
            }
        ),
        quote!(
            fn f() {
                Box::pin(async {});
            }
        ),
        quote!(
            fn f() -> X {
                Arc::pin(async {})
            }
        ),
        quote!(
            fn f() -> X {
                Box::pin(future)
            }
        ),
        quote!(
            fn f() {
                block_on(async {})
            }
        ),
    ] {
        assert!(shape(other.clone()).is_none(), "{other}");
    }
}

#[test]
fn the_lets_of_async_trait_are_hoisted() {
    let item = quote!(
        fn f<'t>(&'t self, __arg1: (u8, u8), n: u8) -> Pin<Box<dyn Future<Output = u8> + 't>> {
            Box::pin(async move {
                if let Some(__ret) = None::<u8> {
                    return __ret;
                }
                let __self = self;
                let (a, b) = {
                    let __arg1 = __arg1;
                    __arg1
                };
                let n = n;
                let __ret: u8 = {
                    let c = a;
                    c + b
                };
                __ret
            })
        }
    );
    let params = [format_ident!("self"), format_ident!("__arg1"), format_ident!("n")];
    let hoisted = built(item).map(|built| built.hoist(&params, Some(Boxing::AsyncTrait)));
    let names = |hoisted: &Hoisted| hoisted.names.iter().map(Ident::to_string).collect::<Vec<_>>();
    assert_eq!(hoisted.as_ref().map(names).unwrap_or_default(), ["__self", "a", "b", "n"]);
    let this = hoisted.as_ref().and_then(|hoisted| hoisted.this.as_ref()).map(Ident::to_string);
    assert_eq!(this.as_deref(), Some("__self"));
    let rest = hoisted.map(|hoisted| hoisted.rest.to_string()).unwrap_or_default();
    assert!(rest.starts_with("if let") && rest.contains("let __ret : u8"), "{rest}");
}

/// Only what renames parameters: anything else is the user's code and runs under the lock.
#[test]
fn other_lets_stay_under_the_lock() {
    let item = quote!(
        fn f(pair: (u8, u8)) -> X {
            Box::pin(async move {
                let (a, b) = pair.clone();
                let c = pair;
                a
            })
        }
    );
    let hoisted = built(item).map(|built| built.hoist(&[format_ident!("pair")], None));
    assert!(hoisted.is_some_and(|hoisted| hoisted.names.is_empty()));
}

#[test]
fn code_of_the_user_stays_under_the_lock() {
    let hoisted = |block: TokenStream, boxing| {
        let item = quote!(fn f(order: Order) -> X { Box::pin(async move { #block }) });
        built(item).unwrap().hoist(&[format_ident!("order")], boxing).names.len()
    };
    let taken_apart = quote!(let Order { id } = order; id);
    assert_eq!(hoisted(taken_apart.clone(), None), 1);
    assert_eq!(hoisted(taken_apart, Some(Boxing::AsyncRecursion)), 0);
    for block in [
        quote!(let id = { write().await; order }; id),
        quote!(let id = { let order = order + 1; order }; id),
        quote!(let id = { let order = { return 0; }; order }; id),
        quote!(let id = { let order = order else { return 0; }; order }; id),
        quote!(let id = { let ref order = order; order }; id),
        quote!(let Some(id) = order else { return 0; }; id),
        quote!(let id: Order = order; id),
        quote!(let id = OTHER; id),
        quote!(if order.is_empty() { return 0; } let id = order; id),
    ] {
        assert_eq!(hoisted(block.clone(), None), 0, "{block}");
    }
    let second = quote!(if order.is_empty() { return 0; } write().await; let id = order; id);
    assert_eq!(hoisted(second, Some(Boxing::AsyncTrait)), 0);
    let behind = quote!(let id = order; if id.is_empty() { return 0; } let n = order; n);
    assert_eq!(hoisted(behind, Some(Boxing::AsyncTrait)), 1);
}
