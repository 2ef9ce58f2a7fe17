//! What keys can be made of: the types of placeholders, and of expressions in the place of a
//! template. For any other type the compiler says what to write.

use std::fmt::Display;

/// The types that a placeholder can have.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be part of a lock key because it does not implement `Display`",
    label = "this placeholder has type `{Self}`",
    note = "name something printable, such as `<arg.id>`, or format it with `Debug`: `<arg:?>`"
)]
pub trait KeyPart: Display {}

impl<T: Display + ?Sized> KeyPart for T {}

/// Returns a value of one type, whatever it is given, so that a bad placeholder is reported once,
/// not again by the formatting around it.
#[inline]
pub fn part<'a, T: KeyPart + ?Sized>(value: &'a &'a T) -> &'a dyn Display {
    value
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

/// The types that `keys = ..` can have.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the keys of a lock",
    label = "expected something to iterate over, of values that implement `Display`",
    note = "write a list of templates, `keys = [\"acct-<from>\", \"acct-<to>\"]`, or an iterator \
            such as `ids.iter().map(|id| format!(\"acct-{{id}}\"))`"
)]
pub trait Keys: IntoIterator<Item: Display> {}

impl<I: IntoIterator<Item: Display>> Keys for I {}
