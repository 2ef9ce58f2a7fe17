//! The nudge command: hands a lock that is free to the first process of its queue, if any.

use std::time::Duration;

use deadpool_redis::redis::Value;

use crate::backend::redis::commands::{Script, ScriptCall, with_hand_over};
use crate::key::LockKey;
use crate::owner::Owner;

pub(crate) static SCRIPT: Script = with_hand_over!("nudge.lua");

/// `owner`: one of the client that sends it.
pub(crate) fn call(key: &LockKey, owner: &Owner) -> ScriptCall {
    ScriptCall::new(&SCRIPT, &key.with_helpers().names(), &[owner.as_str()])
}

/// When the lease of the holder ends, and how many processes wait.
pub(crate) fn decode(value: &Value) -> Option<(Option<Duration>, u64)> {
    let Value::Array(items) = value else { return None };
    let [Value::Int(millis), Value::Int(waiting)] = items.as_slice() else { return None };
    let free_in = u64::try_from(*millis).ok().map(Duration::from_millis);
    Some((free_in, u64::try_from(*waiting).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(items: Vec<Value>) -> Value {
        Value::Array(items)
    }

    #[test]
    fn a_nudge_says_whose_it_is() {
        let (key, owner) = (LockKey::new("lock:", "a").unwrap(), Owner::of_nobody("t"));
        let packed = call(&key, &owner).invocation().by_digest().get_packed_command();
        let packed = String::from_utf8(packed).unwrap();
        assert!(packed.ends_with(&format!("{}\r\n", owner.as_str())), "{packed}");
    }

    #[test]
    fn a_nudge_says_how_long_the_lock_is_held_and_who_waits() {
        let nudge = |millis, waiting| decode(&reply(vec![Value::Int(millis), Value::Int(waiting)]));
        assert_eq!(nudge(70, 2), Some((Some(Duration::from_millis(70)), 2)));
        assert_eq!(nudge(-2, 0), Some((None, 0)));
        assert_eq!(nudge(70, -1), None);
    }
}
