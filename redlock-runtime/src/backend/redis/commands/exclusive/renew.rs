//! The renew command: renews many leases in one call.

use std::borrow::Borrow;

use deadpool_redis::redis::Value;

use super::arguments;
use crate::backend::redis::commands::reply::Timed;
use crate::backend::redis::commands::{Script, ScriptCall};
use crate::backend::{Claim, Found};

pub(crate) static SCRIPT: Script = Script::new(include_str!("renew.lua"));

pub(crate) fn call(claims: &[impl Borrow<Claim>]) -> ScriptCall {
    let claims: Vec<&Claim> = claims.iter().map(Borrow::borrow).collect();
    let keys: Vec<&str> = claims.iter().map(|claim| claim.key.redis_key()).collect();
    let expires: Vec<String> = claims.iter().map(|claim| arguments::expire(claim)).collect();
    let leases = claims.iter().zip(&expires);
    let args: Vec<&str> =
        leases.flat_map(|(claim, expire)| [claim.owner.as_str(), expire.as_str()]).collect();
    ScriptCall::new(&SCRIPT, &keys, &args)
}

/// The reply names only the leases that were not renewed, by their positions.
pub(crate) fn decode(value: &Value, leases: usize) -> Option<Timed<Vec<Found>>> {
    let Value::Array(items) = value else { return None };
    let (Value::Int(micros), failures) = items.split_first()? else { return None };
    let mut outcomes = vec![Found::Ours; leases];
    for failure in failures.chunks(2) {
        let [Value::Int(index), Value::Int(found)] = failure else { return None };
        let index = usize::try_from(*index).ok()?.checked_sub(1)?;
        *outcomes.get_mut(index)? = match found {
            0 => Found::Gone,
            1 => Found::Stolen,
            _ => return None,
        };
    }
    Some(Timed { found: outcomes, micros: *micros })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renewals_name_their_failures_by_position() {
        let value = Value::Array([17, 2, 0, 3, 1].map(Value::Int).to_vec());
        let found = vec![Found::Ours, Found::Gone, Found::Stolen];
        assert_eq!(decode(&value, 3), Some(Timed { found, micros: 17 }));
        let all = Value::Array(vec![Value::Int(17)]);
        assert_eq!(decode(&all, 1), Some(Timed { found: vec![Found::Ours], micros: 17 }));
    }

    #[test]
    fn anything_else_is_not_an_answer() {
        for bad in [vec![0, 0], vec![4, 0], vec![1], vec![1, 2], vec![-1, 0]] {
            let value = Value::Array([17].into_iter().chain(bad).map(Value::Int).collect());
            assert_eq!(decode(&value, 3), None, "{value:?}");
        }
        assert_eq!(decode(&Value::Array(vec![]), 3), None);
    }
}
