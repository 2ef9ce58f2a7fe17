//! What the attribute says when it is used wrongly, word for word.
//!
//! `TRYBUILD=overwrite cargo test --test ui` writes the expected output anew; read every change.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

#[test]
fn compile_errors() {
    trybuild::TestCases::new().compile_fail("fail/*/*.rs");
}

/// The words are compared with one compiler's output; the number of cases with what we promise.
#[test]
fn enough_cases() {
    let cases = files(Path::new("fail"), "rs");
    assert!(cases.len() >= 60, "{} compile-fail cases", cases.len());
    for case in cases {
        let expected = fs::read_to_string(case.with_extension("stderr")).unwrap();
        // Whatever is wrong with the attribute, callers still find the function.
        assert!(
            !expected.contains("`deduct` in this scope"),
            "{} loses the function",
            case.display()
        );
        assert!(!expected.contains("panicked"), "{} panics", case.display());
    }
}

#[test]
fn enough_shapes() {
    let shapes: usize = files(Path::new("../editions/shapes"), "rs")
        .iter()
        .map(|file| fs::read_to_string(file).unwrap().matches("#[redis_lock(").count())
        .sum();
    assert!(shapes >= 80, "{shapes} shapes");
}

fn files(folder: &Path, extension: &str) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    found
}
