//! The house rules as tests. Each checker is a function from text to violations, and proves on a
//! small snippet that it can fail. CONTRIBUTING.md has the rules in words.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod circles;
mod events;
mod examples;
mod forbidden;
mod lexer;
mod links;
mod mirrors;
mod names;
mod planted;
mod shape;
mod snippets;
mod texts;
mod tree;

/// Fails with all violations at once.
#[track_caller]
fn assert_none(violations: &[String]) {
    assert!(
        violations.is_empty(),
        "{} against the house rules:\n{}",
        violations.len(),
        violations.join("\n")
    );
}

/// For the self-tests: exactly one violation, which contains `part`.
#[track_caller]
fn assert_one(violations: &[String], part: &str) {
    assert_eq!(violations.len(), 1, "{violations:?}");
    assert!(violations[0].contains(part), "{violations:?}");
}
