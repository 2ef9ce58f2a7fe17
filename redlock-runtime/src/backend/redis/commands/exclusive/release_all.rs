//! The `release_all` command: releases several locks.

use deadpool_redis::redis::Value;

use super::release;
use crate::backend::redis::commands::{Script, ScriptCall, with_hand_over};
use crate::backend::{Found, Release};
use crate::key::WithHelpers;

pub(crate) static SCRIPT: Script =
    with_hand_over!(first "quick_release_all.lua", "release_all.lua");

/// Releases that say nothing but their owners ([`Release::is_plain`]).
pub(crate) fn call(releases: &[Release<'_>]) -> ScriptCall {
    let keys: Vec<_> = releases.iter().map(|release| release.claim.key.with_helpers()).collect();
    let keys: Vec<&str> = keys.iter().flat_map(WithHelpers::names).collect();
    let owners: Vec<&str> = releases.iter().map(|release| release.claim.owner.as_str()).collect();
    ScriptCall::new(&SCRIPT, &keys, &owners)
}

/// The answers of `release`, one for each lock.
pub(crate) fn decode(value: &Value, locks: usize) -> Option<Vec<(Found, bool)>> {
    let Value::BulkString(words) = value else { return None };
    let words = std::str::from_utf8(words).ok()?.split(' ');
    let each = words.map(|word| release::decode(&Value::Int(word.parse().ok()?)));
    let each: Vec<_> = each.collect::<Option<_>>()?;
    (each.len() == locks).then_some(each)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::redis::commands::exclusive::samples::bulk;

    #[test]
    fn each_lock_has_an_answer_of_its_own() {
        let found = vec![
            (Found::Ours, false),
            (Found::Ours, true),
            (Found::Gone, false),
            (Found::Stolen, false),
        ];
        assert_eq!(decode(&bulk("1 2 0 -1"), 4), Some(found));
        for odd in ["", "1", "1 1 1", "1 3", "1  1", "1 x"] {
            assert_eq!(decode(&bulk(odd), 2), None, "{odd}");
        }
        assert_eq!(decode(&Value::Int(1), 1), None);
    }
}
