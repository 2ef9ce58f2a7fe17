//! What must not stand anywhere: skipped tests, blind sleeps in tests on real servers.

use crate::lexer::{find, tokens};
use crate::tree::{self, Source};
use crate::{assert_none, assert_one};

const PATTERNS: &[(&[&str], &str)] = &[
    (&["#", "[", "ignore"], "a test that does not run is no test"),
    (&["#", "[", "should_panic"], "catch the panic and look at it"),
];

fn forbidden(source: &Source) -> Vec<String> {
    let tokens = tokens(source);
    let mut found = Vec::new();
    let mut report = |at: usize, what: &str, why: &str| {
        found.push(format!("{}:{}: {what}: {why}", source.path, tokens[at].line));
    };
    for (pattern, why) in PATTERNS {
        find(&tokens, pattern).for_each(|at| report(at, &pattern.concat(), why));
    }
    if source.path.starts_with("tests/it/") {
        let why = "wait with eventually(), or say time_passes() where time is the subject";
        find(&tokens, &["sleep", "("]).for_each(|at| report(at, "sleep()", why));
    }
    found
}

fn skipped_docs(source: &Source) -> Vec<String> {
    let fence = concat!("```", "ignore");
    let numbered = (1..).zip(source.text.lines());
    let skipped = numbered.filter(|(_, line)| line.contains(fence));
    skipped.map(|(n, _)| format!("{}:{n}: an example that is not compiled", source.path)).collect()
}

#[test]
fn nothing_is_skipped_or_left_to_a_sleep() {
    assert_none(&tree::rust().iter().flat_map(forbidden).collect::<Vec<_>>());
}

#[test]
fn every_example_is_compiled() {
    let texts =
        tree::all().into_iter().filter(|source| source.has_ext("rs") || source.has_ext("md"));
    assert_none(&texts.flat_map(|source| skipped_docs(&source)).collect::<Vec<_>>());
}

#[test]
fn the_forbidden_words_check_can_fail() {
    for (text, part) in [
        ("#[test]\n#[ignore = \"slow\"]\nfn f() {}", ":2: #[ignore"),
        ("#[should_panic]\nfn f() {}", ":1: #[should_panic"),
    ] {
        assert_one(&forbidden(&Source::new("redlock-runtime/src/a.rs", text)), part);
    }
    let sleep = "async fn f() { tokio::time::sleep(D).await; }";
    assert_one(&forbidden(&Source::new("tests/it/a.rs", sleep)), "sleep()");
    assert_none(&forbidden(&Source::new("redlock-runtime/src/a.rs", sleep)));
    let harmless = "/// #[ignore]\nfn ignore() { let s = \"#[ignore] sleep(\"; }";
    assert_none(&forbidden(&Source::new("tests/it/a.rs", harmless)));
    assert_none(&forbidden(&Source::new("tests/it/empty.rs", "//! Nothing yet.")));
    let fence = concat!("text\n```", "ignore\n```");
    assert_one(&skipped_docs(&Source::new("README.md", fence)), "README.md:2");
}
