//! Each planted bug fits the code as it is: its patch applies in one place only, and the result is
//! still Rust. A patch that does not compile would stand for a bug that no test has to catch.

use std::collections::BTreeMap;

use crate::tree::{self, Source};
use crate::{assert_none, assert_one};

const PATCHES: &str = "proof/planted/";

/// What a hunk takes out of a file, with the lines around it, and what it puts there.
#[derive(Default)]
struct Hunk {
    before: String,
    after: String,
}

/// The hunks of a patch, with the file of each.
fn hunks(patch: &str) -> Vec<(&str, Hunk)> {
    let (mut hunks, mut file) = (Vec::new(), "");
    let Some(begin) = patch.find("--- a/") else { return hunks };
    for line in patch[begin..].split_inclusive('\n') {
        if let Some(next) = line.strip_prefix("--- a/") {
            file = next.trim_end();
        } else if line.starts_with("@@ ") {
            hunks.push((file, Hunk::default()));
        } else if let Some((_, hunk)) = hunks.last_mut()
            && !line.starts_with("+++ b/")
        {
            let (sign, text) = line.split_at(1);
            if sign != "+" {
                hunk.before.push_str(text);
            }
            if sign != "-" {
                hunk.after.push_str(text);
            }
        }
    }
    hunks
}

fn misfits(patch: &Source, files: &BTreeMap<&str, &str>) -> Vec<String> {
    let mut patched = BTreeMap::new();
    let mut found = Vec::new();
    let mut object = |why: String| found.push(format!("{}: {why}", patch.path));
    for header in ["Bug: ", "Caught-by: "] {
        if !patch.text.lines().any(|line| line.starts_with(header)) {
            object(format!("has no line `{header}`"));
        }
    }
    let hunks = hunks(&patch.text);
    if hunks.is_empty() {
        object("changes nothing".to_owned());
    }
    for (path, Hunk { before, after }) in hunks {
        let Some(text) = files.get(path) else { return vec![format!("{}: {path}?", patch.path)] };
        let file = patched.entry(path).or_insert_with(|| Source::new(path, text));
        let places = file.text.matches(&before).count();
        if places == 1 {
            file.text = file.text.replace(&before, &after);
        } else {
            object(format!("a hunk fits {places} places of {path}, not one"));
        }
    }
    for file in patched.values().filter(|file| file.has_ext("rs")) {
        if let Err(error) = syn::parse_file(&file.text) {
            object(format!("leaves {} in pieces: {error}", file.path));
        }
    }
    found
}

#[test]
fn planted_bugs_fit_the_code() {
    let sources = tree::all();
    let files = sources.iter().map(|file| (file.path.as_str(), file.text.as_str())).collect();
    let patches: Vec<_> = sources
        .iter()
        .filter(|file| file.path.starts_with(PATCHES) && file.has_ext("patch"))
        .collect();
    assert!(patches.len() > 100, "the planted bugs are found");
    let violations: Vec<_> = patches.into_iter().flat_map(|patch| misfits(patch, &files)).collect();
    assert_none(&violations);
}

#[test]
fn a_patch_that_does_not_fit_is_found() {
    let check = |diff: &str, code| {
        let text = format!("Bug: b\nCaught-by: t\n\n--- a/x.rs\n+++ b/x.rs\n{diff}");
        misfits(&Source::new("proof/planted/p.patch", &text), &BTreeMap::from([("x.rs", code)]))
    };
    let renames = "@@ -1,1 +1,1 @@\n-fn a() {}\n+fn b() {}\n";
    assert_none(&check(renames, "fn a() {}\n"));
    assert_one(&check(renames, "fn a() {}\nfn a() {}\n"), "fits 2 places");
    assert_one(&check(renames, "fn c() {}\n"), "fits 0 places");
    assert_one(&check("@@ -1,1 +1,2 @@\n fn a() {}\n+}\n", "fn a() {}\n"), "in pieces");
    assert_one(&check("", "fn a() {}\n"), "changes nothing");
    let headless =
        Source::new("p.patch", &format!("Caught-by: t\n--- a/x.rs\n+++ b/x.rs\n{renames}"));
    assert_one(&misfits(&headless, &BTreeMap::from([("x.rs", "fn a() {}\n")])), "no line `Bug: `");
}
