// The future of a locked function has an auto trait exactly when that of the plain one has it.

use std::cell::Cell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::task::{Context, Waker};

use crate::support::{Order, Otherwise, any, probe, run};

macro_rules! parity {
    ($module:ident: $($call:tt)+) => {
        #[test]
        fn $module() {
            parity!(@each $module $($call)+);
        }
    };
    (@each $module:ident [$($name:ident)::+] $arguments:tt; $($rest:tt)*) => {
        let plain = probe(|| crate::plain::$module::$($name)::+ $arguments);
        let locked = probe(|| crate::locked::$module::$($name)::+ $arguments);
        let name = stringify!($($name)::+);
        assert_eq!(locked.is_send(), plain.is_send(), "{}: Send", name);
        assert_eq!(locked.is_sync(), plain.is_sync(), "{}: Sync", name);
        assert_eq!(locked.is_unwind_safe(), plain.is_unwind_safe(), "{}: UnwindSafe", name);
        parity!(@each $module $($rest)*);
    };
    (@each $module:ident) => {};
}

parity! { arguments:
    [nothing] ();
    [by_value] (any());
    [by_reference] (any());
    [by_mutable_reference] (any(), any());
    [named_lifetime] (any(), any());
    [elided_lifetime] (any());
    [two_lifetimes] (any(), any());
    [outlives] (any(), any());
    [mutable] (any());
    [tuple_pattern] (any());
    [struct_pattern] (any());
    [slice_pattern] (any());
    [reference_pattern] (any());
    [at_pattern] (any());
    [wild_pattern] (any(), any());
    [unused] (any(), any());
    [only_in_the_key] (any());
    [raw_identifiers] (any(), any());
    [cfg_parameters] (any(), any());
    [impl_trait_argument] (any::<u32>());
    [impl_trait_argument] (any::<Arc<str>>());
    [impl_closure] (any(), any::<fn(u32) -> u32>());
    [dyn_argument] (any());
    [boxed_dyn] (any());
    [send_not_sync] (any());
    [not_send] (any());
    [reference_to_not_sync] (any());
    [function_pointer] (any(), any());
    [by_value_array] (any());
    [many] (any(), any(), any(), any(), any(), any(), any());
}

parity! { bodies:
    [question_mark] (any());
    [early_return] (any());
    [only_return] (any());
    [empty] ();
    [diverges] ();
    [closures] (any());
    [nested_items] (any());
    [nested_locks] (any());
    [async_blocks] (any());
    [loops] (any());
    [match_tail] (any());
    [if_tail] (any());
    [borrows_across_await] ();
    [tail_temporary] (any());
    [macros] (any());
    [inner_attributes] (any());
    [coerced] ();
    [inferred] ();
    [cfg_attribute] ();
    [recursion] (any());
    [crate_visible] (any());
    [extern_function] (any());
    [two_locks] (any());
    [forbidding] ();
}

parity! { generics:
    [generic] (any::<u32>());
    [generic] (any::<std::rc::Rc<u32>>());
    [where_clause] (any::<u32>());
    [debug_bound] (any::<&u32>());
    [const_generic] (any::<[u8; 3]>());
    [as_ref] (any::<String>());
    [higher_ranked] (any(), any::<fn(&str) -> &str>());
    [maybe_unsized] (any::<&str>());
    [everything] (any(), any::<&[u32; 2]>());
    [associated_constant] (any::<u32>());
}

parity! { keys:
    [fields] (any());
    [constants] ();
    [function_calls] (any());
    [formats] (any(), any());
    [operators] (any(), any(), any(), any());
    [ranges] (any(), any(), any());
    [turbofish] (any());
    [quotes] (any());
    [raw_string] (any());
    [literal_brackets] (any());
    [adjacent] (any(), any(), any());
    [unicode] (any());
    [format_expression] (any());
    [argument_expression] (any());
    [constant_expression] ();
    [match_expression] (any());
    [block_expression] (any());
    [captured_by_a_macro] (any(), any());
    [captured_and_moved] (any());
}

parity! { lent:
    [mentioned_as_a_field] (any(), any());
    [mentioned_as_a_local] (any());
    [mentioned_as_a_closures_argument] (any());
    [mentioned_in_a_string] (any());
    [names_like_constants] (any());
    [upper_case] (any(), any());
    [twins] (any(), any());
    [mutable_parts] (any(), any());
    [changed_by_the_key] (any(), any());
    [mutable_in_calls] (any(), any(), any());
    [mutable_and_formatted] (any::<std::vec::IntoIter<u64>>(), any());
    [by_reference] (any());
    [with_attributes] (any(), any(), any());
    [consumed] (any(), any());
    [formatted] (any(), any());
}

parity! { methods:
    [Shop::owned] (any());
    [Shop::owned_mutable] (any());
    [Shop::shared] (any(), any());
    [Shop::exclusive] (any(), any());
    [Shop::named_lifetime] (any(), any());
    [Shop::boxed] (any());
    [Shop::counted] (any());
    [Shop::atomically_counted] (any());
    [Shop::borrowed_arc] (any());
    [Shop::pinned] (any());
    [Shop::typed] (any());
    [Shop::associated] (any());
    [Shop::method_in_key_used] (any());
    [Choice::of_enum] (any());
}

parity! { names:
    [shadowed_types] (any());
    [shadowed_arguments] (any(), any(), any(), any(), any());
    [internal_names] (any(), any(), any(), any(), any());
    [internal_names_in_body] (any());
    [shadowing] (any());
    [shadowed_functions] (any());
    [a_lock_method_of_ones_own] (any());
    [through_two_macros] (any(), any());
    [whole_in_a_macro] (any());
    [options_from_a_macro] (any());
    [raw_in_the_key] (any(), any(), any(), any());
    [raw_arguments] (any(), any(), any());
    [blanket::sent] (any());
    [blanket::not_sent] (any());
}

parity! { options:
    [all] (any());
    [try_once] ();
    [forever] ();
    [constant_durations] ();
    [durations_from_arguments] (any(), any());
    [on_error_in_brackets] ();
    [macros] (any(), any(), any());
    [macros_beside_a_change] (any());
    [macros_that_consume] (any(), any());
    [background] ();
    [closure_on_error] ();
    [capturing_closure] (any());
    [path_on_error] ();
    [generic_path_on_error] ();
    [constructor_on_error] ();
    [client_argument] (any(), any());
    [owned_client_argument] (any(), any());
    [shared_client_argument] (any());
    [Service::client_field] (any());
    [Service::client_method] (any());
    [Service::client_in_arc] (any());
    [client_behind_a_static] ();
    [reexported_crate] (any());
}

parity! { outputs:
    [lock_error] ();
    [boxed_error] (any());
    [boxed_send_error] (any());
    [impl_in_result] (any());
    [impl_closure_in_result] (any());
    [bare_impl] (any());
    [impl_iterator] (any());
    [unit] ();
    [explicit_unit] ();
    [option] ();
    [never] ();
    [not_send] ();
    [boxed_dyn] (any());
    [nested_result] ();
    [tuple] ();
    [function_pointer] ();
    [uninhabited] ();
    [uninhabited_in_result] ();
    [typed_never] ();
    [typed_number] ();
    [alias] (any());
    [alias_of_an_alias] (any());
    [local_alias] (any());
}

parity! { traits:
    [recursion_above] (any());
    [recursion_below] (any());
    [boxed_by_hand] (any());
    [boxed_with_lifetime] (any(), any());
    [boxed_without_capture] (any());
    [boxed_alias] (any());
    [returns_a_future] (any());
    [boxed_after_macros] (any(), any(), any(), any());
    [returns_a_future_after_macros] (any(), any());
    [returns_a_future_of_a_client] (any(), any());
}

// What needs a type written out or a trait in scope.
#[test]
fn the_rest() {
    use crate::{locked, plain};
    macro_rules! same {
        ($plain:expr, $locked:expr) => {
            let (plain, locked) = (probe(|| $plain), probe(|| $locked));
            assert_eq!(locked.is_send(), plain.is_send(), "{}: Send", stringify!($plain));
            assert_eq!(locked.is_sync(), plain.is_sync(), "{}: Sync", stringify!($plain));
        };
    }
    same!(
        any::<&plain::methods::Wrapper<'_, u32>>().generic(any::<u8>()),
        any::<&locked::methods::Wrapper<'_, u32>>().generic(any::<u8>())
    );
    same!(
        plain::generics::lower_case_const_generic::<3>(),
        locked::generics::lower_case_const_generic::<3>()
    );
    same!(unsafe { plain::bodies::unsafe_function(any()) }, unsafe {
        locked::bodies::unsafe_function(any())
    });
    same!(
        plain::traits::Native::required(any::<&Order>(), any()),
        locked::traits::Native::required(any::<&Order>(), any())
    );
    same!(
        plain::traits::Native::provided(any::<&Order>()),
        locked::traits::Native::provided(any::<&Order>())
    );
}

// Not only equal: the plain futures are `Send`, so these are.
#[allow(dead_code)]
fn sendable() {
    fn send<T: Send>(_: T) {}
    fn sync<T: Sync>(_: T) {}
    fn unwind_safe<T: UnwindSafe>(_: T) {}
    use crate::locked::{arguments, chains, outputs, traits};
    send(arguments::by_mutable_reference(any(), any()));
    sync(arguments::by_mutable_reference(any(), any()));
    send(arguments::send_not_sync(any()));
    send(outputs::boxed_error(any()));
    send(traits::Boxed::pattern(any::<&Order>(), any()));
    send(traits::Boxed::generic(any::<&Order>(), any::<u32>()));
    send(chains::plain39(any()));
    send(chains::locked15(any()));
    unwind_safe(arguments::by_value(any()));
}

// Not a place inside of the standard library, which called a handler.
#[test]
fn a_panic_names_the_place_of_the_attribute() {
    thread_local!(static PLACE: Cell<Option<String>> = const { Cell::new(None) });
    let others = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        PLACE.with(|place| place.set(panic.location().map(|place| place.file().to_owned())));
        others(panic);
    }));
    // Nothing is initialized here, which is a failure of the lock.
    let mut call = Box::pin(crate::locked::outputs::explicit_unit());
    let poll = || call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
    assert!(std::panic::catch_unwind(AssertUnwindSafe(poll)).is_err());
    let place = PLACE.with(Cell::take).unwrap_or_default();
    assert!(place.ends_with("outputs.rs"), "{}", place);
}

// With the lock, arguments are dropped where they are dropped without it.
#[test]
fn arguments_are_dropped_where_the_plain_function_drops_them() {
    let redlock = run(redlock::Redlock::builder().memory().build()).unwrap();
    let (plain, locked) = (crate::plain::drops::all(&redlock), crate::locked::drops::all(&redlock));
    assert_eq!(locked, plain);
}
