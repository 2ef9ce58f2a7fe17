//! Small files, small functions, short lines; `mod.rs` is a table of contents.

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Block, ImplItemFn, Item, ItemFn, Signature, TraitItemFn, Visibility};

use crate::tree::{self, Source};
use crate::{assert_none, assert_one};

const FILE_LINES: usize = 400;
const FN_LINES: usize = 70;
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

struct Functions<'a> {
    path: &'a str,
    found: Vec<String>,
}

impl Functions<'_> {
    fn measure(&mut self, signature: &Signature, block: &Block) {
        let start = signature.span().start().line;
        let lines = block.span().end().line - start + 1;
        if lines > FN_LINES {
            let (path, name) = (self.path, &signature.ident);
            self.found.push(format!("{path}:{start}: fn {name}: {lines} lines, not {FN_LINES}"));
        }
    }
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.measure(&item.sig, &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.measure(&item.sig, &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        if let Some(block) = &item.default {
            self.measure(&item.sig, block);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

fn parse(source: &Source) -> syn::File {
    syn::parse_file(&source.text).unwrap_or_else(|error| panic!("{}: {error}", source.path))
}

fn long_functions(source: &Source) -> Vec<String> {
    let mut functions = Functions { path: &source.path, found: Vec::new() };
    functions.visit_file(&parse(source));
    functions.found
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
    let file = parse(source);
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
fn functions_are_short() {
    assert_none(&tree::rust().iter().flat_map(long_functions).collect::<Vec<_>>());
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
    for (start, end) in
        [("fn f() {", "}"), ("impl A { fn f() {", "} }"), ("trait A { fn f() {", "} }")]
    {
        let sized = |lines: usize| {
            let text = format!("// a line\n{start}\n{}{end}", "\n".repeat(lines - 2));
            long_functions(&Source::new("a.rs", &text))
        };
        assert_one(&sized(71), "a.rs:2: fn f: 71 lines");
        assert_none(&sized(70));
    }
    let contents = "//! Docs.\nmod a;\npub use a::A;\n";
    assert_none(&more_than_contents(&Source::new("x/mod.rs", contents)));
    for item in ["fn f() {}", "use a::B;", "struct S;", "mod b {}", "impl A {}"] {
        let source = Source::new("x/mod.rs", &format!("{contents}{item}\n"));
        assert_one(&more_than_contents(&source), "x/mod.rs:4");
    }
}
