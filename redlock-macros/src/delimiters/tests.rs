//! A model of the runtime's escaping, and the search for two values with one key.

use std::collections::HashMap;
use std::fmt::Write as _;

use proc_macro2::Span;
use syn::LitStr;

use super::*;
use crate::diagnostics::Errors;
use crate::template;

/// The texts around the values, one more than there are values, and the delimiters.
fn chosen(template: &str) -> (Vec<String>, Option<String>) {
    let literal = LitStr::new(template, Span::call_site());
    let mut errors = Errors::default();
    let template = template::parse(literal, &mut errors);
    // Braces that are no hash tag are refused, and are no less injective.
    let messages = errors.messages();
    assert!(messages.iter().all(|message| message.starts_with("braces")), "{messages:?}");
    let mut texts = vec![String::new()];
    for part in &template.parts {
        match part {
            Part::Text(text) => texts.last_mut().unwrap_or(&mut String::new()).push_str(text),
            Part::Value(_) => texts.push(String::new()),
        }
    }
    (texts, template.delimiters)
}

#[test]
fn delimiters_are_chosen() {
    for (template, texts, delimiters) in [
        ("a", &["a"][..], None),
        ("a<x>", &["a", ""], None),
        ("a<x>-<y>b", &["a", "-", "b"], Some("-")),
        ("<x><y>", &["", ":", ""], Some(":")),
        ("<x>AB<y>", &["", "AB:", ""], Some(":")),
        ("<x>F<y>", &["", "F:", ""], Some(":")),
        ("<x>AB/<y>", &["", "AB/", ""], Some("/")),
        ("<x>%<y>", &["", "%:", ""], Some(":")),
        ("{<x>}<y>", &["{", "}", ""], Some("")),
        ("<x>ab<y>", &["", "ab", ""], Some("a")),
        ("<x>-<y>/<z>-<w>", &["", "-", "/", "-", ""], Some("-/")),
        ("<x>é<y>", &["", "é", ""], Some("é")),
        ("<x>:<y><z>", &["", ":", ":", ""], Some(":")),
        ("<x>>><<<y>", &["", "><", ""], Some(">")),
    ] {
        let (found, chosen) = chosen(template);
        assert_eq!((found.as_slice(), chosen.as_deref()), (owned(texts).as_slice(), delimiters));
    }
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// What the runtime does with a value.
fn escape(value: &str, delimiters: &str) -> String {
    let mut out = String::new();
    for c in value.chars() {
        if matches!(c, '%' | '{' | '}') || delimiters.contains(c) {
            let mut bytes = [0; 4];
            for byte in c.encode_utf8(&mut bytes).bytes() {
                let _ = write!(out, "%{byte:02X}");
            }
        } else {
            out.push(c);
        }
    }
    out
}

fn render(texts: &[String], delimiters: &str, values: &[String]) -> String {
    let mut key = texts[0].clone();
    for (value, text) in values.iter().zip(&texts[1..]) {
        key.push_str(&escape(value, delimiters));
        key.push_str(text);
    }
    key
}

/// A small generator with a fixed seed: the same cases on every run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or_default() % n
    }

    /// Few characters, and nasty ones: collisions must be likely where they are possible.
    fn text(&mut self, alphabet: &[char], longest: usize) -> String {
        let length = self.below(longest + 1);
        (0..length).map(|_| alphabet[self.below(alphabet.len())]).collect()
    }
}

#[test]
fn different_values_never_share_a_key() {
    const ALPHABET: [char; 14] =
        ['1', '2', '3', 'A', 'B', 'D', 'a', '%', '{', '}', '-', ':', '/', 'é'];
    let mut random = Random(42);
    for _ in 0..400 {
        let count = 2 + random.below(2);
        let mut template = random.text(&ALPHABET, 2);
        for n in 0..count {
            let _ = write!(template, "<v{n}>");
            template.push_str(&random.text(&ALPHABET, 2));
        }
        let (texts, delimiters) = chosen(&template);
        let delimiters = delimiters.unwrap_or_default();
        let mut seen: HashMap<String, Vec<String>> = HashMap::new();
        for _ in 0..1000 {
            let values: Vec<String> = (0..count).map(|_| random.text(&ALPHABET, 4)).collect();
            let key = render(&texts, &delimiters, &values);
            let first = seen.entry(key.clone()).or_insert_with(|| values.clone());
            assert_eq!(*first, values, "{template} renders both to {key}");
        }
    }
}

/// The escape's own digits cannot be told from a separator: why they are no delimiters.
#[test]
fn hexadecimal_separators_would_collide_alone() {
    let naive = |a: &str, b: &str| format!("{}A{}", escape(a, "A"), escape(b, "A"));
    assert_eq!(naive("1", "A2"), "1A%412");
    let (texts, delimiters) = chosen("<x>4<y>");
    assert_eq!((texts[1].as_str(), delimiters.as_deref()), ("4:", Some(":")));
}
