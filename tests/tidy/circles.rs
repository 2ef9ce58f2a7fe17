//! The imports of the libraries make no circle: neither of files, nor of the modules at the root of
//! a crate.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemUse, UseTree, Visibility};

use crate::assert_none;
use crate::lexer::{Token, tokens};
use crate::tree::{self, Source};

const LIBRARIES: &[&str] = &["redlock-runtime/src/", "redlock-macros/src/", "redlock-cli/src/"];

/// From each node to those that it imports from.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// The files of one crate, by module path: `backend::redis` is `backend/redis/mod.rs`.
struct Crate {
    files: BTreeMap<Vec<String>, File>,
}

struct File {
    path: String,
    tokens: Vec<Token>,
    /// What names mean here that `use` brings in.
    aliases: BTreeMap<String, Vec<String>>,
    /// The same without re-exports: what this file itself needs.
    imports: Vec<Vec<String>>,
}

impl Crate {
    fn new(root: &str, sources: &[Source]) -> Self {
        let mut files = BTreeMap::new();
        for source in sources {
            let Some(path) = source.path.strip_prefix(root) else { continue };
            let module = module_path(path);
            let file = File::new(path, &module, source);
            files.insert(module, file);
        }
        let of_tests = |module: &[String]| {
            (1..=module.len()).any(|end| {
                let (parent, name) = (&module[..end - 1], &module[end - 1]);
                files.get(parent).is_some_and(|parent: &File| parent.has_test_module(name))
            })
        };
        let tests: Vec<_> = files.keys().filter(|module| of_tests(module)).cloned().collect();
        for module in &tests {
            files.remove(module);
        }
        Self { files }
    }

    /// The file that defines what an absolute path names, through re-exports.
    fn definition(&self, path: &[String]) -> Option<&Vec<String>> {
        let mut at: Vec<String> = Vec::new();
        for (index, name) in path.iter().enumerate() {
            let mut child = at.clone();
            child.push(name.clone());
            if self.files.contains_key(&child) {
                at = child;
                continue;
            }
            let file = self.files.get(&at)?;
            if let Some(alias) = file.aliases.get(name)
                && alias.as_slice() != path
            {
                let rest = alias.iter().chain(&path[index + 1..]).cloned().collect::<Vec<_>>();
                return self.definition(&rest);
            }
            break;
        }
        self.files.get_key_value(&at).map(|(module, _)| module)
    }

    fn graph(&self) -> Graph {
        let edges = |(module, file): (&Vec<String>, &File)| {
            let paths = file.imports.iter().cloned().chain(file.paths_in_code(module));
            let used = paths.filter_map(|path| self.definition(&path).cloned());
            let used = used.filter(|used| used != module && !used.is_empty());
            let used = used.map(|used| self.files[&used].path.clone());
            (file.path.clone(), used.collect())
        };
        self.files.iter().map(edges).collect()
    }
}

impl File {
    fn new(path: &str, module: &[String], source: &Source) -> Self {
        let file = syn::parse_file(&source.text);
        let file = file.unwrap_or_else(|error| panic!("{}: {error}", source.path));
        let mut uses =
            Uses { module, is_root: is_root(path), aliases: Vec::new(), imports: vec![] };
        uses.visit_file(&file);
        Self {
            path: path.to_owned(),
            tokens: without_tests(&tokens(source)),
            aliases: uses.aliases.into_iter().collect(),
            imports: uses.imports,
        }
    }

    fn has_test_module(&self, name: &str) -> bool {
        // `#[cfg(test)] mod name;`, as the lexer shows it.
        let pattern = ["#", "[", "cfg", "(", "test", ")", "]", "mod", name, ";"];
        crate::lexer::find(&self.tokens, &pattern).next().is_some()
    }

    /// The paths that the code names beside its imports, as absolute ones.
    fn paths_in_code(&self, module: &[String]) -> Vec<Vec<String>> {
        let mut paths = Vec::new();
        let text = |at: usize| self.tokens.get(at).map_or("", |token| token.text.as_str());
        let mut is_import = false;
        for at in 0..self.tokens.len() {
            is_import = text(at) == "use" || (is_import && text(at) != ";");
            let begins = at == 0 || text(at - 1) != "::";
            if is_import || !begins || text(at + 1) != "::" {
                continue;
            }
            let mut path = vec![text(at).to_owned()];
            let mut next = at + 1;
            while text(next) == "::" && !text(next + 1).is_empty() {
                path.push(text(next + 1).to_owned());
                next += 2;
            }
            match path[0].as_str() {
                "crate" | "super" | "self" => paths.extend(absolute(&path, module)),
                first => {
                    if let Some(alias) = self.aliases.get(first) {
                        paths.push(alias.iter().chain(&path[1..]).cloned().collect());
                    }
                }
            }
        }
        paths
    }
}

/// The imports of a file, without those of its unit tests.
struct Uses<'a> {
    module: &'a [String],
    is_root: bool,
    aliases: Vec<(String, Vec<String>)>,
    imports: Vec<Vec<String>>,
}

impl Uses<'_> {
    fn add(&mut self, tree: &UseTree, path: &mut Vec<String>, is_export: bool) {
        match tree {
            UseTree::Path(part) => {
                path.push(part.ident.to_string());
                self.add(&part.tree, path, is_export);
                path.pop();
            }
            UseTree::Group(group) => {
                group.items.iter().for_each(|item| self.add(item, path, is_export));
            }
            UseTree::Name(name) if name.ident == "self" => {
                let name = path.last().cloned().unwrap_or_default();
                self.found(name, path.clone(), is_export);
            }
            UseTree::Name(name) => {
                let name = name.ident.to_string();
                let whole = path.iter().cloned().chain([name.clone()]).collect();
                self.found(name, whole, is_export);
            }
            UseTree::Rename(rename) => {
                let whole = path.iter().cloned().chain([rename.ident.to_string()]).collect();
                self.found(rename.rename.to_string(), whole, is_export);
            }
            UseTree::Glob(_) => self.found("*".to_owned(), path.clone(), is_export),
        }
    }

    fn found(&mut self, name: String, path: Vec<String>, is_export: bool) {
        // A path without a root begins in this module, or names another crate.
        let path = match path.first().map(String::as_str) {
            Some("crate" | "super" | "self") => absolute(&path, self.module),
            _ if is_export => Some(self.module.iter().cloned().chain(path).collect()),
            _ => None,
        };
        let Some(path) = path else { return };
        if !(is_export && self.is_root) {
            self.imports.push(path.clone());
        }
        self.aliases.push((name, path));
    }
}

impl<'ast> Visit<'ast> for Uses<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        match item {
            Item::Mod(inline) if is_test(&inline.attrs) => {}
            _ => visit::visit_item(self, item),
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let is_export = !matches!(item.vis, Visibility::Inherited);
        if !is_test(&item.attrs) {
            self.add(&item.tree, &mut Vec::new(), is_export);
        }
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
    })
}

/// Does a file only gather a folder?
fn is_root(path: &str) -> bool {
    path == "lib.rs" || path == "mod.rs" || path.ends_with("/mod.rs")
}

fn module_path(file: &str) -> Vec<String> {
    let mut path: Vec<_> = file.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if path.last().is_some_and(|last| last == "mod" || last == "lib") {
        path.pop();
    }
    path
}

fn absolute(path: &[String], module: &[String]) -> Option<Vec<String>> {
    let (mut base, mut rest) = match path.first()?.as_str() {
        "crate" => (Vec::new(), &path[1..]),
        "self" => (module.to_vec(), &path[1..]),
        _ => (module.to_vec(), path),
    };
    while rest.first().is_some_and(|part| part == "super") {
        // Further up than the module: it stands in an inline one.
        base.pop();
        rest = &rest[1..];
    }
    base.extend_from_slice(rest);
    Some(base)
}

/// Without `mod tests { .. }`.
fn without_tests(tokens: &[Token]) -> Vec<Token> {
    let mut left = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let is = |n: usize, text: &str| tokens.get(at + n).is_some_and(|token| token.text == text);
        if is(0, "mod") && is(1, "tests") && is(2, "{") {
            let mut depth = 0;
            at += 2;
            loop {
                depth += i32::from(tokens[at].text == "{") - i32::from(tokens[at].text == "}");
                at += 1;
                if depth == 0 {
                    break;
                }
            }
        } else {
            left.push(tokens[at].clone());
            at += 1;
        }
    }
    left
}

/// Every group of nodes that reach each other.
fn circles(graph: &Graph) -> Vec<String> {
    let reach = |from: &String| {
        let mut seen = BTreeSet::new();
        let mut open: Vec<&String> = graph[from].iter().collect();
        while let Some(next) = open.pop() {
            if seen.insert(next.clone()) {
                open.extend(graph.get(next).into_iter().flatten());
            }
        }
        seen
    };
    let reached: BTreeMap<_, _> = graph.keys().map(|from| (from.clone(), reach(from))).collect();
    let mut found = BTreeSet::new();
    for (node, those) in reached.iter().filter(|(node, those)| those.contains(*node)) {
        let members: Vec<String> =
            those.iter().filter(|other| reached[*other].contains(node)).cloned().collect();
        let edges = members.iter().flat_map(|from| {
            let to = graph[from].iter().filter(|to| members.contains(to));
            to.map(move |to| format!("\n    {from} -> {to}"))
        });
        found.insert(format!("circle:{}", edges.collect::<String>()));
    }
    found.into_iter().collect()
}

/// The same graph between the modules at the root of the crate.
fn of_rooms(graph: &Graph) -> Graph {
    let room = |file: &String| file.split(['/', '.']).next().unwrap_or_default().to_owned();
    let mut rooms = Graph::new();
    for (from, used) in graph {
        let edges = rooms.entry(room(from)).or_default();
        edges.extend(used.iter().map(room).filter(|to| *to != room(from)));
    }
    rooms
}

fn all_circles(root: &str, sources: &[Source]) -> Vec<String> {
    let graph = Crate::new(root, sources).graph();
    circles(&graph).into_iter().chain(circles(&of_rooms(&graph))).collect()
}

#[test]
fn imports_make_no_circle() {
    let sources = tree::rust();
    let found: Vec<_> = LIBRARIES.iter().flat_map(|root| all_circles(root, &sources)).collect();
    assert_none(&found);
}

#[test]
fn the_circle_check_can_fail() {
    let check = |files: &[(&str, &str)]| {
        let sources: Vec<_> =
            files.iter().map(|(path, text)| Source::new(&format!("x/{path}"), text)).collect();
        all_circles("x/", &sources)
    };
    let two = |a: &str, b: &str| check(&[("lib.rs", "mod a; mod b;"), ("a.rs", a), ("b.rs", b)]);
    for (a, b) in [
        ("use crate::b::B; pub struct A;", "use super::a::A; pub struct B;"),
        ("fn f() { crate::b::g(); }", "fn g() { select! { x = super::a::f() => 1 } }"),
        ("use crate::{b::{self}}; fn f() { b::g() }", "use crate::a::f as h; fn g() { h() }"),
    ] {
        assert!(!two(a, b).is_empty(), "{a} {b}");
    }
    for (a, b) in [
        ("use crate::b::B; pub struct A;", "#[cfg(test)] mod tests { use crate::a::A; }"),
        ("use crate::b::B; pub struct A;", "use std::a::A; pub struct B;"),
    ] {
        assert_none(&two(a, b));
    }
    // Through what a folder exports, and between folders.
    let folder = ("a/mod.rs", "mod one; mod two; pub use one::One; pub use two::Two;");
    let one = ("a/one.rs", "use super::Two; pub struct One;");
    assert_eq!(check(&[folder, one, ("a/two.rs", "use crate::a::One;")]).len(), 1);
    assert_none(&check(&[folder, one, ("a/two.rs", "pub struct Two;")]));
    let other = ("b/mod.rs", "mod three; mod four; pub use three::Three; pub use four::Four;");
    let between = [
        folder,
        ("a/one.rs", "use crate::b::Three; pub struct One;"),
        ("a/two.rs", "pub struct Two;"),
        other,
        ("b/three.rs", "pub struct Three;"),
        ("b/four.rs", "use crate::a::Two;"),
    ];
    assert_eq!(check(&between), ["circle:\n    a -> b\n    b -> a"]);
}
