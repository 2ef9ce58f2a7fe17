//! Imports inside the runtime crate point down the layer table of ARCHITECTURE.md.

use crate::lexer::{Token, tokens};
use crate::tree::{self, Source};
use crate::{assert_none, assert_one};

const SRC: &str = "redlock-runtime/src/";

/// From the bottom up. A module may use its own layer and those below.
const LAYERS: &[(&str, &[&str])] = &[
    ("words", &["key", "owner", "options", "error", "fencing", "state", "process", "shield"]),
    ("arithmetic", &["validity", "backoff", "clock", "denial", "report"]),
    ("backend", &["backend"]),
    ("engines", &["acquire", "renewal", "release", "keeper", "engine", "host"]),
    ("handles", &["guard", "lease", "reentrancy", "watch", "protect", "finish"]),
    ("composition", &["client"]),
    ("entry", &["run", "global"]),
];

/// Everyone may report; reporting itself knows the words only.
const TELEMETRY: &str = "telemetry";

/// They tie the crate together and re-export from everywhere.
const EXEMPT: &[&str] = &["lib.rs", "private.rs", "__private.rs"];

fn layer(module: &str) -> Option<usize> {
    if module == TELEMETRY {
        return Some(0);
    }
    LAYERS.iter().position(|(_, modules)| modules.contains(&module))
}

/// The module path of a file: `backend/redis/mod.rs` is `backend::redis`.
fn module_path(file: &str) -> Vec<&str> {
    let mut path: Vec<_> = file.trim_end_matches(".rs").split('/').collect();
    if path.last() == Some(&"mod") {
        path.pop();
    }
    path
}

/// The end of the block that opens at `open`.
fn closing(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.text.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    tokens.len()
}

/// The first names behind the `::` at `at`: one, or those of a `{..}` list.
fn heads(tokens: &[Token], at: usize) -> Vec<&Token> {
    let Some(next) = tokens.get(at + 1) else { return Vec::new() };
    if next.text != "{" {
        return vec![next];
    }
    let mut depth = 0;
    let mut names = Vec::new();
    for pair in tokens[at + 1..=closing(tokens, at + 1)].windows(2) {
        match pair[0].text.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        let first = pair[0].text == "{" || pair[0].text == ",";
        if first && depth == 1 && pair[1].text != "}" {
            names.push(&pair[1]);
        }
    }
    names
}

/// The modules at the crate's root that a stretch of code names, `path` being its module.
fn used<'t>(tokens: &'t [Token], path: &mut Vec<String>, found: &mut Vec<(String, &'t Token)>) {
    let mut at = 0;
    while at < tokens.len() {
        let is = |n: usize, text: &str| tokens.get(at + n).is_some_and(|token| token.text == text);
        if is(0, "mod") && is(2, "{") {
            let end = closing(tokens, at + 2);
            // Unit tests may build whatever they need.
            if tokens[at + 1].text != "tests" {
                path.push(tokens[at + 1].text.clone());
                used(&tokens[at + 3..end], path, found);
                path.pop();
            }
            at = end;
        } else if is(0, "crate") && is(1, "::") {
            found.extend(heads(tokens, at + 1).into_iter().map(|head| (head.text.clone(), head)));
            at += 1;
        } else if is(0, "super") && is(1, "::") {
            let mut up = 1;
            while is(2 * up, "super") && is(2 * up + 1, "::") {
                up += 1;
            }
            // Within a module's own folder, what it names is of its own layer.
            if up >= path.len() {
                let heads = heads(tokens, at + 2 * up - 1);
                found.extend(heads.into_iter().map(|head| (head.text.clone(), head)));
            }
            at += 2 * up - 1;
        }
        at += 1;
    }
}

fn upward_imports(source: &Source) -> Vec<String> {
    let Some(file) = source.path.strip_prefix(SRC) else { return Vec::new() };
    let path = module_path(file);
    if EXEMPT.contains(&file) || path[0] == "__private" || path.contains(&"tests") {
        return Vec::new();
    }
    let Some(own) = layer(path[0]) else {
        return vec![format!("{}: `{}` is in no layer", source.path, path[0])];
    };
    let tokens = tokens(source);
    let mut found = Vec::new();
    used(&tokens, &mut path.iter().map(|&part| part.to_owned()).collect(), &mut found);
    let mut violations = Vec::new();
    for (name, token) in found {
        let why = match layer(&name) {
            Some(layer) if layer <= own => continue,
            Some(layer) => format!("points up from {} to {}", LAYERS[own].0, LAYERS[layer].0),
            None if name == "self" || name == "super" => continue,
            None => "is no module of a layer: import from the module that defines it".to_owned(),
        };
        violations.push(format!("{}:{}: `{name}` {why}", source.path, token.line));
    }
    violations
}

#[test]
fn imports_point_down() {
    assert_none(&tree::rust().iter().flat_map(upward_imports).collect::<Vec<_>>());
}

#[test]
fn the_layer_check_can_fail() {
    let check =
        |file: &str, text: &str| upward_imports(&Source::new(&format!("{SRC}{file}"), text));
    for (file, text, part) in [
        ("key.rs", "\nuse crate::client::Redlock;", "key.rs:2: `client` points up"),
        ("owner.rs", "use crate::{key::{Key, Part}, guard::{self}};", "`guard`"),
        ("acquire.rs", "fn f() { let x = crate::run::go(); }", "`run`"),
        ("acquire.rs", "fn f() { select! { x = crate::guard::go() => 1 } }", "`guard`"),
        ("backend/redis/reply.rs", "use super::super::super::keeper::K;", "`keeper`"),
        ("release.rs", "use super::{key::Key, lease::Lease};", "`lease`"),
        ("guard.rs", "mod inner { use super::super::global::G; }", "`global`"),
        ("key.rs", "use crate::LockError;", "import from the module"),
        ("extra.rs", "", "in no layer"),
        ("telemetry/mod.rs", "use crate::guard::Guard;", "`guard`"),
    ] {
        assert_one(&check(file, text), part);
    }
    for (file, text) in [
        ("client.rs", "use crate::{backend::{memory, Backend}, guard::G, telemetry};"),
        ("lease.rs", "use crate::guard::LockGuard;"),
        ("backend/quorum.rs", "use super::{Backend, memory::Memory}; use super::redis::R;"),
        ("backend/mod.rs", "pub(crate) mod memory; pub(in crate::backend) use memory::M;"),
        ("key.rs", "#[cfg(test)] mod tests { use crate::client::Redlock; }"),
        ("acquire/tests.rs", "use crate::client::Redlock;"),
        ("tests/fake.rs", "use crate::client::Redlock;"),
        ("lib.rs", "mod client; pub use crate::client::Redlock;"),
    ] {
        assert_none(&check(file, text));
    }
}
