//! One word per concept: a bare `token` or `timeout` does not say which one is meant.

use proc_macro2::Ident;
use syn::visit::{self, Visit};
use syn::{Field, PatIdent, Signature};

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
