//! The decoder of replies on values that no script sends.

use deadpool_redis::redis::{Value, VerbatimFormat};

use crate::backend::{self, Acquired, AllAcquired, Found};
use crate::fencing::FencingToken;
use crate::input::Input;

pub fn check(data: &[u8]) {
    let input = &mut Input::new(data);
    let leases = input.below(101);
    let value = value(input, 3);
    check_acquired(&value);
    check_renewed(&value, leases);
    check_time(&value);
    let known = matches!(value, Value::Int(-1..=1));
    assert_eq!(backend::found(&value).is_some(), known, "{value:?}");
    let was_released = known || value == Value::Int(2);
    assert_eq!(backend::released(&value).is_some(), was_released, "{value:?}");
    let _ = backend::queued(&value);
    if let Some(AllAcquired::Refused { key_index, .. }) = backend::of_others(&value, leases) {
        assert!(key_index < leases, "{value:?}");
    }
}

fn check_acquired(value: &Value) {
    let Some((found, micros)) = backend::acquired(value) else { return };
    let time = match (found, value) {
        (Acquired::Granted { fencing_tokens, was_cut: false }, said @ Value::BulkString(_)) => {
            let said = text(said);
            let (granted, time) = said.split_once(' ').unwrap_or((&said, &said));
            let [number, last] = [fencing_tokens.first, fencing_tokens.last].map(u64::from);
            assert!(number <= last && last < FencingToken::LIMIT);
            assert_eq!(last - number, if said.contains(' ') { 0 } else { 3 });
            let number = number.to_string();
            let digits = granted.trim_start_matches('+').trim_start_matches('0');
            assert_eq!(if digits.is_empty() { "0" } else { digits }, number);
            time.to_owned()
        }
        (
            Acquired::Refused { holder, free_in, was_cut: false, is_split: false },
            Value::Array(items),
        ) => {
            let [Value::Int(0), Value::Int(ms), said, time] = &items[..] else {
                panic!("{value:?}")
            };
            // The markers of shared kinds are shown as what they stand for.
            let said = text(said);
            assert!(holder.as_deref() == Some(&*said) || said.starts_with('<'), "{value:?}");
            let known = u128::try_from(*ms).ok();
            assert_eq!(free_in.map(|free_in| free_in.as_millis()), known);
            text(time)
        }
        (found, _) => panic!("{value:?}: {found:?}"),
    };
    assert_eq!(time.parse(), Ok(micros), "{value:?}");
}

fn check_renewed(value: &Value, leases: usize) {
    let Some((outcomes, micros)) = backend::renewed(value, leases) else { return };
    assert_eq!(outcomes.len(), leases);
    let Value::Array(items) = value else { panic!("{value:?}") };
    let ints: Vec<i64> = items
        .iter()
        .map(|item| if let Value::Int(number) = item { *number } else { panic!("{value:?}") })
        .collect();
    let (first, failures) = ints.split_first().expect("the time comes first");
    assert_eq!((*first, failures.len() % 2), (micros, 0), "{value:?}");
    for (index, outcome) in (1..).zip(&outcomes) {
        // What is said last about a lease counts.
        let said = failures.chunks(2).rev().find(|pair| pair[0] == index).map(|pair| pair[1]);
        let expected = match said {
            None => Found::Ours,
            Some(0) => Found::Gone,
            Some(1) => Found::Stolen,
            Some(_) => panic!("{value:?}"),
        };
        assert_eq!(*outcome, expected, "{index} of {value:?}");
    }
    let in_range = 1..=i64::try_from(leases).unwrap();
    assert!(failures.chunks(2).all(|pair| in_range.contains(&pair[0])), "{value:?}");
}

fn check_time(value: &Value) {
    let Some(micros) = backend::time(value) else { return };
    let Value::Array(items) = value else { panic!("{value:?}") };
    let [seconds, rest] = &items[..] else { panic!("{value:?}") };
    let number = |value| text(value).parse::<i128>().unwrap();
    assert_eq!(number(seconds) * 1_000_000 + number(rest), i128::from(micros), "{value:?}");
}

fn text(value: &Value) -> String {
    match value {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::SimpleString(text) => text.clone(),
        Value::Int(number) => number.to_string(),
        other => panic!("{other:?} is no text"),
    }
}

fn value(input: &mut Input<'_>, depth: u8) -> Value {
    let kinds = if depth == 0 { 9 } else { 17 };
    match input.below(kinds) {
        0 => Value::Nil,
        1 | 2 => Value::Int(input.number()),
        3 => Value::BulkString(input.bytes().to_vec()),
        4 => Value::BulkString(input.number().to_string().into_bytes()),
        5 => Value::SimpleString(input.text()),
        6 => Value::Okay,
        7 => Value::Double(input.number() as f64),
        8 => match input.byte() % 2 {
            0 => Value::Boolean(input.byte() != 0),
            _ => Value::VerbatimString { format: VerbatimFormat::Text, text: input.text() },
        },
        9 => Value::Set(values(input, depth)),
        10 => granted(input),
        11 => Value::Map(
            (0..input.below(4))
                .map(|_| (value(input, depth - 1), value(input, depth - 1)))
                .collect(),
        ),
        12 => Value::Array((0..input.below(64)).map(|_| Value::Int(input.number())).collect()),
        _ => Value::Array(values(input, depth)),
    }
}

/// Two numbers, or nearly.
fn granted(input: &mut Input<'_>) -> Value {
    let (first, second) = (input.number().to_string(), input.number().to_string());
    let between = if input.byte() % 8 == 0 { input.text() } else { " ".to_owned() };
    Value::BulkString([first, between, second].concat().into_bytes())
}

fn values(input: &mut Input<'_>, depth: u8) -> Vec<Value> {
    (0..input.below(6)).map(|_| value(input, depth - 1)).collect()
}
