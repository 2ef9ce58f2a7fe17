//! Which arguments the locked body takes as a whole.

use super::*;

/// An argument that is there for its drop lives as long as the body. A bare `_` has no name by
/// which it could be moved, a lint watches other names, and a key may use an argument up.
#[test]
fn what_is_not_read_is_kept_for_its_drop() {
    let item = quote!(
        async fn f(_a: A, b: B, (_c, _): (C, D), _read: E, _handled: F, _: G) -> R {
            body
        }
    );
    let found = flat(lock(quote!(key = "<_read.end()>", on_error = |e| g(_handled)), item));
    let taken = "{::redlock::__private::take_variable!(_c);\
                 ::redlock::__private::take_variable!(_a);match__never{}}if";
    assert!(found.contains(taken), "{found}");
    assert_eq!(found.matches("take_variable").count(), 2, "{found}");
}

/// A pattern may have unit structs and constants in it, which are no variables.
#[test]
fn a_name_in_upper_case_is_not_taken() {
    let item = quote!(
        async fn f<T>(n: N, (PhantomData, m): (PhantomData<T>, M)) -> R {
            g(n, m, PhantomData)
        }
    );
    let found = flat(lock(quote!(key = "k"), item.clone()));
    let taken = "{::redlock::__private::take_variable!(m);\
                 ::redlock::__private::take_variable!(n);match__never{}}if";
    assert!(found.contains(taken), "{found}");
    assert!(flat(lock(quote!(), item)).contains("{let_=&n;let_=&m;g("));
}

/// async-trait moves `self` into a variable, which a string cannot name.
#[test]
fn a_key_that_formats_self_is_rendered_before_self_is_moved() {
    let item = quote!(
        fn f<'async_trait>(&mut self, __arg1: (u8, u8)) -> Pin<Box<dyn Future<Output = R>>> {
            Box::pin(async move {
                let __self = self;
                let (a, b) = __arg1;
                let __ret: R = { body };
                __ret
            })
        }
    );
    for (key, order) in [
        (
            quote!(format!("{self}-{}-{a}", self.id)),
            ["{let(a,b)=__arg1;", ",self.id", "let__self=self;let__locked"],
        ),
        (
            quote!(format!("{}-{a}", self.id)),
            ["{let__self=self;let(a,b)=__arg1;", ",__self.id", "let__locked"],
        ),
    ] {
        let found = flat(lock(quote!(key = #key), item.clone()));
        let mut rest = found.as_str();
        for part in order {
            rest = rest.split_once(part).map(|(_, rest)| rest).expect(&found);
        }
    }
}

/// The rest of an argument is dropped after the release where the handler may need a part of it. A
/// parameter of its closure, a field, a method or a module of that name is no such need.
#[test]
fn a_handler_reads_what_its_own_parameters_do_not_hide() {
    let whole = "::redlock::__private::take_variable!(e);";
    for (on_error, is_read) in [
        (quote!(|e| Err(e)), false),
        (quote!(|(n, Some(E { e, .. }))| Err(e.n())), false),
        (quote!(|e: LockError| Err(format!("{e}"))), false),
        (quote!(|error| Err(error.e)), false),
        (quote!(|error| Err(e::Error { e: 1, error })), false),
        (quote!(e::failed), false),
        (quote!(|error| Err(f(error, e.id))), true),
        (quote!(|error| Err(format!("{e}: {error}"))), true),
        (quote!(|_| Err(E { e })), true),
        (quote!(e), true),
    ] {
        let item = quote!(
            async fn f(e: Ev) -> R {
                e.id
            }
        );
        let found = flat(lock(quote!(key = "k", on_error = #on_error), item));
        assert_eq!(found.contains(whole), !is_read, "{on_error}: {found}");
    }
}
