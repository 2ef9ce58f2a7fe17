use std::time::Duration;

use super::*;
use crate::backend::redis::commands::exclusive::samples::bulk;

#[test]
fn the_answers_to_an_acquire() {
    let first = FencingToken::new(1_795_000_000_000_000).unwrap();
    let found = Acquired::granted(first);
    assert_eq!(decode(&bulk("1795000000000000 17")), Some(Timed { found, micros: 17 }));
    let last = FencingToken::new(1_795_000_000_000_003).unwrap();
    let found = Acquired::Granted { fencing_tokens: FencingTokens { first, last }, was_cut: false };
    let answer = decode(&bulk("1795000000000000"));
    assert_eq!(answer, Some(Timed { found, micros: 1_795_000_000_000_000 }));

    let refused = |millis| {
        let items = vec![Value::Int(0), Value::Int(millis), bulk("web-3:x"), bulk("17")];
        decode(&Value::Array(items)).map(|answer| answer.found)
    };
    let holder = "web-3:x".to_owned();
    let free_in = Some(Duration::from_millis(70));
    let expected = |free_in| Some(Acquired::refused(holder.clone(), free_in));
    assert_eq!(refused(70), expected(free_in));
    assert_eq!(refused(-1), expected(None));
}

/// A server or another client may encode it in any of these forms.
#[test]
fn a_holder_is_read_in_every_form_of_text() {
    for (holder, shown) in [
        (bulk("web-3"), "web-3"),
        (Value::BulkString(vec![b'w', 0xff]), "w\u{fffd}"),
        (Value::SimpleString("web-3".to_owned()), "web-3"),
        (Value::Int(7), "7"),
        (bulk("<readers>"), "readers"),
        (bulk("<permits> 3"), "3 permits"),
        (bulk("<readers> web-3:x"), "<readers> web-3:x"),
    ] {
        let items = vec![Value::Int(0), Value::Int(70), holder, bulk("17")];
        let answer = decode(&Value::Array(items)).map(|answer| answer.found);
        let Some(Acquired::Refused { holder, .. }) = answer else { panic!("{answer:?}") };
        assert_eq!(holder.as_deref(), Some(shown));
    }
}

#[test]
fn anything_else_is_not_an_answer() {
    let odd = [
        Value::Nil,
        Value::Okay,
        Value::Int(7),
        Value::Array(vec![]),
        bulk(""),
        bulk("1795000000000000 "),
        bulk(" 1795000000000000"),
        bulk("1795000000000000 17 4"),
        bulk("9007199254740992 17"),
        bulk("9007199254740990"),
        bulk("-1 17"),
        Value::BulkString(b"\xff 17".to_vec()),
        Value::Array(vec![Value::Int(1), bulk("1795000000000000"), bulk("17")]),
        Value::Array(vec![Value::Int(0), Value::Nil, Value::Nil, bulk("17")]),
        Value::Array(vec![Value::Int(0), Value::Int(70), bulk("web-3:x"), bulk("soon")]),
    ];
    for value in odd {
        assert_eq!(decode(&value), None, "{value:?}");
    }
}
