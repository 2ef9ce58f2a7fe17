//! Renders a key from a template's texts and values, so that different values never share a key.
//!
//! With two or more placeholders the delimiter of every gap is escaped inside the values, together
//! with `%`, which begins an escape. So the first delimiter after a value ends it, and the key can
//! be taken apart again in only one way: rendering is injective. `{` and `}` are always escaped, so
//! that no value can choose the hash slot of its key.

use std::borrow::Cow;
use std::fmt;
use std::fmt::{Display, Write as _};

use super::lock_key::excerpt;
use crate::error::{InvalidKeyReason, LockError};

/// A rendered key, or why it could not be rendered.
#[derive(Debug)]
pub struct Key(pub(crate) Result<Rendered, LockError>);

impl Key {
    /// Leaves an empty key.
    pub(crate) fn take(&mut self) -> Self {
        std::mem::replace(self, literal_key(""))
    }
}

/// What the key or the keys of a call are.
#[derive(Debug)]
pub(crate) enum Rendered {
    One(Cow<'static, str>),
    /// Those of `keys = ..`, as they were written.
    Several(Vec<Cow<'static, str>>),
}

/// The types that a placeholder can have.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be part of a lock key because it does not implement `Display`",
    label = "this placeholder has type `{Self}`",
    note = "name something printable, such as `<arg.id>`, or format it with `Debug`: `<arg:?>`"
)]
pub trait KeyPart: Display {}

impl<T: Display + ?Sized> KeyPart for T {}

/// Names no type in its result, so that a bad placeholder is reported once, not again by the
/// formatting around it.
#[inline]
pub fn part<'a, T: KeyPart + ?Sized>(value: &'a &'a T) -> &'a dyn Display {
    value
}

/// Runs `render` in a frame of its own: what it borrows takes no space in the caller's future.
#[inline]
pub fn lend<A, T>(arguments: A, render: impl FnOnce(A) -> T) -> T {
    render(arguments)
}

/// The expansion names it where a variable is to be moved, and never calls it.
#[inline]
pub fn take<T>(_: T) {}

/// A template without placeholders.
#[inline]
pub fn literal_key(text: &'static str) -> Key {
    Key(Ok(Rendered::One(Cow::Borrowed(text))))
}

/// The types that `key = <expression>` can have.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a lock key because it does not implement `Display`",
    label = "`key` has type `{Self}`",
    note = "format it, as in `key = format!(\"stock-{{:?}}\", ..)`, or name something printable of \
            it in a template, as in `key = \"stock-<arg.id>\"`",
    note = "for several keys write `keys = [..]`, or `keys = ..` for something to iterate over"
)]
pub trait WholeKey: Display {}

impl<T: Display + ?Sized> WholeKey for T {}

/// `key = <expression>`: the value without escapes.
pub fn display_key<T: WholeKey + ?Sized>(value: &T) -> Key {
    Key(display(value).map(Rendered::One))
}

fn display<T: Display + ?Sized>(value: &T) -> Result<Cow<'static, str>, LockError> {
    let mut text = String::new();
    match write!(text, "{value}") {
        Ok(()) => Ok(Cow::Owned(text)),
        Err(fmt::Error) => Err(invalid(&text, InvalidKeyReason::Display)),
    }
}

/// The types that an expression in the list of `keys` can have.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a key of `keys` because it does not implement `Display`",
    label = "this key of `keys` has type `{Self}`",
    note = "format it, as in `format!(\"stock-{{:?}}\", ..)`, or name something printable of it in \
            a template, as in `\"stock-<arg.id>\"`",
    note = "for the keys in a collection write `keys = ..` without brackets around it"
)]
pub trait ListedKey: Display {}

impl<T: Display + ?Sized> ListedKey for T {}

impl Key {
    /// An expression in the list of `keys`: the value without escapes.
    pub fn listed<T: ListedKey + ?Sized>(value: &T) -> Self {
        Self(display(value).map(Rendered::One))
    }
}

/// `keys = [..]`: the first error of one, or all of them.
pub fn several<const N: usize>(keys: [Key; N]) -> Key {
    let mut names = Vec::with_capacity(N);
    for key in keys {
        match key.0 {
            Ok(Rendered::One(name)) => names.push(name),
            Ok(Rendered::Several(more)) => names.extend(more),
            Err(error) => return Key(Err(error)),
        }
    }
    Key(Ok(Rendered::Several(names)))
}

/// `keys = <expression>`: the values without escapes.
pub fn display_keys<I: Keys>(values: I) -> Key {
    let names = values.into_iter().map(|value| display(&value)).collect::<Result<_, _>>();
    Key(names.map(Rendered::Several))
}

/// The types that `keys = ..` can have.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the keys of a lock",
    label = "expected something to iterate over, of values that implement `Display`",
    note = "write a list of templates, `keys = [\"acct-<from>\", \"acct-<to>\"]`, or an iterator \
            such as `ids.iter().map(|id| format!(\"acct-{{id}}\"))`"
)]
pub trait Keys: IntoIterator<Item: Display> {}

impl<I: IntoIterator<Item: Display>> Keys for I {}

/// A key being rendered.
#[must_use]
#[derive(Debug)]
pub struct Render {
    text: String,
    delimiters: &'static str,
    error: Option<InvalidKeyReason>,
}

impl Render {
    /// For a template with one placeholder: the value needs no delimiters.
    #[inline]
    #[expect(clippy::new_without_default, reason = "called by the expansion, never by hand")]
    pub fn new() -> Self {
        Self::injective("")
    }

    /// For two or more placeholders: `delimiters` holds one character of every gap between them.
    #[inline]
    pub fn injective(delimiters: &'static str) -> Self {
        Self { text: String::with_capacity(64), delimiters, error: None }
    }

    /// Literal text of the template.
    #[inline]
    pub fn text(mut self, text: &'static str) -> Self {
        self.text.push_str(text);
        self
    }

    /// The value of the placeholder `name`.
    pub fn value(mut self, name: &'static str, value: fmt::Arguments<'_>) -> Self {
        let start = self.text.len();
        let mut escape =
            Escape { text: &mut self.text, delimiters: self.delimiters, control: None };
        let written = escape.write_fmt(value);
        let control = escape.control;
        let problem = match (written, control) {
            (_, Some(c)) => Some(InvalidKeyReason::ControlCharacter(c)),
            (Err(fmt::Error), None) => Some(InvalidKeyReason::Display),
            (Ok(()), None) if self.text.len() == start => Some(InvalidKeyReason::EmptyValue(name)),
            (Ok(()), None) => None,
        };
        self.error = self.error.or(problem);
        self
    }

    /// The whole key.
    pub fn finish(self) -> Key {
        match self.error {
            None => Key(Ok(Rendered::One(Cow::Owned(self.text)))),
            Some(reason) => Key(Err(invalid(&self.text, reason))),
        }
    }
}

fn invalid(text: &str, reason: InvalidKeyReason) -> LockError {
    LockError::InvalidKey { key: excerpt(text), reason }
}

/// Percent-escapes the characters that could be taken for structure.
struct Escape<'a> {
    text: &'a mut String,
    delimiters: &'static str,
    control: Option<char>,
}

impl fmt::Write for Escape<'_> {
    fn write_str(&mut self, value: &str) -> fmt::Result {
        let mut plain_from = 0;
        for (at, c) in value.char_indices() {
            if c.is_control() {
                self.control.get_or_insert(c);
            }
            if matches!(c, '%' | '{' | '}') || self.delimiters.contains(c) {
                self.text.push_str(&value[plain_from..at]);
                plain_from = at + c.len_utf8();
                for byte in value[at..plain_from].bytes() {
                    write!(self.text, "%{byte:02X}")?;
                }
            }
        }
        self.text.push_str(&value[plain_from..]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn ok(key: Key) -> String {
        match key.0.unwrap() {
            Rendered::One(name) => name.into_owned(),
            Rendered::Several(names) => panic!("{names:?}"),
        }
    }

    #[test]
    fn several_keys_are_rendered_one_by_one_or_not_at_all() {
        let names = |key: Key| match key.0.unwrap() {
            Rendered::One(name) => panic!("{name}"),
            Rendered::Several(names) => names,
        };
        assert_eq!(names(several([literal_key("a"), display_key(&7)])), ["a", "7"]);
        assert_eq!(names(several([Key::listed("b"), Key::listed(&7)])), ["b", "7"]);
        assert_eq!(reason(several([Key::listed(&Broken)])), InvalidKeyReason::Display);
        assert_eq!(names(display_keys([3, 4].iter())), ["3", "4"]);
        assert_eq!(names(display_keys(Vec::<String>::new())), [""; 0]);
        let empty = Render::new().value("id", format_args!("")).finish();
        assert_eq!(reason(several([literal_key("a"), empty])), InvalidKeyReason::EmptyValue("id"));
        assert_eq!(reason(display_keys([Broken])), InvalidKeyReason::Display);
    }

    struct Broken;

    impl Display for Broken {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            Err(fmt::Error)
        }
    }

    fn reason(key: Key) -> InvalidKeyReason {
        match key.0 {
            Err(LockError::InvalidKey { reason, .. }) => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn one_value_stands_as_it_is_apart_from_braces() {
        let render =
            |v: &str| ok(Render::new().text("stock-").value("id", format_args!("{v}")).finish());
        assert_eq!(render("42"), "stock-42");
        assert_eq!(render("a-b c/é"), "stock-a-b c/é");
        assert_eq!(render("{x}%"), "stock-%7Bx%7D%25");
    }

    #[test]
    fn the_delimiter_is_escaped_in_values() {
        let render = |a: &str, b: &str| {
            ok(Render::injective("-")
                .text("a-")
                .value("a", format_args!("{a}"))
                .text("-")
                .value("b", format_args!("{b}"))
                .finish())
        };
        assert_eq!(render("1-2", "3"), "a-1%2D2-3");
        assert_eq!(render("1", "2-3"), "a-1-2%2D3");
    }

    #[test]
    fn bad_values_are_typed_errors() {
        let one =
            |v: &dyn Display| Render::new().text("k-").value("v", format_args!("{v}")).finish();
        assert_eq!(reason(one(&"")), InvalidKeyReason::EmptyValue("v"));
        assert_eq!(reason(one(&"a\r\n")), InvalidKeyReason::ControlCharacter('\r'));
        assert_eq!(reason(one(&Broken)), InvalidKeyReason::Display);
        assert_eq!(reason(display_key(&Broken)), InvalidKeyReason::Display);
    }

    /// 1.5 million tuples over an alphabet of everything that could confuse: delimiters, escapes,
    /// digits of escapes, braces. The seed is fixed: a failure repeats.
    #[test]
    fn distinct_tuples_never_share_a_key() {
        const ALPHABET: [char; 12] =
            ['-', ':', '%', '2', 'D', '5', '{', '}', 'a', 't', '\u{2192}', '7'];
        type Template = fn(&str, &str, &str) -> String;
        let templates: [Template; 3] = [
            |a, b, c| three(["-", ":", "-:"], a, b, c),
            |a, b, c| three(["t", "\u{2192}", "t\u{2192}"], a, b, c),
            |a, b, c| three([":", "2D:", ":"], a, b, c),
        ];
        let mut random = fastrand::Rng::with_seed(7);
        let mut value = || -> String {
            let length = random.usize(1..=3);
            (0..length).map(|_| ALPHABET[random.usize(..ALPHABET.len())]).collect()
        };
        for template in templates {
            let mut seen: HashMap<String, [String; 3]> = HashMap::new();
            for _ in 0..500_000 {
                let tuple = [value(), value(), value()];
                let key = template(&tuple[0], &tuple[1], &tuple[2]);
                if let Some(other) = seen.insert(key.clone(), tuple.clone()) {
                    assert_eq!(other, tuple, "{key} stands for two tuples");
                }
            }
        }
    }

    /// Two gaps and the delimiters that the attribute would pass for them.
    fn three(gaps: [&'static str; 3], a: &str, b: &str, c: &str) -> String {
        ok(Render::injective(gaps[2])
            .text("k")
            .value("a", format_args!("{a}"))
            .text(gaps[0])
            .value("b", format_args!("{b}"))
            .text(gaps[1])
            .value("c", format_args!("{c}"))
            .finish())
    }
}
