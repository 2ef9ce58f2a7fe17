//! Options: what is read, what is refused, and that all of it is refused at once.
#![expect(clippy::needless_pass_by_value, reason = "`quote!` gives values")]

use quote::quote;

use super::*;

fn parsed(tokens: TokenStream) -> (Args, Vec<String>) {
    let mut errors = Errors::default();
    let args = parse(tokens, &mut errors);
    (args, errors.messages())
}

/// The messages of options that stand beside a good key.
fn problems(tokens: TokenStream) -> Vec<String> {
    parsed(quote!(key = "k", #tokens)).1
}

#[test]
fn all_options_are_read() {
    let (args, errors) = parsed(quote! {
        key = "stock-<id>", expire = "1m30s", wait = "2m", max_renew = 5, on_error = panic,
        client = &self.locks, release = "await", reentrant = false, crate = a::b,
        on_busy = "skip", mode = "read",
    });
    assert!(errors.is_empty(), "{errors:?}");
    assert!(matches!(args.key, Some(Key::Template(text)) if text.value() == "stock-<id>"));
    assert!(matches!(args.expire, Some(Time::Millis(90_000))));
    assert!(matches!(args.wait, Some(Time::Millis(120_000))));
    assert!(matches!(args.max_renew, Some(Count::Known(5))));
    assert!(matches!(args.on_error, OnError::Panic));
    assert!(args.client.is_some() && args.krate.is_some());
    assert!(args.awaits_release && !args.reentrant && args.skips_busy && args.mode == Mode::Read);
}

/// A call that waits without an end never skips.
#[test]
fn a_wait_without_an_end_skips_nothing() {
    for forever in ["forever", " forever "] {
        let (args, errors) = parsed(quote!(key = "k", wait = #forever));
        assert!(errors.is_empty() && matches!(args.wait, Some(Time::Forever)));
    }
    for skips in [
        quote!(key = "k", wait = "forever", on_busy = "skip"),
        quote!(key = "k", on_busy = "skip", wait = "forever"),
    ] {
        let (_, errors) = parsed(skips);
        assert!(matches!(&errors[..], [only] if only.contains("exclude each other")), "{errors:?}");
    }
    let (_, errors) = parsed(quote!(key = "k", on_busy = "error", wait = "forever"));
    assert!(errors.is_empty(), "{errors:?}");
}

#[test]
fn what_is_left_out_stays_unset() {
    let (args, errors) = parsed(quote!(key = "k"));
    assert!(errors.is_empty());
    assert!(args.expire.is_none() && args.wait.is_none() && args.max_renew.is_none());
    assert!(args.client.is_none() && args.krate.is_none());
    assert!(args.reentrant && !args.awaits_release && !args.skips_busy);
    assert!(args.mode == Mode::Write && args.permits.is_none());
    assert!(matches!(args.on_error, OnError::Convert));
}

#[test]
fn values_may_be_expressions() {
    let (args, errors) = parsed(quote! {
        key = format!("stock-{id}"), expire = self.lease * 2, wait = WAIT, on_error = |_| None,
        max_renew = RENEWALS, permits = self.permits(),
    });
    assert!(errors.is_empty(), "{errors:?}");
    assert!(matches!(args.key, Some(Key::Value(_))));
    assert!(matches!((args.expire, args.wait), (Some(Time::Value(_)), Some(Time::Value(_)))));
    assert!(matches!(args.on_error, OnError::With(Expr::Closure(_))));
    let counts = (args.max_renew, args.permits);
    assert!(matches!(counts, (Some(Count::Value(_)), Some(Count::Value(_)))));
}

#[test]
fn max_renew_is_a_number() {
    for (tokens, part) in [
        (quote!(max_renew = "5"), "a whole number such as 5, or an expression of type `u32`"),
        (quote!(max_renew = -1), "a whole number such as 5"),
        (quote!(max_renew = 2.5), "a whole number such as 5"),
        (quote!(max_renew = 5u64), "fits in u32"),
        (quote!(max_renew = 4_294_967_296), "fits in u32"),
        (quote!(max_renew = n()?), "`?` is not allowed in `max_renew`"),
    ] {
        let errors = problems(tokens);
        assert!(errors.len() == 1 && errors[0].contains(part), "{errors:?}");
    }
    for tokens in [quote!(max_renew = 0), quote!(max_renew = 4_294_967_295), quote!(max_renew = n)]
    {
        assert!(problems(tokens).is_empty());
    }
}

/// The good templates of the list are kept: their placeholders are checked too.
#[test]
fn every_mistake_in_a_list_is_reported() {
    let (args, errors) =
        parsed(quote!(keys = ["a-<id>", 5, "b-<idd>", f().await, ["c"], "a-<id>"]));
    assert!(matches!(args.key, Some(Key::Several(keys)) if keys.len() == 3));
    let expected = [
        "a literal in `keys` must be a string",
        "`.await` is not allowed in `keys`",
        "a key of `keys` is one key, not a list",
        "is in the list twice",
    ];
    assert_eq!(errors.len(), expected.len(), "{errors:?}");
    for (error, part) in errors.iter().zip(expected) {
        assert!(error.contains(part), "{part}: {errors:?}");
    }
}

#[test]
fn a_list_is_no_key() {
    for list in [quote!(["a", "b"]), quote!(["a"; 3]), quote!(&["a"]), quote!(vec![a, b])] {
        let (_, errors) = parsed(quote!(key = #list));
        assert!(errors.len() == 1 && errors[0].contains("write `keys = [..]`"), "{errors:?}");
    }
    let (args, errors) = parsed(quote!(key = ["a", 5]));
    assert_eq!(errors.len(), 2, "{errors:?}");
    assert!(matches!(args.key, Some(Key::Several(keys)) if keys.len() == 1));
}

/// Whichever of them is taken out, the other mistakes are known.
#[test]
fn options_that_exclude_each_other_are_checked_too() {
    for (tokens, parts) in [
        (quote!(keys = ["a"], permits = 0), ["`keys` and `permits`", "`permits` must be"]),
        (quote!(key = "b", keys = ["a"], mode = "read"), ["`key` and `keys`", "`mode = \"read\"`"]),
        (quote!(keys = ["a", 5], key = "b"), ["`key` and `keys`", "a literal in `keys`"]),
    ] {
        let (_, errors) = parsed(tokens);
        assert_eq!(errors.len(), 2, "{errors:#?}");
        for part in parts {
            assert!(errors.iter().any(|error| error.contains(part)), "{part}: {errors:#?}");
        }
    }
    let (args, _) = parsed(quote!(key = "a", keys = ["b", "c"]));
    assert!(matches!(args.key, Some(Key::Several(keys)) if keys.len() == 3));
}

#[test]
fn every_option_is_checked_in_one_go() {
    let errors = problems(quote! {
        expire = "0s", wait = 5 +, max_renew = "5", on_error = 1, release = "x", reentrant = 0,
        crate = 1, colour = 2, expire = "1s", on_busy = "ignore"
    });
    let expected = [
        "`expire` must be longer than zero",
        "expected an expression",
        "`max_renew` must be a whole number such as 5",
        "`on_error` takes",
        "`release` must be",
        "`reentrant` must be",
        "`crate` takes a path",
        "`on_busy` must be \"error\"",
        "unknown option `colour`.",
        "option `expire` is given twice",
    ];
    // Found while splitting at commas, before any value is looked at.
    assert_eq!(errors.len(), expected.len(), "{errors:#?}");
    for part in expected {
        assert!(errors.iter().any(|error| error.contains(part)), "{part}: {errors:#?}");
    }
}

#[test]
fn a_missing_key_is_said_once() {
    let missing = |tokens| parsed(tokens).1.iter().filter(|e| e.contains("needs a key")).count();
    assert_eq!(missing(quote!()), 1);
    assert_eq!(missing(quote!(expire = "1s")), 1);
    assert_eq!(missing(quote!(kye = "k")), 0);
    assert_eq!(missing(quote!("k")), 0);
    assert_eq!(missing(quote!(key)), 0);
    assert_eq!(problems(quote!(wiat = "1s", wait = "2s")).len(), 1);
}

#[test]
fn an_equals_sign_stands_between_name_and_value() {
    for (tokens, part) in [
        (quote!(wait, key = "k"), "`wait` needs a value: `wait = ..`"),
        (quote!(key = "k", wait == "5s"), "expected `=`, as in `wait = ..`"),
    ] {
        let (_, errors) = parsed(tokens);
        assert!(errors.len() == 1 && errors[0].contains(part), "{errors:?}");
    }
}

#[test]
fn expire_has_bounds() {
    for (text, part) in [
        ("9ms", "at least 10ms"),
        ("366d", "at most 365 days"),
        ("forever", "cannot be \"forever\""),
        ("0ms", "longer than zero"),
    ] {
        let errors = problems(quote!(expire = #text));
        assert!(errors.len() == 1 && errors[0].contains(part), "{text}: {errors:?}");
    }
    for text in ["10ms", "365d"] {
        assert!(problems(quote!(expire = #text)).is_empty());
    }
}

#[test]
fn min_hold_has_bounds() {
    for (text, part) in [
        ("366d", "at most 365 days"),
        ("forever", "cannot be \"forever\""),
        ("none", "`none` is not a duration: write for how long"),
        ("Never", "`Never` is not a duration: write for how long"),
    ] {
        let errors = problems(quote!(min_hold = #text));
        assert!(errors.len() == 1 && errors[0].contains(part), "{text}: {errors:?}");
    }
    for (text, expected) in [("0s", 0), ("1ms", 1), ("365d", 31_536_000_000)] {
        let (args, errors) = parsed(quote!(key = "k", min_hold = #text));
        assert!(errors.is_empty(), "{errors:?}");
        assert!(matches!(args.min_hold, Some(Time::Millis(ms)) if ms == expected));
    }
}

#[test]
fn nothing_leaves_the_function_early() {
    for (tokens, part) in [
        (quote!(client = connect().await), "`.await` is not allowed in `client`"),
        (quote!(expire = lease()?), "`?` is not allowed in `expire`"),
        (quote!(wait = f(return)), "`return` is not allowed in `wait`"),
    ] {
        let errors = problems(tokens);
        assert!(errors.len() == 1 && errors[0].contains(part), "{errors:?}");
    }
}

#[test]
fn a_lock_has_one_kind() {
    for (tokens, part) in [
        (quote!(mode = "reads"), "`mode` must be \"read\""),
        (quote!(mode = read), "`mode` must be \"read\""),
        (quote!(permits = 0), "at least 1"),
        (quote!(permits = -1), "a whole number such as 3"),
        (quote!(permits = "3"), "a whole number such as 3"),
        (quote!(permits = 3u64), "fits in u32"),
        (quote!(permits = 4_294_967_296), "fits in u32"),
        (quote!(permits = n()?), "`?` is not allowed in `permits`"),
        (quote!(mode = "read", permits = 3), "two kinds of locks"),
        (quote!(permits = n, mode = "write"), "two kinds of locks"),
        (quote!(mode = "read", min_hold = "5s"), "cannot be combined with `mode = \"read\"`"),
        (quote!(min_hold = m, permits = 3), "cannot be combined with `permits`"),
    ] {
        let errors = problems(tokens);
        assert!(errors.len() == 1 && errors[0].contains(part), "{errors:?}");
    }
    for min_hold in [quote!(min_hold = "5s"), quote!(min_hold = m)] {
        for tokens in [quote!(keys = ["a"], #min_hold), quote!(#min_hold, keys = ["a"])] {
            let (_, errors) = parsed(tokens);
            let part = "`keys` and `min_hold` exclude each other";
            assert!(errors.len() == 1 && errors[0].contains(part), "{errors:?}");
        }
    }
    assert!(parsed(quote!(keys = ["a"], min_hold = "0s")).1.is_empty());
    assert!(parsed(quote!(keys = ["a"], mode = "write")).1.is_empty());
    for tokens in [
        quote!(mode = "read", min_hold = "0s"),
        quote!(mode = "write", min_hold = "5s"),
        quote!(permits = 4_294_967_295),
    ] {
        assert!(problems(tokens).is_empty());
    }
}

/// All of them stand in the first of these errors.
#[test]
fn the_options_are_listed_once() {
    let errors = problems(quote!(ttl_ms = 500, renew = 3, colour = "red", size));
    let expected = [
        "unknown option `ttl_ms`; did you mean `expire`? The options are `key`, ",
        "unknown option `renew`; did you mean `max_renew`?",
        "unknown option `colour`",
        "unknown option `size`",
    ];
    assert_eq!(errors.len(), expected.len(), "{errors:?}");
    assert!(errors[0].starts_with(expected[0]), "{errors:?}");
    assert_eq!(errors[1..], expected[1..]);
}

/// Braces are a hash tag, too.
#[test]
fn a_format_argument_is_one_that_the_braces_name_or_leave_open() {
    for (tokens, part) in [
        (quote!(key = "{timeouts}-<id>", timeout = "5s"), "did you mean `wait`?"),
        (quote!(key = "{stock}-<id>", timeout), "did you mean `wait`?"),
        (quote!(key = "{<id>}", colour), "unknown option `colour`"),
        (quote!(key = "{0}-<id>", timeout = "5s"), "did you mean `wait`?"),
        (quote!(key = "{n}-<id>", n = id), "write `<id>` in it"),
        (quote!(key = "k-{n:05}", n = id), "write `<id>` in it"),
        (quote!(key = "k-{id}", id), "write `<id>` in it"),
        (quote!(key = "k-{}", id), "write `<id>` in it"),
        (quote!(key = "{shop}-{:05}", id), "write `<id>` in it"),
        (quote!(key = "k-{0:?}", id), "write `<id>` in it"),
    ] {
        let (_, errors) = parsed(tokens);
        assert!(errors.len() == 1 && errors[0].contains(part), "{errors:?}");
    }
}

/// An option keeps its meaning, whatever the braces of the key name.
#[test]
fn an_option_is_no_format_argument() {
    let (args, errors) = parsed(quote!(key = "{wait}-<id>", wait = "5s"));
    assert!(errors.is_empty() && args.wait.is_some(), "{errors:?}");
}

/// What is proposed is not refused next.
#[test]
fn what_is_proposed_instead_of_a_number_is_accepted() {
    for (tokens, part) in [
        ("expire = 5ms", "`expire` must be at least 10ms"),
        ("expire = 0s", "`expire` must be longer than zero"),
        ("expire = 366d", "`expire` must be at most 365 days"),
        ("min_hold = 400d", "`min_hold` must be at most 365 days"),
        ("min_hold = 0s", "write `min_hold = \"0s\"`"),
        ("wait = 0s", "write `wait = \"0s\"`"),
        ("wait = 400d", "write `wait = \"400d\"`"),
        ("expire = 0", "`expire` must be longer than zero"),
        ("min_hold = 99_999_999_999", "`min_hold` must be at most 365 days"),
        ("wait = 99999999999999999999", "the duration is too large"),
    ] {
        let errors = problems(tokens.parse().unwrap());
        assert!(errors.len() == 1 && errors[0].contains(part), "{tokens}: {errors:?}");
    }
    for (tokens, only) in [
        ("expire = 5", "`expire` needs a unit: write `expire = \"5s\"`"),
        ("min_hold = 31_536_001", "`min_hold` needs a unit: write `min_hold = \"31536001ms\"`"),
    ] {
        assert_eq!(problems(tokens.parse().unwrap()), [only]);
    }
}

#[test]
fn a_unit_behind_a_number_belongs_into_quotes() {
    for (tokens, part) in [
        ("expire = 250ms", "write `expire = \"250ms\"`"),
        ("expire = 10s", "write `expire = \"10s\"`"),
        ("expire = 2m", "write `expire = \"2m\"`"),
        ("wait = 3h", "write `wait = \"3h\"`"),
        ("min_hold = 1d", "write `min_hold = \"1d\"`"),
        ("expire = 1_500ms", "write `expire = \"1500ms\"`"),
        ("expire = 2min", "unknown time unit `min`; write \"2m\"; the units are ms, s, m, h, d"),
        ("expire = 2w", "unknown time unit `w`; the units are ms, s, m, h, d"),
        ("expire = 99999999999999999999s", "the duration is too large"),
        ("expire = 1.5s", "write it in a smaller unit, \"1500ms\""),
        ("expire = 10u64", "write `expire = \"10s\"` or `expire = \"10ms\"`"),
        ("expire = 10", "write `expire = \"10s\"` or `expire = \"10ms\"`"),
        ("expire = 1.5", "must be a duration such as \"10s\""),
        ("expire = 1.5f64", "must be a duration such as \"10s\""),
    ] {
        let errors = problems(tokens.parse().unwrap_or_default());
        assert!(errors.len() == 1 && errors[0].contains(part), "{tokens}: {errors:?}");
    }
}

/// A parser that gives up inside of brackets leaves something unread there.
#[test]
fn a_value_that_is_broken_inside_of_brackets_hides_no_other_mistake() {
    let (_, errors) = parsed(quote!(client = (^), wiat = "1s"));
    assert_eq!(errors.len(), 3, "{errors:?}");
    for (error, part) in errors.iter().zip(["expected", "did you mean `wait`?", "needs a key"]) {
        assert!(error.contains(part), "{errors:?}");
    }
    let (args, errors) = parsed(quote!(key = "k", client = f(a b), wait = "1s"));
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(args.key.is_some() && args.wait.is_some());
}

#[test]
fn strings_have_no_suffix_and_lists_no_number() {
    for (tokens, part) in [
        ("key = \"k\"foo", "no suffix such as `foo`"),
        ("keys = [\"k\", \"l\"foo]", "no suffix such as `foo`"),
        ("key = \"k\", wait = \"5s\"s", "no suffix such as `s`"),
        ("keys = [\"k\"; 3]", "again and again"),
        ("keys = &[id; 3]", "again and again"),
        ("keys = ([id; 3])", "again and again"),
    ] {
        let (_, errors) = parsed(tokens.parse().unwrap_or_default());
        assert!(errors.len() == 1 && errors[0].contains(part), "{tokens}: {errors:?}");
    }
    assert!(problems(quote!(on_error = (|e| Err(e)))).is_empty());
    assert!(problems(quote!(on_error = (panic))).is_empty());
}
