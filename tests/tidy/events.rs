//! The table of events in `docs/events.md` and the code agree: alerts may rely on it.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::tree::{self, Source};
use crate::{assert_none, assert_one};

const TABLE: &str = "docs/events.md";
const LIBRARY: &str = "redlock-runtime/src/";

/// The levels and the fields of an event.
type Shape = (BTreeSet<String>, BTreeSet<String>);

/// Events by their messages.
type Events = BTreeMap<String, Shape>;

/// The events that a file tells.
fn told(source: &Source, events: &mut Events) {
    let stream: TokenStream =
        source.text.parse().unwrap_or_else(|error| panic!("{}: {error}", source.path));
    let mut consts = BTreeMap::new();
    let mut calls = Vec::new();
    walk(stream, &mut consts, &mut calls);
    for call in calls {
        let Some((level, fields, message)) = parts(call) else { continue };
        let name = message.trim_start_matches('{').trim_end_matches('}');
        let message = consts.get(name).cloned().unwrap_or(message);
        let shape = events.entry(message).or_default();
        shape.0.insert(level);
        shape.1.extend(fields);
    }
}

/// Collects texts that have a name, and the arguments of each `tell!`.
fn walk(stream: TokenStream, consts: &mut BTreeMap<String, String>, calls: &mut Vec<TokenStream>) {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    for (at, tree) in trees.iter().enumerate() {
        if let TokenTree::Group(group) = tree {
            let before = trees[..at].iter().rev().take(2).map(ToString::to_string);
            let is_call = group.delimiter() == Delimiter::Parenthesis
                && before.collect::<Vec<_>>() == ["!", "tell"];
            if is_call {
                calls.push(group.stream());
            } else {
                walk(group.stream(), consts, calls);
            }
        }
        if tree.to_string() == "const"
            && let Some([name, .., value]) = trees.get(at + 1..at + 7)
            && let Some(text) = text(value)
        {
            consts.insert(name.to_string(), text);
        }
    }
}

/// The level, the fields and the message of one event.
fn parts(call: TokenStream) -> Option<(String, Vec<String>, String)> {
    let trees: Vec<TokenTree> = call.into_iter().collect();
    let is_comma = |tree: &TokenTree| matches!(tree, TokenTree::Punct(p) if p.as_char() == ',');
    let mut parts = trees.split(is_comma);
    let level = parts.next()?.first()?.to_string().to_uppercase();
    let mut fields = Vec::new();
    for part in parts {
        if let [literal] = part
            && let Some(message) = text(literal)
        {
            return Some((level, fields, message));
        }
        let is_name = |tree: &&TokenTree| matches!(tree, TokenTree::Ident(_));
        let field = part.iter().find(is_name)?.to_string();
        assert!(!fields.contains(&field), "an event has the field `{field}` twice: {fields:?}");
        fields.push(field);
    }
    None
}

fn text(tree: &TokenTree) -> Option<String> {
    let TokenTree::Literal(literal) = tree else { return None };
    syn::parse_str::<syn::LitStr>(&literal.to_string()).ok().map(|text| text.value())
}

/// The rows of the table: message, levels, fields.
fn documented(table: &str) -> Events {
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    let names = |cell: &str| {
        let names = cell.split(',').map(|name| name.trim().trim_matches('`').to_owned());
        names.filter(|name| !name.is_empty()).collect::<BTreeSet<_>>()
    };
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let message = cells[1].trim_matches('`').trim().to_owned();
        (message, (names(cells[2]), names(cells[3])))
    };
    rows.map(row).collect()
}

fn differences(told: &Events, documented: &Events) -> Vec<String> {
    let mut found = Vec::new();
    for (message, shape) in told {
        match documented.get(message) {
            None => found.push(format!("{TABLE}: no row for {message:?} {shape:?}")),
            Some(row) if row != shape => {
                found.push(format!("{TABLE}: {message:?} has {row:?}, the code {shape:?}"));
            }
            Some(_) => {}
        }
    }
    let gone = documented.keys().filter(|message| !told.contains_key(*message));
    found.extend(gone.map(|message| format!("{TABLE}: nothing tells {message:?}")));
    found
}

#[test]
fn the_table_of_events_is_what_the_code_tells() {
    let mut events = Events::new();
    let all = tree::all();
    for source in &all {
        if source.path.starts_with(LIBRARY) && source.has_ext("rs") {
            told(source, &mut events);
        }
    }
    assert!(events.len() > 20, "the walk finds the events: {events:?}");
    let table = all.iter().find(|source| source.path == TABLE).expect("the table is there");
    assert_none(&differences(&events, &documented(&table.text)));
}

#[test]
fn the_check_of_events_can_fail() {
    let code = r#"
        const WHAT: &str = "it failed";
        fn f() {
            tell!(warn, key, %error, left = ?self.left(), "lost {what}");
            if a { tell!(debug, nodes, "{WHAT}") } else { tell!(warn, "{WHAT}") }
        }
    "#;
    let mut events = Events::new();
    told(&Source::new("a.rs", code), &mut events);
    let table = "| event | level | fields |\n| --- | --- | --- |\n\
                 | `lost {what}` | `WARN` | `key`, `error`, `left` | x |\n\
                 | `it failed` | `WARN`, `DEBUG` | `nodes` | y |";
    assert_none(&differences(&events, &documented(table)));
    let differs = |table: &str| differences(&events, &documented(table));
    assert_one(&differs(&table.replace("`left`", "")), "left");
    assert_one(&differs(&table.replace("`WARN`, `DEBUG`", "`WARN`")), "it failed");
    assert_one(&differs(&format!("{table}\n| `gone` | `WARN` | | z |")), "nothing tells \"gone\"");
    assert_one(&differs(table.rsplit_once('\n').unwrap().0), "no row for \"it failed\"");
}
