//! Keys: the attribute's template and the runtime's rendering together, taken apart again by a
//! second reading. What can be taken apart is injective.

use std::cell::RefCell;
use std::collections::HashMap;

use proc_macro2::Span;
use syn::LitStr;

use crate::diagnostics::Errors;
use crate::error::LockError;
use crate::input::Input;
use crate::key::{Key, LockKey, Render, Rendered};
use crate::part::Part;
use crate::template;

/// Texts around and between placeholders: usable delimiters, parts of escapes, nothing at all.
const TEXTS: [&str; 24] = [
    "",
    "-",
    ":",
    "%",
    "2",
    "D",
    "2D",
    "%2D",
    "{",
    "}",
    "{t}",
    "}{",
    "a",
    "A",
    "a-",
    "-a",
    "--",
    "::",
    "\u{2192}",
    "\u{e9}\u{2192}",
    "9A",
    "F:",
    " ",
    "<>",
];
const PREFIX: &str = "lock:";

/// The pieces of one template, in order: texts, and `None` for a value.
struct Plan {
    pieces: Vec<Option<&'static str>>,
    delimiters: Option<&'static str>,
}

thread_local! {
    /// There are few templates, and their texts have to live for ever.
    static PLANS: RefCell<HashMap<Vec<usize>, Option<&'static Plan>>> = RefCell::default();
}

pub fn check(data: &[u8]) {
    let input = &mut Input::new(data);
    let count = 1 + input.below(3);
    let texts: Vec<usize> = (0..=count).map(|_| input.below(TEXTS.len())).collect();
    let Some(plan) = plan(&texts) else { return };
    let one: Vec<String> = (0..count).map(|_| input.text()).collect();
    let other: Vec<String> = (0..count).map(|_| input.text()).collect();
    let keys = [check_one(plan, &one), check_one(plan, &other)];
    if let [Some(a), Some(b)] = keys {
        assert_eq!(a == b, one == other, "{one:?} and {other:?}: {a:?}");
    }
}

/// The key of these values, unless they cannot be part of one.
fn check_one(plan: &Plan, values: &[String]) -> Option<String> {
    let good = |value: &String| !value.is_empty() && !value.contains(char::is_control);
    let Key(rendered) = render(plan, values);
    assert_eq!(rendered.is_ok(), values.iter().all(good), "{values:?}");
    let Rendered::One(key) = rendered.ok()? else { unreachable!("one template, one key") };
    let key = key.into_owned();
    assert_eq!(take_apart(plan, &key).as_deref(), Some(values), "{key:?}");
    check_limits(&key);
    Some(key)
}

fn render(plan: &Plan, values: &[String]) -> Key {
    let mut render = plan.delimiters.map_or_else(Render::new, Render::injective);
    let mut values = values.iter();
    for piece in &plan.pieces {
        render = match piece {
            Some(text) => render.text(text),
            None => render.value("v", format_args!("{}", values.next().expect("one for each"))),
        };
    }
    render.finish()
}

/// The values, read from the left: each ends before the first character of the text behind it that
/// no escape is written with.
fn take_apart(plan: &Plan, key: &str) -> Option<Vec<String>> {
    let (mut rest, mut values) = (key, Vec::new());
    let mut pieces = plan.pieces.iter().peekable();
    while let Some(piece) = pieces.next() {
        if let Some(text) = piece {
            rest = rest.strip_prefix(text)?;
            continue;
        }
        let behind: &str = pieces.peek().and_then(|next| **next).unwrap_or_default();
        let is_last =
            values.len() + 1 == plan.pieces.iter().filter(|piece| piece.is_none()).count();
        let end = if is_last {
            rest.len().checked_sub(behind.len())?
        } else {
            let is_mark = |c: char| c != '%' && !c.is_ascii_digit() && !('A'..='F').contains(&c);
            let (offset, mark) = behind.char_indices().find(|(_, c)| is_mark(*c))?;
            rest.find(mark)?.checked_sub(offset)?
        };
        values.push(unescape(rest.get(..end)?)?);
        rest = &rest[end..];
    }
    rest.is_empty().then_some(values)
}

fn unescape(value: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::new(), value.as_bytes());
    while let Some((first, behind)) = rest.split_first() {
        if *first == b'%' {
            let hex = std::str::from_utf8(behind.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(hex, 16).ok()?);
            rest = &behind[2..];
        } else {
            bytes.push(*first);
            rest = behind;
        }
    }
    String::from_utf8(bytes).ok()
}

/// What a lock key promises, by the letter of the protocol's document.
fn check_limits(name: &str) {
    let tag = |key: &str| -> Option<String> {
        let open = key.find('{')? + 1;
        let close = key[open..].find('}')?;
        (close > 0).then(|| key[open..open + close].to_owned())
    };
    let full = format!("{PREFIX}{name}");
    match LockKey::new(PREFIX, name) {
        Ok(key) => {
            assert_eq!((key.name(), key.redis_key()), (name, &*full));
            assert!((1..=1024).contains(&name.len()) && !name.ends_with(":fence"));
            let slot = tag(&full).unwrap_or_else(|| full.clone());
            assert_eq!(tag(&key.counter_key()), Some(slot), "{name:?}");
        }
        Err(error) => {
            assert!(matches!(error, LockError::InvalidKey { .. }));
            let has_slot = tag(&full).is_some() || !full.contains('}');
            let reserved = [":fence", ":queue", ":holders", "nodes:fence"];
            let is_reserved = reserved.iter().any(|suffix| full.ends_with(suffix));
            assert!(name.len() > 1024 || is_reserved || !has_slot, "{name:?}: {error}");
        }
    }
}

/// `None`: the attribute refuses the template.
fn plan(texts: &[usize]) -> Option<&'static Plan> {
    PLANS.with_borrow_mut(|plans| {
        let new = || make(texts).map(|plan| &*Box::leak(Box::new(plan)));
        *plans.entry(texts.to_vec()).or_insert_with(new)
    })
}

fn make(texts: &[usize]) -> Option<Plan> {
    let shown: Vec<String> =
        texts.iter().map(|text| TEXTS[*text].replace('<', "<<").replace('>', ">>")).collect();
    let literal = LitStr::new(&shown.join("<v>"), Span::call_site());
    let mut errors = Errors::default();
    let template = template::parse(literal, &mut errors);
    if errors.into_compile_errors().is_some() {
        // Nothing is wrong with these texts but braces that make no hash tag.
        assert!(shown.iter().any(|text| text.contains(['{', '}'])), "{shown:?}");
        return None;
    }
    let leak = |text: String| &*Box::leak(text.into_boxed_str());
    let pieces = template.parts.into_iter().map(|part| match part {
        Part::Text(text) => Some(leak(text)),
        Part::Value(_) => None,
    });
    Some(Plan { pieces: pieces.collect(), delimiters: template.delimiters.map(leak) })
}
