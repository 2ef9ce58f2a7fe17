use quote::ToTokens;

use super::*;

fn parsed(template: &str) -> (Vec<String>, Vec<String>) {
    let mut errors = Errors::default();
    let template = parse(LitStr::new(template, Span::call_site()), &mut errors);
    let shown = template.parts.iter().map(|part| match part {
        Part::Text(text) => format!("{text:?}"),
        Part::Value(value) => {
            format!("<{}|{}>", value.expr.to_token_stream(), value.format).replace(' ', "")
        }
    });
    (shown.collect(), errors.messages())
}

#[test]
fn texts_and_placeholders_alternate() {
    for (template, parts) in [
        ("stock", &["\"stock\""][..]),
        ("stock-<id>", &["\"stock-\"", "<id|>"]),
        ("<a>-<b.c[0].d()>", &["<a|>", "\"-\"", "<b.c[0].d()|>"]),
        ("<id:05>", &["<id|05>"]),
        ("<id:?>x", &["<id|?>", "\"x\""]),
        ("<<id>>", &["\"<id>\""]),
        ("<<<id>>>", &["\"<\"", "<id|>", "\">\""]),
        ("{stock}-<id>", &["\"{stock}-\"", "<id|>"]),
        ("<a::B>", &["<a::B|>"]),
        ("<(a > b)>", &["<(a>b)|>"]),
        ("<f(\":>\")>", &["<f(\":>\")|>"]),
        ("é<id>é", &["\"é\"", "<id|>", "\"é\""]),
    ] {
        let (found, errors) = parsed(template);
        assert_eq!((found.as_slice(), errors.len()), (owned(parts).as_slice(), 0), "{template}");
    }
}

fn owned(parts: &[&str]) -> Vec<String> {
    parts.iter().map(|part| (*part).to_owned()).collect()
}

#[test]
fn mistakes_are_drawn() {
    for (template, message, line) in [
        ("a-<id", "this placeholder is never closed", "  ^^^"),
        ("a>b", "unmatched `>`", " ^"),
        ("a-<>", "empty placeholder", "  ^^"),
        ("a-<id +>", "`id +` is not an expression", "   ^^^^"),
        ("é<x.await>", "`.await` is not allowed", "  ^^^^^^^"),
        ("<x:y>", "invalid format after `:`", "   ^"),
        ("<type>", "`type` is a keyword; write `<r#type>`", " ^^^^"),
        ("a:fence", "cannot end in `:fence`", " ^^^^^^"),
        ("{a}:queue", "cannot end in `:queue`", "   ^^^^^^"),
        ("{a}:holders", "cannot end in `:holders`", "   ^^^^^^^^"),
    ] {
        let (_, errors) = parsed(template);
        assert_eq!(errors.len(), 1, "{template}: {errors:?}");
        let drawn = format!("\n    {template}\n    {line}");
        assert!(errors[0].contains(message) && errors[0].ends_with(&drawn), "{}", errors[0]);
    }
}

#[test]
fn text_is_checked_as_a_whole() {
    for (template, message) in [
        (String::new(), "the lock key is empty"),
        ("a\tb".to_owned(), "the control character `\\t`"),
        ("\u{7f}".to_owned(), "the control character `\\u{7f}`"),
        ("é".repeat(513), "1026 bytes"),
    ] {
        let (_, errors) = parsed(&template);
        assert!(errors.len() == 1 && errors[0].contains(message), "{errors:?}");
    }
    assert!(parsed(&"a".repeat(1024)).1.is_empty());
    assert!(parsed(":fence-<id>").1.is_empty());
    assert!(parsed("a:fence<id>").1.is_empty());
    // Only a key with a hash tag can be a helper key.
    assert!(parsed("a:queue").1.is_empty());
}

/// The runtime refuses every key with a hash tag that ends like a helper key.
#[test]
fn the_ends_of_helper_keys_are_refused() {
    const RUNTIME: &str = include_str!("../../../redlock-runtime/src/key/lock_key.rs");
    let is_suffix = |line: &&str| line.contains("const ") && line.contains("_SUFFIX: &str = \"");
    let suffixes: Vec<_> =
        RUNTIME.lines().filter(is_suffix).filter_map(|line| line.split('"').nth(1)).collect();
    assert!(suffixes.contains(&":queue"), "{suffixes:?}");
    for suffix in suffixes {
        let (_, errors) = parsed(&format!("{{stock}}-<id>{suffix}"));
        let is_refused = errors.iter().any(|error| error.contains("cannot end in"));
        assert!(is_refused, "{suffix}: {errors:?}");
    }
}

#[test]
fn formats_follow_the_grammar() {
    for good in ["?", "x?", "05", "5", "#x", "#010b", "+", "-5", ".3", "8.3", "x", "E"] {
        assert_eq!(format_problem(good), None, "{good}");
    }
    for bad in ["", "y", "5$", "width$", ".", ".x", ".*", "{}", "x x", "p", "??", " 5"] {
        assert_eq!(format_problem(bad), Some(BAD_FORMAT), "{bad}");
    }
    for pretty in ["#?", "#x?", "#05?"] {
        assert_eq!(format_problem(pretty), Some(PRETTY), "{pretty}");
    }
    for alignment in ["^5", "<5", "*^5"] {
        assert!(format_problem(alignment).is_some_and(|text| text.contains("alignment")));
    }
}

#[test]
fn every_mistake_of_a_template_is_reported() {
    assert_eq!(parsed("<>-<a.await>-<b:y>-<c>").1.len(), 3);
}

/// A terminal would obey it.
#[test]
fn a_control_character_is_not_drawn() {
    let (_, errors) = parsed("\u{1b}[2J<>");
    assert!(errors.len() == 2 && !errors.concat().contains('\u{1b}'), "{errors:?}");
}

/// A placeholder reads a value; the rest of the language stays outside.
#[test]
fn statements_are_refused() {
    for (source, what) in [
        ("x?", "`?`"),
        ("f(x?)", "`?`"),
        ("x[return]", "control flow"),
        ("(if x { 1 } else { 2 })", "control flow"),
        ("(match x {})", "control flow"),
        ("{ x }", "a block"),
        ("unsafe { x }", "a block"),
        ("async { x }", "a block"),
        ("|| x", "a closure"),
        ("x = 1", "an assignment"),
        ("x += 1", "an assignment"),
        ("!(x = 1)", "an assignment"),
        ("S { x, ..y? }.x", "`?`"),
        ("vec![x?; 2].len()", "`?`"),
    ] {
        let (_, errors) = parsed(&format!("<{source}>"));
        let start = format!("{what} is not allowed in a lock key");
        assert!(errors.len() == 1 && errors[0].starts_with(&start), "{source}: {errors:?}");
    }
    assert!(parsed("<(x == 1)>-<(x <= 2)>-<(x >= 2)>-<(x != 2)>").1.is_empty());
}

/// What an error is about need not stand in the literal as it was searched for.
#[test]
fn an_error_is_about_characters() {
    let literal = LitStr::new("é-é", Span::call_site());
    for (start, end) in [(0, 1), (1, 2), (0, 99), (99, 100), (3, 2)] {
        let drawn = error(&literal, start, end, "no").to_string();
        assert_eq!(drawn, "no\n    é-é\n    ^^^", "{start}..{end}");
    }
    let of_the_end = error_about(&literal, "-é", "no").to_string();
    assert_eq!(of_the_end, "no\n    é-é\n     ^^");
    let of_all = error_about(&literal, "-<é", "no").to_string();
    assert_eq!(of_all, "no\n    é-é\n    ^^^");
}
