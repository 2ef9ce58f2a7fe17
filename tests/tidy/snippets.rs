//! The page about tests shows what an example runs, word for word.

use crate::tree::{self, Source};
use crate::{assert_none, assert_one};

const PAGE: &str = "docs/testing.md";
const EXAMPLE: &str = "examples/testing.rs";

/// The code blocks of Rust, with the line that each begins at.
fn snippets(page: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut open: Option<(usize, Vec<&str>)> = None;
    for (n, line) in (1..).zip(page.lines()) {
        match &mut open {
            Some((begin, lines)) if line == "```" => {
                found.push((*begin, lines.join("\n")));
                open = None;
            }
            Some((_, lines)) => lines.push(line),
            None if line == "```rust" => open = Some((n, Vec::new())),
            None => {}
        }
    }
    found
}

/// Without the indentation of each line: a test stands deeper in a module than on a page.
fn flat(code: &str) -> String {
    code.lines().map(str::trim_start).collect::<Vec<_>>().join("\n")
}

fn unlike(page: &Source, example: &Source) -> Vec<String> {
    let code = flat(&example.text);
    let other = snippets(&page.text).into_iter().filter(|(_, text)| !code.contains(&flat(text)));
    other.map(|(n, _)| format!("{}:{n}: not in {}", page.path, example.path)).collect()
}

fn untold(page: &Source, example: &Source) -> Vec<String> {
    let names = example.text.split("async fn ").skip(1).filter_map(|rest| rest.split('(').next());
    let untold = names.filter(|name| *name != "main" && !page.text.contains(&format!("{name}(")));
    untold.map(|name| format!("{}: `{name}` is not in {}", example.path, page.path)).collect()
}

#[test]
fn the_page_about_tests_shows_what_runs() {
    let all = tree::all();
    let find = |path: &str| all.iter().find(|source| source.path == path);
    let (page, example) = (find(PAGE).expect("the page"), find(EXAMPLE).expect("the example"));
    assert!(snippets(&page.text).len() > 10);
    assert_none(&unlike(page, example));
    assert_none(&untold(page, example));
}

#[test]
fn the_snippet_check_can_fail() {
    let page = Source::new("a.md", "x\n```rust\nasync fn f() {\n    g();\n}\n```\n```sh\nz\n```");
    let example = |text: &str| Source::new("a.rs", text);
    let same = "mod a {\n    async fn f() {\n        g();\n    }\n}";
    assert_none(&unlike(&page, &example(same)));
    assert_none(&untold(&page, &example(same)));
    assert_one(&unlike(&page, &example("async fn f() {\n    h();\n}")), "a.md:2");
    assert_one(&untold(&page, &example("async fn h() {}")), "`h`");
}
