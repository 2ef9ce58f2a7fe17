//! Keys that are the values of expressions: without a template, and without escapes.

use super::printable::{Keys, WholeKey};
use super::rendered::{Key, Rendered, display};

/// `key = <expression>`: the value without escapes.
pub fn display_key<T: WholeKey + ?Sized>(value: &T) -> Key {
    Key(display(value).map(Rendered::One))
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
