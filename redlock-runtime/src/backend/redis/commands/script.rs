//! The Lua scripts, called by digest, and by text where the server does not know them yet.

use std::borrow::Cow;

use deadpool_redis::redis;
use deadpool_redis::redis::aio::ConnectionLike;
use deadpool_redis::redis::{Arg, Cmd, ErrorKind, RedisResult, ServerErrorKind, Value};
use once_cell::race::OnceBox;

/// A script behind the common head.
macro_rules! with_head {
    ($file:literal) => {
        Script::new(concat!(
            include_str!("exclusive/hand_over.lua"),
            include_str!(concat!("exclusive/", $file))
        ))
    };
}

pub(crate) static ACQUIRE: Script =
    Script::new(include_str!("exclusive/acquire.lua")).before(&RELEASE);
pub(crate) static RAISE: Script = Script::new(include_str!("exclusive/raise.lua"));
pub(crate) static RENEW: Script = Script::new(include_str!("exclusive/renew.lua"));
pub(crate) static RELEASE_HINT: Script = Script::new(include_str!("exclusive/release_hint.lua"));
pub(crate) static RELEASE: Script = with_head!("release.lua");
pub(crate) static ENQUEUE: Script = with_head!("enqueue.lua").before(&RELEASE);
pub(crate) static ROTATE: Script = with_head!("rotate.lua");
pub(crate) static NUDGE: Script = with_head!("nudge.lua");

pub(crate) struct Script {
    text: &'static str,
    /// A cell that nobody waits for: a thread of the parent may be filling it when a process forks.
    digest: OnceBox<String>,
    /// What is sent next for the same lock.
    follower: Option<&'static Script>,
}

impl Script {
    const fn new(text: &'static str) -> Self {
        Self { text, digest: OnceBox::new(), follower: None }
    }

    const fn before(mut self, follower: &'static Self) -> Self {
        self.follower = Some(follower);
        self
    }

    /// The SHA-1 by which the server knows the script.
    fn digest(&self) -> &str {
        self.digest.get_or_init(|| Box::new(redis::Script::new(self.text).get_hash().to_owned()))
    }
}

/// A script with its keys and arguments, ready to be sent, more than once if need be.
pub(crate) struct Invocation {
    script: &'static Script,
    by_digest: Cmd,
}

impl Invocation {
    pub(crate) fn new(script: &'static Script, keys: &[&str], args: &[&str]) -> Self {
        let mut by_digest = Cmd::with_capacity(WORDS_AHEAD + keys.len() + args.len(), 256);
        by_digest.arg("EVALSHA").arg(script.digest()).arg(keys.len()).arg(keys).arg(args);
        Self { script, by_digest }
    }

    /// The first of its keys.
    pub(crate) fn key(&self) -> Cow<'_, str> {
        match self.by_digest.args_iter().nth(WORDS_AHEAD) {
            Some(Arg::Simple(key)) => String::from_utf8_lossy(key),
            _ => Cow::Borrowed(""),
        }
    }

    /// Runs the script. A server that does not know it answers NOSCRIPT and has done nothing; it is
    /// sent the text then, which it remembers.
    pub(crate) async fn run(
        &self,
        connection: &mut (impl ConnectionLike + Send),
    ) -> RedisResult<Value> {
        match self.run_known(connection).await? {
            Some(value) => Ok(value),
            // Boxed: it is seldom needed.
            None => Box::pin(self.introduce(connection)).await,
        }
    }

    /// A server that does not know this script does not know its follower either, most likely. That
    /// would take two turns, and be overtaken by what is asked behind it.
    async fn introduce(&self, connection: &mut (impl ConnectionLike + Send)) -> RedisResult<Value> {
        if let Some(follower) = self.script.follower {
            let key = self.key().into_owned();
            // Without an owner it does nothing. What it answers does not matter.
            let nothing = Self::new(follower, &[&key], &[]);
            let _ = nothing.run_text(connection).await;
        }
        self.run_text(connection).await
    }

    /// Runs the script by its digest. `None`: the server does not know it, and has done nothing.
    pub(crate) async fn run_known(
        &self,
        connection: &mut (impl ConnectionLike + Send),
    ) -> RedisResult<Option<Value>> {
        match self.by_digest.query_async(connection).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => Ok(None),
            result => result.map(Some),
        }
    }

    /// Runs the script in one command, whether the server knows it or not.
    pub(crate) async fn run_text(
        &self,
        connection: &mut (impl ConnectionLike + Send),
    ) -> RedisResult<Value> {
        self.by_text().query_async(connection).await
    }

    fn by_text(&self) -> Cmd {
        let mut by_text = redis::cmd("EVAL");
        by_text.arg(self.script.text);
        for arg in self.by_digest.args_iter().skip(2) {
            if let Arg::Simple(word) = arg {
                by_text.arg(word);
            }
        }
        by_text
    }
}

/// Words of a command before its first key: its name, the script, the number of keys.
const WORDS_AHEAD: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::CLAIM_WINDOW;
    use crate::options::MIN_EXPIRE;

    /// An administrator may grant scripts by digest: a new digest is a change of the protocol and
    /// belongs into the changelog and docs/protocol.md.
    #[test]
    fn the_digests_are_pinned() {
        assert_eq!(ACQUIRE.digest(), "783bd5302f39fee1de031e89595a33e3e14758ab");
        assert_eq!(RAISE.digest(), "1b385ae38689f725891f2603742141ba08174932");
        assert_eq!(RENEW.digest(), "e6f2822f93f95ec8bfc0f5296550c1f9008ecf13");
        assert_eq!(RELEASE_HINT.digest(), "20632bbef39757069aa270fb99e091f2140dd47b");
        assert_eq!(ENQUEUE.digest(), "cb62eb4969717192187b12f76923097f774bcc81");
        assert_eq!(ROTATE.digest(), "7cc3f2b8109629c523c67e335ff710ffc942ceef");
        assert_eq!(NUDGE.digest(), "6d583990b296ecc909928a3bb10b548a36752555");
        assert_eq!(RELEASE.digest(), "65b1efc16d53e1143ac3680ce9f69d48271d85ae");
    }

    #[test]
    fn the_scripts_know_the_claim_window() {
        let said = format!("\nlocal claim_window = {}\n", CLAIM_WINDOW.as_millis());
        assert!(NUDGE.text.contains(&said), "{said}");
    }

    #[test]
    fn fencing_tokens_are_reserved_for_the_shortest_lease_at_most() {
        let said = format!("\nlocal lead = {}\n", MIN_EXPIRE.as_micros());
        assert!(ENQUEUE.text.contains(&said), "{said}");
    }

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
