//! Every public function of the library has an example of its own.

use crate::tree::{self, Source};
use crate::{assert_none, assert_one};

/// The modules whose names are public: the root, and what `redlock::testing` offers.
const PUBLIC: &[&str] = &["redlock-runtime/src/lib.rs", "redlock-runtime/src/testing/mod.rs"];

/// The names that a file makes public, apart from those for the macro.
fn public_names(root: &str) -> Vec<String> {
    let mut names = Vec::new();
    for line in root.lines().filter(|line| line.starts_with("pub use ")) {
        let name = |c: char| !(c.is_alphanumeric() || c == '_');
        let list = line.rsplit("::").next().unwrap_or_default();
        names.extend(list.split(name).filter(|name| !name.is_empty()).map(str::to_owned));
    }
    names
}

/// The name of a public function, if `line` begins one.
fn function(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("pub ")?;
    let rest = rest.strip_prefix("const ").unwrap_or(rest);
    let rest = rest.strip_prefix("async ").unwrap_or(rest);
    rest.strip_prefix("fn ")?.split(['(', '<']).next()
}

fn without_example(source: &Source, names: &[String]) -> Vec<String> {
    let is_public = |name: &str| names.iter().any(|known| known == name);
    let (mut is_open, mut has_example) = (false, false);
    let mut found = Vec::new();
    for (n, line) in (1..).zip(source.text.lines()) {
        if let Some(rest) = line.strip_prefix("impl ") {
            is_open = rest.split([' ', '<']).next().is_some_and(is_public);
        } else if line == "}" {
            is_open = false;
        }
        let indented = line.strip_prefix("    ").filter(|_| is_open).and_then(function);
        let Some(name) = function(line).filter(|name| is_public(name)).or(indented) else {
            let text = line.trim_start();
            let is_above = text.starts_with("///") || text.starts_with("#[");
            has_example = is_above && (has_example || text.starts_with("/// ```"));
            continue;
        };
        if !has_example {
            found.push(format!("{}:{n}: `{name}` has no example", source.path));
        }
        has_example = false;
    }
    found
}

#[test]
fn every_public_function_has_an_example() {
    let mut sources = tree::rust();
    // What the attribute expands to is public for the compiler only.
    sources.retain(|source| {
        let path = source.path.strip_prefix("redlock-runtime/src/");
        path.is_some_and(|path| !path.starts_with("call/"))
    });
    let roots = sources.iter().filter(|source| PUBLIC.contains(&source.path.as_str()));
    let roots: Vec<_> = roots.map(|root| public_names(&root.text)).collect();
    assert_eq!(roots.len(), PUBLIC.len());
    let names = roots.concat();
    let found = sources.iter().flat_map(|source| without_example(source, &names));
    assert_none(&found.collect::<Vec<_>>());
}

#[test]
fn the_example_check_can_fail() {
    let names = public_names("pub use a::{Lock, init};\npub use b::Wait;\n    pub use c::Inner;");
    assert_eq!(names, ["Lock", "init", "Wait"]);
    let example = "    /// ```\n    /// x\n    /// ```\n    #[must_use]\n";
    let text = format!("impl Lock {{\n{example}    pub async fn take(self) {{}}\n}}\n");
    let check = |text: &str| without_example(&Source::new("a.rs", text), &names);
    assert_none(&check(&text));
    assert_none(&check(&text.replace("Lock", "Inner").replace("```", "")));
    assert_one(&check(&text.replace("```", "")), "a.rs:6: `take`");
    let second = text.replace("{}\n}", "{}\n    pub const fn drop<T>() {}\n}");
    assert_one(&check(&second), "a.rs:7: `drop`");
    assert_one(&check("pub async fn init() {}"), "a.rs:1: `init`");
}
