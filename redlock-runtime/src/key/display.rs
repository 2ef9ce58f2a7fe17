//! Keys that are the values of expressions: without a template, and without escapes.

use std::borrow::Cow;
use std::collections::HashSet;

use super::key_set::MOST_KEYS;
use super::printable::{Keys, WholeKey};
use super::rendered::{Key, Rendered, display};
use crate::error::LockError;

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

/// `keys = <expression>`: the values without escapes, each once. No more different ones are taken
/// than it takes to know that they are too many.
pub fn display_keys<I: Keys>(values: I) -> Key {
    Key(different(values).map(Rendered::Several))
}

fn different<I: Keys>(values: I) -> Result<Vec<Cow<'static, str>>, LockError> {
    let (mut names, mut known) = (Vec::new(), HashSet::new());
    for value in values {
        let name = display(&value)?;
        if known.insert(name.clone()) {
            names.push(name);
        }
        if names.len() > MOST_KEYS {
            break;
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_without_an_end_are_too_many() {
        let Key(Ok(Rendered::Several(names))) = display_keys(0_u64..) else {
            panic!("they render")
        };
        assert_eq!(names.len(), MOST_KEYS + 1);
        let Key(Ok(Rendered::Several(names))) = display_keys([3, 1, 3]) else { panic!() };
        assert_eq!(names, ["3", "1"]);
    }
}
