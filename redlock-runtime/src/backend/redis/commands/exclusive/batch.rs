//! The batch command: what several callers want at the same moment, in one script.

use deadpool_redis::redis::{Cmd, Value};

use super::arguments;
use crate::backend::Claim;
use crate::backend::redis::commands::{Invocation, Part, Script, Verb};
use crate::key::LockKey;

pub(crate) static SCRIPT: Script = Script::new(include_str!("batch.lua"));

const KEYS_OF_RELEASE: usize = 2;
const KEYS_OF_ACQUIRE: usize = 3;
/// About as many bytes as the keys and arguments of a part have besides the lock's key in each of
/// them.
const BYTES_OF_PART: usize = 128;

/// One script for all parts, of which the releases are the first ones.
pub(crate) fn invocation(parts: &[&Part]) -> Invocation {
    let count = parts.partition_point(|part| part.verb == Verb::Release);
    let (releases, acquires) = parts.split_at(count);
    let keys = KEYS_OF_RELEASE * releases.len() + KEYS_OF_ACQUIRE * acquires.len();
    let args = 1 + releases.len() + 2 * acquires.len();
    let bytes = |part: &&Part| KEYS_OF_ACQUIRE * part.claim.key.redis_key().len() + BYTES_OF_PART;
    let bytes = parts.iter().map(bytes).sum();
    Invocation::with(&SCRIPT, [keys, args], bytes, |command| {
        let mut helper = String::new();
        for Part { claim, .. } in releases {
            command.arg(claim.key.redis_key());
        }
        for Part { claim, .. } in releases {
            push_helper(command, &claim.key, &mut helper, LockKey::push_queue);
        }
        for Part { claim: Claim { key, .. }, .. } in acquires {
            command.arg(key.redis_key());
            push_helper(command, key, &mut helper, LockKey::push_mark);
            push_helper(command, key, &mut helper, LockKey::push_counter);
        }
        command.arg(releases.len());
        for Part { claim, .. } in releases {
            command.arg(claim.owner.as_str());
        }
        for Part { claim, .. } in acquires {
            command.arg(claim.owner.as_str()).arg(arguments::expire_millis(claim));
        }
    })
}

/// `name`: a buffer, so that the helper keys of all parts need one allocation.
fn push_helper(
    command: &mut Cmd,
    key: &LockKey,
    name: &mut String,
    push: fn(&LockKey, &mut String),
) {
    name.clear();
    push(key, name);
    command.arg(&*name);
}

/// The answer to each of `count` commands, as its own script gives it. `None`: it was not done, and
/// has to be sent by itself. The reply itself, if a batch is not answered like this.
pub(crate) fn decode(reply: Value, count: usize) -> Result<Vec<Option<Value>>, Value> {
    answers(&reply, count).filter(|answers| answers.len() == count).ok_or(reply)
}

fn answers(reply: &Value, count: usize) -> Option<Vec<Option<Value>>> {
    let Value::Array(items) = reply else { return None };
    let (text, refusals) = items.split_first()?;
    let Value::BulkString(text) = text else { return None };
    let mut words = std::str::from_utf8(text).ok()?.split(' ');
    let now = words.next()?;
    let mut refusals = refusals.iter();
    let mut answer = |word| match word {
        "-" => Some(None),
        "1" => Some(Some(Value::Int(1))),
        "?" => refusals.next().cloned().map(Some),
        "+" => Some(Some(Value::BulkString(now.into()))),
        "" => None,
        fencing_token => {
            Some(Some(Value::BulkString([fencing_token, " ", now].concat().into_bytes())))
        }
    };
    let mut answers = Vec::with_capacity(count);
    for word in words {
        answers.push(answer(word)?);
    }
    refusals.next().is_none().then_some(answers)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{acquire, release};
    use super::*;
    use crate::backend::Release;
    use crate::backend::redis::commands::ScriptCall;
    use crate::kind::Kind;
    use crate::owner::Owner;

    #[test]
    fn only_plain_commands_are_part_of_a_batch() {
        let claim = Claim {
            key: LockKey::new("lock:", "a").unwrap(),
            owner: Owner::of_nobody("t"),
            expire: Duration::from_secs(9),
            kind: Kind::Exclusive,
        };
        let verb = |call: ScriptCall| call.part().map(|part| part.verb);
        assert_eq!(verb(acquire::call(&claim)), Some(Verb::Acquire));
        let plain = Release::of(&claim);
        assert_eq!(verb(release::call(plain, true)), Some(Verb::Release));
        let others = [
            release::call(plain, false),
            release::call(Release::leaving(&claim), true),
            release::call(Release { is_contended: true, ..plain }, true),
            release::call(Release { retain: Some(Duration::from_secs(1)), ..plain }, true),
        ];
        for other in others {
            assert_eq!(verb(other), None);
        }
    }
}
