//! Golden expansions: whole ones in few places, and the part that an option changes.
#![expect(clippy::needless_pass_by_value, reason = "`quote!` gives values")]

use quote::quote;

use crate::lock;

mod captures;

/// Without white space: the printer's is nobody's business.
fn flat(tokens: impl ToString) -> String {
    tokens.to_string().split_whitespace().collect()
}

fn expanded(args: proc_macro2::TokenStream) -> String {
    flat(lock(
        args,
        quote!(
            async fn f(id: u64) -> R {
                body
            }
        ),
    ))
}

#[test]
fn the_whole_of_an_async_function() {
    let expected = flat(
        r#"
        #[doc = "Doc."]
        pub async fn f(id: u64) -> Result<impl A, E> {
            let __key = ::redlock::__private::Render::new()
                .text("stock-")
                .value("id", ::redlock::__private::format_args!(
                    "{}", ::redlock::__private::part(&&(id))))
                .finish();
            let __locked = {
                use ::redlock::__private::{LockLocal as _};
                ::redlock::__private::convert::<Result<_, E>, _>(async move {
                    if let ::core::option::Option::Some(__returned) =
                        ::core::option::Option::None::<Result<_, E>> { return __returned; }
                    ({ body })
                })
                .__redlock_lock(const {
                    ::redlock::__private::Spec::new("stock-<id>")
                        .expire(::redlock::__private::Duration::from_millis(10000u64))
                        .max_renew(5u32)
                }, __key, ::redlock::__private::global())
            };
            return __locked.await;
        }
        "#,
    );
    let found = flat(lock(
        quote!(key = "stock-<id>", expire = "10s", max_renew = 5),
        quote!(
            #[doc = "Doc."]
            pub async fn f(id: u64) -> Result<impl A, E> {
                body
            }
        ),
    ));
    assert_eq!(found, expected);
}

#[test]
fn the_whole_of_a_boxed_function() {
    let expected = flat(
        r#"
        fn f(id: u64) -> Pin<Box<dyn Future<Output = R> + Send>> {
            let __key = ::redlock::__private::literal_key("k");
            let twice = id * 2;
            Box::pin(async move {
                let __locked = {
                        use ::redlock::__private::{LockLocal as _};
                    ::redlock::__private::convert::<R, _>(async move { twice })
                        .__redlock_lock(const { ::redlock::__private::Spec::new("k") }, __key,
                            ::redlock::__private::global())
                };
                return __locked.await;
            })
        }
        "#,
    );
    let item = quote!(
        fn f(id: u64) -> Pin<Box<dyn Future<Output = R> + Send>> {
            let twice = id * 2;
            Box::pin(async move { twice })
        }
    );
    assert_eq!(flat(lock(quote!(key = "k"), item)), expected);
}

#[test]
fn each_option_changes_its_part() {
    for (args, part) in [
        (quote!(wait = "0s"), ".wait(::redlock::__private::Wait::Never)"),
        (quote!(wait = "forever"), ".wait(::redlock::__private::Wait::Forever)"),
        (
            quote!(wait = "1s"),
            "Wait::AtMost(::redlock::__private::Duration::from_millis(1000u64)))",
        ),
        (quote!(wait = w), "Spec::new(\"k\").wait(::redlock::__private::wait(w));"),
        (quote!(expire = e), ".expire(e);"),
        (quote!(min_hold = m), "Spec::new(\"k\").min_hold(m);"),
        (quote!(min_hold = "0s"), ".min_hold(::redlock::__private::Duration::from_millis(0u64))}"),
        (quote!(mode = "read"), "Spec::new(\"k\").read()}"),
        (quote!(mode = "write"), "Spec::new(\"k\")},"),
        (quote!(max_renew = 3), "Spec::new(\"k\").max_renew(3u32)}"),
        (
            quote!(max_renew = self.n()),
            "let__spec=::redlock::__private::Spec::new(\"k\").max_renew(",
        ),
        (quote!(max_renew = self.n()), ".max_renew(self.n());"),
        (quote!(permits = 3), "Spec::new(\"k\").permits(3u32)}"),
        (quote!(permits = self.n()), "Spec::new(\"k\").permits(self.n());"),
        (quote!(expire = e), ".__redlock_lock(__spec,__key,"),
        (
            quote!(expire = e, wait = "1s", min_hold = m),
            "let__spec={let__chain=::redlock::__private::Spec::new(\"k\").expire(e);\
             let__chain=__chain.wait(",
        ),
        (
            quote!(expire = e, wait = "1s", min_hold = m),
            ";let__chain=__chain.min_hold(m);__chain};",
        ),
        (quote!(release = "await"), "Spec::new(\"k\").awaited_release()}"),
        (quote!(release = "await"), "{LockLocalas_};::redlock::__private::convert::<R,_>("),
        (quote!(release = "await"), ".__redlock_lock_until_released(const{"),
        (quote!(reentrant = false), "Spec::new(\"k\").not_reentrant()}"),
        (quote!(release = "background", reentrant = true), "Spec::new(\"k\")},"),
        (quote!(client = &c), "let__client=::redlock::__private::client(&c);"),
        (quote!(client = &c), "__key,__client)"),
        (quote!(crate = a::b), "usea::b::__private::{LockLocalas_};"),
        (quote!(on_busy = "error"), "__private::convert::<R,_>(asyncmove{"),
        (quote!(on_busy = "skip"), "skip_busy(::redlock::__private::convert::<R,_>(async"),
        (
            quote!(on_busy = "skip"),
            ",\"k\",::redlock::__private::skipped::<R>()).__redlock_lock(const{",
        ),
        (quote!(on_busy = "skip"), "Spec::new(\"k\").skips_busy()}"),
        (quote!(on_error = panic), "__private::handle(asyncmove{"),
        (
            quote!(on_error = panic),
            ",|__error|::redlock::__private::panic_on(__error)).__redlock_lock(",
        ),
        (quote!(on_error = |e| x), ",|e|x).__redlock_lock("),
        (quote!(on_error = a::b), ",move|__error|a::b(__error)).__redlock_lock("),
    ] {
        let found = expanded(quote!(key = "k", #args));
        assert!(found.contains(part), "{part}\n{found}");
    }
}

/// A macro may hide a `return`: where one is called, its type is an error.
#[test]
fn what_calls_macros_does_not_return() {
    for (args, part) in [
        (quote!(key = m!(id)), "let__key=::redlock::__private::no_return(||"),
        (quote!(key = m!(id)), "NoReturn::of({::redlock::__private::display_key(&(m!(id)))}));"),
        (quote!(key = "<m!(id)>"), "NoReturn::of({::redlock::__private::Render::new()"),
        (quote!(keys = ["k", m!(id)]), "NoReturn::of({{let__key0="),
        (quote!(key = "k", wait = m!()), "let__spec=::redlock::__private::no_return(||"),
        (quote!(key = "k", client = m!()), "NoReturn::of({::redlock::__private::client(m!())}));"),
    ] {
        let found = expanded(args);
        assert!(found.contains(part), "{part}\n{found}");
        assert_eq!(found.matches("no_return").count(), 1, "{found}");
    }
    let item = quote!(
        fn f(id: u64) -> Pin<Box<dyn Future<Output = R> + Send>> {
            m!(id);
            Box::pin(async move { body })
        }
    );
    let found = flat(lock(quote!(key = "k"), item));
    let part =
        "::redlock::__private::no_return(||::redlock::__private::NoReturn::of({m!(id);Box::pin(";
    assert!(found.contains(part), "{found}");
}

#[test]
fn each_kind_of_key_is_rendered() {
    for (args, part) in [
        (quote!(key = "a<<b>>{c}"), "literal_key(\"a<b>{c}\")"),
        (quote!(key = "<id:05>"), "format_args!(\"{:05}\",id)"),
        (quote!(key = "<id>-<id>"), "Render::injective(\"-\")"),
        (quote!(key = "<id><id>"), ".text(\":\")"),
        (quote!(key = name(id)), "display_key(&(name(id)))"),
        (quote!(key = name(id)), "Spec::new(\"name(id)\")"),
        (quote!(keys = ["k", n(id)]), "{let__key0=::redlock::__private::literal_key(\"k\");"),
        (quote!(keys = ["k", n(id)]), "let__key1=::redlock::__private::Key::listed(&(n(id)));"),
        (quote!(keys = ["k", n(id)]), "::redlock::__private::several([__key0,__key1])};"),
        (quote!(keys = ["k", n(id)]), "Spec::new(\"k,n(id)\")"),
        (quote!(key = "a<id>b<id>"), ".text(\"b\");let__chain=__chain.value(\"id\","),
        (quote!(key = "a<id>b<id>c"), ".text(\"c\");__chain.finish()};"),
    ] {
        let found = expanded(args);
        assert!(found.contains(part), "{part}\n{found}");
    }
}

#[test]
fn the_function_survives_every_mistake() {
    for args in [quote!(), quote!(kye = "k"), quote!(key = "<idd>"), quote!(=), quote!(key = 1)] {
        let found = expanded(args);
        assert!(found.starts_with("asyncfnf(id:u64)->R{let_=&id;body}"), "{found}");
        assert!(found.contains("::core::compile_error!"), "{found}");
    }
    let item = quote!(
        struct S {
            field: u8,
        }
    );
    assert!(flat(lock(quote!(key = "k"), item.clone())).starts_with(&flat(item)));
}

/// In async-trait's shape the key moves in behind the unpacked patterns, and `self` is renamed.
#[test]
fn hoisted_keys_come_after_the_patterns() {
    let item = quote!(
        fn f<'t>(&'t self, __arg1: (u8, u8)) -> Pin<Box<dyn Future<Output = R> + 't>> {
            Box::pin(async move {
                let __self = self;
                let (a, b) = __arg1;
                let __ret: R = { body };
                __ret
            })
        }
    );
    let found = flat(lock(quote!(key = "<self.id>-<a>"), item.clone()));
    let order = ["Box::pin(asyncmove{let__self=self;let(a,b)=__arg1;let__key=", "__self.id", "(a)"];
    let mut rest = found.as_str();
    for part in order {
        rest = rest.split_once(part).unwrap_or_default().1;
    }
    assert!(rest.contains("asyncmove{let__ret:R={body};__ret}"), "{found}");
    for option in ["max_renew", "permits", "min_hold", "expire", "wait", "client"] {
        let option = quote::format_ident!("{option}");
        let option = quote!(#option = a);
        let found = flat(lock(quote!(key = "k", #option), item.clone()));
        assert!(found.contains("let(a,b)=__arg1;let__key="), "{found}");
    }
    let outside = flat(lock(quote!(key = "<self.id>"), item));
    assert!(outside.contains("{let__key=::redlock::__private::Render::new()"), "{outside}");
    assert!(outside.contains("part(&&(self.id))"), "{outside}");
}

/// What async-trait made is nothing but a box, for attributes below that look no further.
#[test]
fn nothing_stands_outside_of_a_box_by_async_trait() {
    let item = quote!(
        fn f<'life0, 'async_trait>(&'life0 self, id: u64) -> Pin<Box<dyn Future<Output = R>>> {
            Box::pin(async move {
                let __self = self;
                let id = id;
                let __ret: R = { body };
                __ret
            })
        }
    );
    let found = flat(lock(quote!(key = "<id>", client = &self.locks), item));
    let boxed = "{Box::pin(asyncmove{let__self=self;letid=id;let__key=";
    assert!(found.contains(boxed), "{found}");
    assert!(found.contains("&__self.locks"), "{found}");
}

/// Arguments are lent to the key without a guess which of them are `Copy`, and come back.
#[test]
fn arguments_are_lent_to_the_key() {
    let item = quote!(
        async fn f(mut a: A, (_1, b): (B, C), only: D) -> R {
            a + _1
        }
    );
    let found = flat(lock(quote!(key = "<a>-<_1>-<only>"), item));
    for part in [
        "asyncfnf(a:A,(_1,b):(B,C),only:D)",
        "let(__key,muta,_1,only)=::redlock::__private::lend((a,_1,only,),move|(a,_1,only,)|{",
        "(__key,a,_1,only)});",
        "{::redlock::__private::take_variable!(only);match__never{}}let__locked",
        "{::redlock::__private::take_variable!(_1);\
         ::redlock::__private::take_variable!(a);match__never{}}if",
    ] {
        assert!(found.contains(part), "{part}\n{found}");
    }
}

/// Lints that an attribute allows for an argument would be about another variable.
#[test]
fn an_argument_with_an_attribute_is_not_lent() {
    let item = quote!(
        async fn f(#[allow(unused_mut)] mut a: A, b: B) -> R {
            a + b
        }
    );
    let found = flat(lock(quote!(key = "<a>-<b>"), item));
    for part in ["asyncfnf(#[allow(unused_mut)]muta:A,b:B)", "let(__key,b)="] {
        assert!(found.contains(part), "{part}\n{found}");
    }
}

/// A method may change a `mut` argument, but not a variable that the closure binds without `mut`.
#[test]
fn what_a_call_may_change_is_not_lent() {
    let item = quote!(
        async fn f(mut a: A, b: B) -> R {
            a + b
        }
    );
    for key in [
        quote!("<a.next()>-<b>"),
        quote!("<a.0[1].next()>-<b>"),
        quote!("<next(&mut a)>-<b>"),
        quote!("<&mut a>-<b>"),
        quote!("<b[a.next()]>"),
        quote!("<a.next()[0]>-<b>"),
        quote!(format!("{b}-{}", a.next())),
        quote!(format!("{b}-{}", &mut a)),
    ] {
        let found = flat(lock(quote!(key = #key), item.clone()));
        for part in ["asyncfnf(muta:A,b:B)", "let(__key,b)=", "lend((b,),|(b,)|{"] {
            assert!(found.contains(part), "{key}: {part}\n{found}");
        }
    }
    let found = flat(lock(quote!(key = "<a.0[1]>-<&a>-<b.len()>"), item));
    assert!(found.contains("asyncfnf(a:A,b:B)"), "{found}");
    assert!(found.contains("let(__key,muta,b)="), "{found}");
}

/// What may use an argument up, or is not known to only look at it.
#[test]
fn other_keys_borrow_nothing_for_sure() {
    let item = quote!(
        async fn f(a: A) -> R {
            a
        }
    );
    for (key, is_lent) in
        [(quote!(a), true), (quote!(format!("{a}")), true), (quote!(m!(a)), false)]
    {
        let found = flat(lock(quote!(key = #key), item.clone()));
        assert_eq!(found.contains("lend("), is_lent, "{found}");
    }
}

/// Which of the two there is, is known after the expansion.
#[test]
fn a_parameter_may_depend_on_a_setting() {
    let item = quote!(
        async fn f(#[cfg_attr(a, cfg(b))] id: u64, #[cfg(c)] id: u64) -> R {
            id
        }
    );
    let found = flat(lock(quote!(key = "<id>"), item));
    for taken in ["#[cfg_attr(a,cfg(b))]::redlock", "#[cfg(c)]::redlock"] {
        let taken = format!("{taken}::__private::take_variable!(id);");
        assert!(found.contains(&taken), "{found}");
    }
    assert!(!found.contains("compile_error"), "{found}");
}

/// The `let`s in what async-recursion has boxed are the user's.
#[test]
fn the_lets_of_a_recursion_stay_under_the_lock() {
    let item = quote!(
        fn f<'async_recursion>(
            order: Order,
        ) -> Pin<Box<dyn Future<Output = R> + 'async_recursion>> {
            Box::pin(async move {
                let Order { id } = order;
                body
            })
        }
    );
    let found = flat(lock(quote!(key = "<order.id>"), item));
    assert!(found.contains("letOrder{id}=order;body})"), "{found}");
    assert!(!found.contains("letOrder{id}=order;let__key"), "{found}");
}
