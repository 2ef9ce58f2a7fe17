//! What must not stand anywhere: skipped tests, unfinished code, blind sleeps.

use crate::lexer::{find, tokens};
use crate::tree::{self, Source};
use crate::{assert_none, assert_one};

const PATTERNS: &[(&[&str], &str)] = &[
    (&["#", "[", "ignore"], "a test that does not run is no test"),
    (&["#", "[", "should_panic"], "catch the panic and look at it"),
    (&["todo", "!"], "unfinished"),
    (&["unimplemented", "!"], "unfinished"),
    (&["dbg", "!"], "left over from debugging"),
    (&["thread", "::", "sleep"], "blocks a thread; tests have support::block_thread"),
];

/// Files that define what the others are to use instead.
const MAY_SLEEP: &[&str] = &["fault-kit/src/"];

fn forbidden(source: &Source) -> Vec<String> {
    let tokens = tokens(source);
    let mut found = Vec::new();
    let mut report = |at: usize, what: &str, why: &str| {
        found.push(format!("{}:{}: {what}: {why}", source.path, tokens[at].line));
    };
    let may_sleep = MAY_SLEEP.iter().any(|prefix| source.path.starts_with(prefix));
    for (pattern, why) in PATTERNS {
        let is_sleep = pattern.ends_with(&["sleep"]);
        for at in find(&tokens, pattern).filter(|_| !(is_sleep && may_sleep)) {
            report(at, &pattern.concat(), why);
        }
    }
    if source.path.starts_with("tests/it/") && !may_sleep {
        let why = "wait with eventually(), or say time_passes() where time is the subject";
        let blocks = |at: usize| at > 1 && tokens[at - 2].text == "thread";
        for at in find(&tokens, &["sleep", "("]).filter(|at| !blocks(*at)) {
            report(at, "sleep()", why);
        }
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
fn nothing_is_skipped_unfinished_or_left_to_a_sleep() {
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
        ("fn f() { select! { x => todo!() } }", "todo!"),
        ("fn f() { unimplemented!() }", "unimplemented!"),
        ("fn f() { dbg!(1); }", "dbg!"),
        ("fn f() { std::thread::sleep(D); }", "thread::sleep"),
    ] {
        assert_one(&forbidden(&Source::new("redlock-runtime/src/a.rs", text)), part);
    }
    let sleep = "async fn f() { tokio::time::sleep(D).await; }";
    assert_one(&forbidden(&Source::new("tests/it/a.rs", sleep)), "sleep()");
    let block = "fn f() { thread::sleep(D); }";
    assert_one(&forbidden(&Source::new("tests/it/a.rs", block)), "thread::sleep");
    assert_none(&forbidden(&Source::new("fault-kit/src/a.rs", sleep)));
    assert_none(&forbidden(&Source::new("redlock-runtime/src/a.rs", sleep)));
    let harmless = "/// todo!() #[ignore]\nfn ignore() { let s = \"dbg!\"; }";
    assert_none(&forbidden(&Source::new("tests/it/a.rs", harmless)));
    assert_none(&forbidden(&Source::new("tests/it/empty.rs", "//! Nothing yet.")));
    let fence = concat!("text\n```", "ignore\n```");
    assert_one(&skipped_docs(&Source::new("README.md", fence)), "README.md:2");
}
