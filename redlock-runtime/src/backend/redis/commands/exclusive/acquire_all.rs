//! The `acquire_all` command: takes several locks if all of them are free.

use deadpool_redis::redis::Value;

use super::{acquire, arguments, release};
use crate::backend::redis::commands::reply::Timed;
use crate::backend::redis::commands::{Script, ScriptCall};
use crate::backend::{Acquired, AllAcquired, Claim};

pub(crate) static SCRIPT: Script =
    Script::new(include_str!("acquire_all.lua")).loaded_with(&release::SCRIPT);

/// All claims have the same lease.
pub(crate) fn call(claims: &[Claim]) -> ScriptCall {
    let helpers: Vec<[String; 2]> =
        claims.iter().map(|claim| [claim.key.mark_key(), claim.key.counter_key()]).collect();
    let keys: Vec<&str> = claims
        .iter()
        .zip(&helpers)
        .flat_map(|(claim, [mark, counter])| [claim.key.redis_key(), mark, counter])
        .collect();
    let expire = claims.first().map(arguments::expire).unwrap_or_default();
    let owners = claims.iter().map(|claim| claim.owner.as_str());
    let args: Vec<&str> = std::iter::once(&*expire).chain(owners).collect();
    ScriptCall::new(&SCRIPT, &keys, &args)
}

/// The answers of `acquire`, and which of the locks is held.
pub(crate) fn decode(value: &Value, locks: usize) -> Option<Timed<AllAcquired>> {
    let (of_one, key_index) = match value {
        Value::Array(items) => {
            let (Value::Int(number), of_one) = items.split_last()? else { return None };
            let key_index = usize::try_from(*number).ok()?.checked_sub(1)?;
            (acquire::decode(&Value::Array(of_one.to_vec()))?, key_index)
        }
        other => (acquire::decode(other)?, 0),
    };
    let found = match of_one.found {
        Acquired::Granted { fencing_tokens, was_cut } => {
            AllAcquired::Granted { fencing_token: fencing_tokens.first, was_cut }
        }
        Acquired::Refused { holder, free_in, was_cut, .. } => {
            AllAcquired::Refused { key_index, holder: Some(holder?), free_in, was_cut }
        }
    };
    (key_index < locks).then_some(Timed { found, micros: of_one.micros })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::backend::redis::commands::exclusive::samples::bulk;
    use crate::fencing::FencingToken;

    #[test]
    fn all_of_them_or_which_one_is_held() {
        let fencing_token = FencingToken::new(1_795_000_000_000_000).unwrap();
        let found = AllAcquired::Granted { fencing_token, was_cut: false };
        assert_eq!(decode(&bulk("1795000000000000 17"), 2), Some(Timed { found, micros: 17 }));
        let refused = |number| {
            let held = [Value::Int(0), Value::Int(70), bulk("web-3:x"), bulk("17")];
            Value::Array(held.into_iter().chain([Value::Int(number)]).collect())
        };
        let (holder, free_in) = (Some("web-3:x".to_owned()), Some(Duration::from_millis(70)));
        let found = AllAcquired::Refused { key_index: 1, holder, free_in, was_cut: false };
        assert_eq!(decode(&refused(2), 2), Some(Timed { found, micros: 17 }));
        for value in [refused(0), refused(3), refused(-1), Value::Array(vec![]), Value::Nil] {
            assert_eq!(decode(&value, 2), None, "{value:?}");
        }
    }
}
