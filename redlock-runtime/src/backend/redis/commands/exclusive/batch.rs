//! The batch command: what several callers want at the same moment, in one script.

use deadpool_redis::redis::{Arg, Cmd, Value};

use super::{acquire, release};
use crate::backend::redis::commands::{Invocation, Script};

pub(super) static SCRIPT: Script = Script::new(include_str!("batch.lua"));

/// A command that can be part of a batch.
#[derive(Debug)]
pub(crate) struct Part {
    verb: Verb,
    command: Cmd,
}

/// Releases go first: whoever releases a lock may want it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verb {
    Release,
    Acquire,
}

/// The words of a command before its keys: `EVALSHA`, the digest, the number of keys.
const WORDS_AHEAD: usize = 3;
/// `lock mark counter queue owner`, of an owner that is in no queue, and without tokens that are
/// given back.
const WORDS_OF_RELEASE: usize = WORDS_AHEAD + 5;
/// `lock mark counter owner expire life`
const WORDS_OF_ACQUIRE: usize = WORDS_AHEAD + 6;

impl Verb {
    /// `None`: the command cannot be part of a batch.
    fn of(command: &Cmd) -> Option<Self> {
        let mut words = command.args_iter();
        let (verb, script) = match words.len() {
            WORDS_OF_RELEASE => (Self::Release, &release::SCRIPT),
            WORDS_OF_ACQUIRE => (Self::Acquire, &acquire::SCRIPT),
            _ => return None,
        };
        match (words.next(), words.next()) {
            (Some(Arg::Simple(b"EVALSHA")), Some(Arg::Simple(digest))) => {
                (digest == script.digest().as_bytes()).then_some(verb)
            }
            _ => None,
        }
    }
}

impl Part {
    /// `None`: the command cannot be part of a batch.
    pub(crate) fn of(command: &Cmd) -> Option<Self> {
        Some(Self { verb: Verb::of(command)?, command: command.clone() })
    }

    pub(crate) fn verb(&self) -> Verb {
        self.verb
    }

    /// The command by itself.
    pub(crate) fn command(&self) -> &Cmd {
        &self.command
    }

    /// Its keys and its arguments.
    fn words<const N: usize>(&self) -> [&[u8]; N] {
        let mut words = self.command.args_iter().skip(WORDS_AHEAD).map(|word| match word {
            Arg::Simple(word) => word,
            _ => &[],
        });
        std::array::from_fn(|_| words.next().unwrap_or_default())
    }
}

/// One script for all parts, of which the releases are the first ones.
pub(crate) fn invocation<'a>(parts: impl Iterator<Item = &'a Part> + Clone) -> Invocation {
    let releases = parts.clone().filter(|part| part.verb == Verb::Release).count().to_string();
    let count = parts.clone().count();
    let (mut keys, mut args) = (Vec::with_capacity(3 * count), Vec::with_capacity(1 + 2 * count));
    args.push(releases.as_bytes());
    for part in parts {
        match part.verb {
            Verb::Release => {
                let [lock, _mark, _counter, queue, owner] = part.words();
                keys.extend([lock, queue]);
                args.push(owner);
            }
            Verb::Acquire => {
                let [lock, mark, counter, owner, expire, _life] = part.words();
                keys.extend([lock, mark, counter]);
                args.extend([owner, expire]);
            }
        }
    }
    Invocation::new(&SCRIPT, &keys, &args)
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

    use deadpool_redis::redis;

    use super::*;
    use crate::backend::{Claim, Release};
    use crate::key::LockKey;
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
        let verb = |invocation: &Invocation| Verb::of(invocation.by_digest());
        assert_eq!(verb(&acquire::call(&claim).invocation), Some(Verb::Acquire));
        let plain = Release::of(&claim);
        assert_eq!(verb(&release::call(plain, true).invocation), Some(Verb::Release));
        let others = [
            release::call(plain, false),
            release::call(Release::leaving(&claim), true),
            release::call(Release { retain: Some(Duration::from_secs(1)), ..plain }, true),
        ];
        for other in others {
            assert_eq!(verb(&other.invocation), None);
        }
        assert_eq!(Verb::of(&redis::cmd("PING")), None);
    }
}
