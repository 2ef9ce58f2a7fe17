//! The batch command: what several callers want at the same moment, in one script.

use deadpool_redis::redis::{Arg, Cmd};

use super::{acquire, release};
use crate::backend::redis::commands::{Invocation, Script};

pub(super) static SCRIPT: Script = Script::new(include_str!("batch.lua"));

/// A command that can be part of a batch: its keys and its arguments, in one text.
#[derive(Debug)]
pub(crate) struct Part {
    verb: Verb,
    words: String,
    /// Where each of them ends.
    ends: [usize; MOST_WORDS],
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
const WORDS_OF_ACQUIRE: usize = WORDS_AHEAD + MOST_WORDS;
const MOST_WORDS: usize = 6;

impl Verb {
    /// `None`: the command cannot be part of a batch.
    pub(crate) fn of(command: &Cmd) -> Option<Self> {
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
    pub(crate) fn new(verb: Verb, command: &Cmd) -> Self {
        let words = command.args_iter().skip(WORDS_AHEAD).map(|word| match word {
            Arg::Simple(word) => word,
            _ => &[],
        });
        let length = words.clone().map(<[u8]>::len).sum();
        let mut part =
            Self { verb, words: String::with_capacity(length), ends: Default::default() };
        for (word, end) in words.zip(&mut part.ends) {
            // The command was made of texts.
            part.words.push_str(std::str::from_utf8(word).unwrap_or_default());
            *end = part.words.len();
        }
        part
    }

    /// The release that this part is, by itself.
    pub(crate) fn release(&self) -> Invocation {
        let [lock, mark, counter, queue, owner] = self.words();
        Invocation::new(&release::SCRIPT, &[lock, mark, counter, queue], &[owner])
    }

    pub(crate) fn verb(&self) -> Verb {
        self.verb
    }

    fn words<const N: usize>(&self) -> [&str; N] {
        let mut start = 0;
        std::array::from_fn(|place| {
            let end = self.ends[place];
            &self.words[std::mem::replace(&mut start, end)..end]
        })
    }
}

/// One script for all parts, of which the releases are the first ones. It answers them in this
/// order, each as its own script would; what is nil was not done, and has to be sent by itself.
pub(crate) fn invocation<'a>(parts: impl Iterator<Item = &'a Part> + Clone) -> Invocation {
    let releases = parts.clone().filter(|part| part.verb == Verb::Release).count().to_string();
    let count = parts.clone().count();
    let (mut keys, mut args) = (Vec::with_capacity(3 * count), Vec::with_capacity(1 + 2 * count));
    args.push(&*releases);
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
            owner: Owner::fresh("t"),
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
