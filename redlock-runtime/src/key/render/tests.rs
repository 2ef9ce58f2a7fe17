use std::collections::HashMap;
use std::fmt::Display;

use super::*;
use crate::error::LockError;
use crate::key::display::{display_key, display_keys, several};
use crate::key::rendered::literal_key;

fn ok(key: Key) -> String {
    match key.0.unwrap() {
        Rendered::One(name) => name.into_owned(),
        Rendered::Several(names) => panic!("{names:?}"),
    }
}

#[test]
fn several_keys_are_rendered_one_by_one_or_not_at_all() {
    let names = |key: Key| match key.0.unwrap() {
        Rendered::One(name) => panic!("{name}"),
        Rendered::Several(names) => names,
    };
    assert_eq!(names(several([literal_key("a"), display_key(&7)])), ["a", "7"]);
    assert_eq!(names(several([Key::listed("b"), Key::listed(&7)])), ["b", "7"]);
    assert_eq!(reason(several([Key::listed(&Broken)])), InvalidKeyReason::Display);
    assert_eq!(names(display_keys([3, 4].iter())), ["3", "4"]);
    assert_eq!(names(display_keys(Vec::<String>::new())), [""; 0]);
    let empty = Render::new().value("id", format_args!("")).finish();
    assert_eq!(reason(several([literal_key("a"), empty])), InvalidKeyReason::EmptyValue("id"));
    assert_eq!(reason(display_keys([Broken])), InvalidKeyReason::Display);
}

struct Broken;

impl Display for Broken {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Err(fmt::Error)
    }
}

fn reason(key: Key) -> InvalidKeyReason {
    match key.0 {
        Err(LockError::InvalidKey { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_value_stands_as_it_is_apart_from_braces() {
    let render =
        |v: &str| ok(Render::new().text("stock-").value("id", format_args!("{v}")).finish());
    assert_eq!(render("42"), "stock-42");
    assert_eq!(render("a-b c/é"), "stock-a-b c/é");
    assert_eq!(render("{x}%"), "stock-%7Bx%7D%25");
}

#[test]
fn the_delimiter_is_escaped_in_values() {
    let render = |a: &str, b: &str| {
        ok(Render::injective("-")
            .text("a-")
            .value("a", format_args!("{a}"))
            .text("-")
            .value("b", format_args!("{b}"))
            .finish())
    };
    assert_eq!(render("1-2", "3"), "a-1%2D2-3");
    assert_eq!(render("1", "2-3"), "a-1-2%2D3");
}

#[test]
fn bad_values_are_typed_errors() {
    let one = |v: &dyn Display| Render::new().text("k-").value("v", format_args!("{v}")).finish();
    assert_eq!(reason(one(&"")), InvalidKeyReason::EmptyValue("v"));
    assert_eq!(reason(one(&"a\r\n")), InvalidKeyReason::ControlCharacter('\r'));
    assert_eq!(reason(one(&Broken)), InvalidKeyReason::Display);
    assert_eq!(reason(display_key(&Broken)), InvalidKeyReason::Display);
}

/// 1.5 million tuples over an alphabet of everything that could confuse: delimiters, escapes,
/// digits of escapes, braces. The seed is fixed: a failure repeats.
#[test]
fn distinct_tuples_never_share_a_key() {
    const ALPHABET: [char; 12] =
        ['-', ':', '%', '2', 'D', '5', '{', '}', 'a', 't', '\u{2192}', '7'];
    type Template = fn(&str, &str, &str) -> String;
    let templates: [Template; 3] = [
        |a, b, c| three(["-", ":", "-:"], a, b, c),
        |a, b, c| three(["t", "\u{2192}", "t\u{2192}"], a, b, c),
        |a, b, c| three([":", "2D:", ":"], a, b, c),
    ];
    let mut random = fastrand::Rng::with_seed(7);
    let mut value = || -> String {
        let length = random.usize(1..=3);
        (0..length).map(|_| ALPHABET[random.usize(..ALPHABET.len())]).collect()
    };
    for template in templates {
        let mut seen: HashMap<String, [String; 3]> = HashMap::new();
        for _ in 0..500_000 {
            let tuple = [value(), value(), value()];
            let key = template(&tuple[0], &tuple[1], &tuple[2]);
            if let Some(other) = seen.insert(key.clone(), tuple.clone()) {
                assert_eq!(other, tuple, "{key} stands for two tuples");
            }
        }
    }
}

/// Two gaps and the delimiters that the attribute would pass for them.
fn three(gaps: [&'static str; 3], a: &str, b: &str, c: &str) -> String {
    ok(Render::injective(gaps[2])
        .text("k")
        .value("a", format_args!("{a}"))
        .text(gaps[0])
        .value("b", format_args!("{b}"))
        .text(gaps[1])
        .value("c", format_args!("{c}"))
        .finish())
}
