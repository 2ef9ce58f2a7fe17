//! One word per concept: a bare `token` or `timeout` does not say which one is meant, and no type
//! has the name of another one.

use std::collections::BTreeMap;

use proc_macro2::Ident;
use syn::visit::{self, Visit};
use syn::{Field, Item, PatIdent, Signature, Visibility};

use crate::tree::{self, Source};
use crate::{assert_none, assert_one};

const BANNED: &[(&str, &str)] =
    &[("token", "owner or fencing_token"), ("timeout", "wait, expire or reply_timeout")];

struct Names<'a> {
    path: &'a str,
    found: Vec<String>,
}

impl Names<'_> {
    fn check(&mut self, name: &Ident) {
        // In a macro crate a token is what the language is made of.
        let macros = self.path.starts_with("redlock-macros/");
        let allowed = |word: &str| macros && word == "token";
        for (word, instead) in BANNED.iter().filter(|(word, _)| name == word && !allowed(word)) {
            let line = name.span().start().line;
            self.found.push(format!("{}:{line}: `{word}`: say {instead}", self.path));
        }
    }
}

impl<'ast> Visit<'ast> for Names<'_> {
    fn visit_signature(&mut self, signature: &'ast Signature) {
        self.check(&signature.ident);
        visit::visit_signature(self, signature);
    }

    fn visit_field(&mut self, field: &'ast Field) {
        field.ident.iter().for_each(|name| self.check(name));
        visit::visit_field(self, field);
    }

    /// Arguments, `let`, `match` and closures.
    fn visit_pat_ident(&mut self, pattern: &'ast PatIdent) {
        self.check(&pattern.ident);
        visit::visit_pat_ident(self, pattern);
    }
}

fn vague_names(source: &Source) -> Vec<String> {
    let file = syn::parse_file(&source.text);
    let file = file.unwrap_or_else(|error| panic!("{}: {error}", source.path));
    let mut names = Names { path: &source.path, found: Vec::new() };
    names.visit_file(&file);
    names.found
}

/// A type with two bodies, of which features choose one.
const ALTERNATIVES: &[&str] = &["Tls"];

/// The types of a file that other files can name.
fn shared_types(source: &Source) -> Vec<String> {
    let file = syn::parse_file(&source.text);
    let file = file.unwrap_or_else(|error| panic!("{}: {error}", source.path));
    let shared = |item: &Item| {
        let (visibility, name) = match item {
            Item::Struct(item) => (&item.vis, &item.ident),
            Item::Enum(item) => (&item.vis, &item.ident),
            Item::Trait(item) => (&item.vis, &item.ident),
            Item::Type(item) => (&item.vis, &item.ident),
            _ => return None,
        };
        (!matches!(visibility, Visibility::Inherited)).then(|| name.to_string())
    };
    file.items.iter().filter_map(shared).collect()
}

fn names_that_stand_twice(sources: &[&Source]) -> Vec<String> {
    let mut places: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for source in sources {
        for name in shared_types(source) {
            places.entry(name).or_default().push(&source.path);
        }
    }
    let twice = places
        .iter()
        .filter(|(name, places)| places.len() > 1 && !ALTERNATIVES.contains(&name.as_str()));
    twice.map(|(name, places)| format!("`{name}` stands in {}", places.join(" and "))).collect()
}

#[test]
fn no_type_name_stands_twice_in_a_library() {
    let sources = tree::rust();
    for library in ["redlock-runtime/src/", "redlock-macros/src/", "redlock-cli/src/"] {
        let is_of_tests = |path: &str| path.split('/').any(|part| part.starts_with("tests"));
        let own = sources.iter().filter(|source| source.path.starts_with(library));
        let own: Vec<_> = own.filter(|source| !is_of_tests(&source.path)).collect();
        assert!(!own.is_empty());
        assert_none(&names_that_stand_twice(&own));
    }
}

#[test]
fn the_check_of_types_can_fail() {
    let check = |a: &str, b: &str| {
        let (a, b) = (Source::new("a.rs", a), Source::new("b.rs", b));
        names_that_stand_twice(&[&a, &b])
    };
    assert_one(&check("pub(crate) struct A;", "pub(super) enum A {}"), "a.rs and b.rs");
    assert_one(&check("pub trait A {}", "pub type A = u8;"), "`A`");
    assert_none(&check("pub struct A;", "struct A;"));
    assert_none(&check("pub struct A;", "pub struct B;"));
}

#[test]
fn names_say_which_token_and_which_timeout() {
    let mut library = tree::rust();
    library.retain(|source| source.path.starts_with("redlock-") && source.path.contains("/src/"));
    assert!(!library.is_empty());
    assert_none(&library.iter().flat_map(vague_names).collect::<Vec<_>>());
}

#[test]
fn the_names_check_can_fail() {
    for text in [
        "fn token() {}",
        "impl A { fn timeout(&self) {} }",
        "trait A { fn token(&self); }",
        "struct A { timeout: Duration }",
        "enum A { B { token: u64 } }",
        "fn f(timeout: Duration) {}",
        "fn f() { let token = 1; }",
        "fn f() { g(|timeout| 1); }",
        "fn f() { match a { Some(token) => {} } }",
    ] {
        assert_one(&vague_names(&Source::new("a.rs", text)), "a.rs:1");
    }
    let fine = "use tokio::time::timeout;\n\
                enum LockError { Timeout }\n\
                fn f(fencing_token: u64) { let reply_timeout = 1; tokio::time::timeout(d, f); }";
    assert_none(&vague_names(&Source::new("a.rs", fine)));
    let both = "fn f(token: Ident) {} fn g(timeout: Duration) {}";
    assert_one(&vague_names(&Source::new("redlock-macros/src/a.rs", both)), "`timeout`");
}
