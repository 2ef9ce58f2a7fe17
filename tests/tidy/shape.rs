//! Small files, short lines; `mod.rs` is a table of contents. Clippy measures functions.

use syn::spanned::Spanned;
use syn::{Item, Visibility};

use crate::tree::{self, Source};
use crate::{assert_none, assert_one};

const FILE_LINES: usize = 400;
/// As rustfmt has it, which lets long comments and texts pass.
const COLUMNS: usize = 100;

fn is_code(source: &Source) -> bool {
    let script = source.path.starts_with("scripts/") || source.path.starts_with(".ci/");
    script || ["rs", "lua", "yml"].iter().any(|ext| source.has_ext(ext))
}

fn long_file(source: &Source) -> Vec<String> {
    let lines = source.text.lines().count();
    let long = lines > FILE_LINES;
    long.then(|| format!("{}: {lines} lines, not {FILE_LINES}", source.path)).into_iter().collect()
}

fn long_lines(source: &Source) -> Vec<String> {
    let numbered = (1..).zip(source.text.lines()).map(|(n, line)| (n, line.chars().count()));
    numbered
        .filter(|(_, columns)| *columns > COLUMNS)
        .map(|(n, columns)| format!("{}:{n}: {columns} columns, not {COLUMNS}", source.path))
        .collect()
}

fn more_than_contents(source: &Source) -> Vec<String> {
    if !source.path.ends_with("/mod.rs") {
        return Vec::new();
    }
    let contents = |item: &Item| match item {
        Item::Mod(module) => module.content.is_none(),
        Item::Use(import) => !matches!(import.vis, Visibility::Inherited),
        _ => false,
    };
    let file = syn::parse_file(&source.text);
    let file = file.unwrap_or_else(|error| panic!("{}: {error}", source.path));
    let others = file.items.iter().filter(|item| !contents(item));
    others
        .map(|item| {
            let line = item.span().start().line;
            format!("{}:{line}: a mod.rs holds docs, mod lines and re-exports only", source.path)
        })
        .collect()
}

#[test]
fn files_and_lines_are_short() {
    let code: Vec<_> = tree::all().into_iter().filter(is_code).collect();
    assert_none(&code.iter().flat_map(long_file).collect::<Vec<_>>());
    assert_none(&tree::rust().iter().flat_map(long_lines).collect::<Vec<_>>());
}

#[test]
fn mod_files_are_tables_of_contents() {
    assert_none(&tree::rust().iter().flat_map(more_than_contents).collect::<Vec<_>>());
}

#[test]
fn the_shape_checks_can_fail() {
    let long = Source::new("a.rs", &"//\n".repeat(FILE_LINES + 1));
    assert_one(&long_file(&long), "401 lines");
    assert_none(&long_file(&Source::new("a.rs", &"//\n".repeat(FILE_LINES))));
    let wide = Source::new("a.rs", &format!("\n{}\n{}", "é".repeat(100), "é".repeat(101)));
    assert_one(&long_lines(&wide), "a.rs:3: 101 columns");
    let contents = "//! Docs.\nmod a;\npub use a::A;\n";
    assert_none(&more_than_contents(&Source::new("x/mod.rs", contents)));
    for item in ["fn f() {}", "use a::B;", "struct S;", "mod b {}", "impl A {}"] {
        let source = Source::new("x/mod.rs", &format!("{contents}{item}\n"));
        assert_one(&more_than_contents(&source), "x/mod.rs:4");
    }
}
