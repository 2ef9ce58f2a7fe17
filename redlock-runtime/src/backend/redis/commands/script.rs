//! The Lua scripts, called by digest, and by text if the server does not know them yet.

mod unknown;

use deadpool_redis::redis;
use deadpool_redis::redis::aio::ConnectionLike;
use deadpool_redis::redis::{
    Cmd, ErrorKind, RedisError, RedisResult, ServerErrorKind, ToRedisArgs, Value,
};
use once_cell::race::OnceBox;

/// A script: its files come after `hand_over.lua` and `holders.lua`, the functions that several
/// scripts share. `first`: a file that comes before these, for the usual case.
macro_rules! with_hand_over {
    ($(first $first:literal,)? $($file:literal),+) => {
        $crate::backend::redis::commands::Script::new(concat!(
            $(include_str!($first),)?
            include_str!("../exclusive/hand_over.lua"),
            include_str!("../shared/holders.lua"),
            $(include_str!($file)),+
        ))
    };
}
pub(crate) use with_hand_over;

pub(crate) struct Script {
    text: &'static str,
    /// A cell that nobody waits for: when a process forks, a thread of the parent may be filling
    /// it, and will not go on in the child.
    digest: OnceBox<String>,
    /// The script that is usually sent next for the same lock. A server that does not know this
    /// one gets both.
    follower: Option<&'static Script>,
}

impl Script {
    pub(crate) const fn new(text: &'static str) -> Self {
        Self { text, digest: OnceBox::new(), follower: None }
    }

    /// A server that does not know this script most likely does not know its follower either: both
    /// are loaded then.
    pub(crate) const fn loaded_with(mut self, follower: &'static Self) -> Self {
        self.follower = Some(follower);
        self
    }

    /// The SHA-1 by which the server knows the script.
    pub(crate) fn digest(&self) -> &str {
        self.digest.get_or_init(|| Box::new(redis::Script::new(self.text).get_hash().to_owned()))
    }
}

/// A script with its keys and arguments. It can be sent more than once.
#[derive(Clone)]
pub(crate) struct Invocation {
    script: &'static Script,
    by_digest: Cmd,
}

impl Invocation {
    pub(crate) fn new<T: AsRef<[u8]> + ToRedisArgs>(
        script: &'static Script,
        keys: &[T],
        args: &[T],
    ) -> Self {
        let bytes = keys.iter().chain(args).map(|word| word.as_ref().len()).sum();
        let words = |command: &mut Cmd| _ = command.arg(keys).arg(args);
        Self::with(script, [keys.len(), args.len()], bytes, words)
    }

    /// As [`new`](Self::new). `write` adds the keys and the arguments, of which there are this
    /// many, with about so many `bytes` in all.
    pub(crate) fn with(
        script: &'static Script,
        [keys, args]: [usize; 2],
        bytes: usize,
        write: impl FnOnce(&mut Cmd),
    ) -> Self {
        let mut by_digest = Cmd::with_capacity(WORDS_AHEAD + keys + args, BYTES_AHEAD + bytes);
        by_digest.arg("EVALSHA").arg(script.digest()).arg(keys);
        write(&mut by_digest);
        Self { script, by_digest }
    }

    /// The command that names the script by its digest.
    #[cfg(test)]
    pub(crate) fn by_digest(&self) -> &Cmd {
        &self.by_digest
    }

    /// Runs the script. A server that does not know it answers NOSCRIPT and has done nothing; then
    /// the text is sent, which the server remembers.
    pub(crate) async fn run(
        &self,
        connection: &mut (impl ConnectionLike + Send),
    ) -> RedisResult<Value> {
        match self.run_known(connection).await? {
            Some(answer) => Ok(answer),
            // Boxed: it is seldom needed.
            None => Box::pin(self.introduce(connection)).await,
        }
    }

    /// Runs the script by its digest. `None`: the server does not know it, and has done nothing.
    pub(crate) async fn run_known(
        &self,
        connection: &mut (impl ConnectionLike + Send),
    ) -> RedisResult<Option<Value>> {
        match self.by_digest.query_async(connection).await {
            Err(error) if is_unknown(&error) => Ok(None),
            result => result.map(Some),
        }
    }
}

/// Does the server not know the script?
fn is_unknown(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}

/// Words of a command before its first key: its name, the script, the number of keys.
const WORDS_AHEAD: usize = 3;
/// At least as many bytes as these words have.
const BYTES_AHEAD: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_puts_values_into_arguments_only() {
        static SCRIPT: Script = Script::new("abc");
        let invocation = Invocation::new(&SCRIPT, &["k'"], &["o\r\n"]);
        let packed = |command: &Cmd| String::from_utf8(command.get_packed_command()).unwrap();
        let rest = "$1\r\n1\r\n$2\r\nk'\r\n$3\r\no\r\n\r\n";
        let digest = SCRIPT.digest();
        let by_digest = format!("*5\r\n$7\r\nEVALSHA\r\n$40\r\n{digest}\r\n{rest}");
        assert_eq!(packed(&invocation.by_digest), by_digest);
        let by_text = format!("*5\r\n$4\r\nEVAL\r\n$3\r\nabc\r\n{rest}");
        assert_eq!(packed(&invocation.by_text()), by_text);
        assert_eq!(invocation.key(), "k'");
    }
}
