//! The Lua scripts, called by digest, and by text where the server does not know them yet.

use std::sync::OnceLock;

use deadpool_redis::redis::aio::ConnectionLike;
use deadpool_redis::redis::{self, Cmd, ErrorKind, RedisResult, ServerErrorKind, Value};

use super::source::Source;
use crate::backend::CLAIM_WINDOW;

/// A script behind the common head.
macro_rules! with_head {
    ($file:literal) => {
        Script::new(concat!(
            include_str!("../scripts/hand_over.lua"),
            include_str!(concat!("../scripts/", $file))
        ))
    };
}

pub(super) static ACQUIRE: Script = Script::new(include_str!("../scripts/acquire.lua"));
pub(super) static RAISE: Script = Script::new(include_str!("../scripts/raise.lua"));
pub(super) static RENEW: Script = Script::new(include_str!("../scripts/renew.lua"));
pub(super) static RELEASE: Script = with_head!("release.lua");
pub(super) static JOIN: Script = with_head!("join.lua");
pub(super) static ROTATE: Script = with_head!("rotate.lua");
pub(super) static NUDGE: Script = with_head!("nudge.lua");

/// The claim window, as the scripts are told it.
pub(super) const WINDOW_MS: &str = "1000";
const _: () = assert!(CLAIM_WINDOW.as_millis() == 1000);

/// Tells a script that PUBLISH counts the listeners of one server of several.
pub(super) fn cluster_flag<S: Source>() -> &'static str {
    if S::LEADS_TO_ONE { "" } else { "cluster" }
}

pub(super) struct Script {
    text: &'static str,
    digest: OnceLock<String>,
}

impl Script {
    const fn new(text: &'static str) -> Self {
        Self { text, digest: OnceLock::new() }
    }

    /// The SHA-1 by which the server knows the script.
    fn digest(&self) -> &str {
        self.digest.get_or_init(|| redis::Script::new(self.text).get_hash().to_owned())
    }

    /// Runs the script. A server that does not know it answers NOSCRIPT and has done nothing; it is
    /// sent the text then, which it remembers.
    pub(super) async fn run(
        &self,
        connection: &mut (impl ConnectionLike + Send),
        keys: &[&str],
        args: &[&str],
    ) -> RedisResult<Value> {
        match self.run_known(connection, keys, args).await? {
            Some(value) => Ok(value),
            None => self.run_text(connection, keys, args).await,
        }
    }

    /// Runs the script by its digest. `None`: the server does not know it, and has done nothing.
    pub(super) async fn run_known(
        &self,
        connection: &mut (impl ConnectionLike + Send),
        keys: &[&str],
        args: &[&str],
    ) -> RedisResult<Option<Value>> {
        let by_digest = call("EVALSHA", self.digest(), keys, args);
        match by_digest.query_async(connection).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => Ok(None),
            result => result.map(Some),
        }
    }

    /// Runs the script in one command, whether the server knows it or not.
    pub(super) async fn run_text(
        &self,
        connection: &mut (impl ConnectionLike + Send),
        keys: &[&str],
        args: &[&str],
    ) -> RedisResult<Value> {
        call("EVAL", self.text, keys, args).query_async(connection).await
    }
}

fn call(command: &str, script: &str, keys: &[&str], args: &[&str]) -> Cmd {
    let mut call = Cmd::with_capacity(3 + keys.len() + args.len(), 256);
    call.arg(command).arg(script).arg(keys.len()).arg(keys).arg(args);
    call
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An administrator may grant scripts by digest: a new digest is a change of the protocol and
    /// belongs into the changelog and docs/protocol.md.
    #[test]
    fn the_digests_are_pinned() {
        assert_eq!(ACQUIRE.digest(), "bd1faf5094de663afb6ef5b12929c8179918c8f0");
        assert_eq!(RAISE.digest(), "4142d34a29712ce86779aa433658e95e74bf0588");
        assert_eq!(RENEW.digest(), "e6f2822f93f95ec8bfc0f5296550c1f9008ecf13");
        assert_eq!(JOIN.digest(), "b082231baa9854f55109bb3822e4dd579975c3ad");
        assert_eq!(ROTATE.digest(), "7d945e0f12736a197d48b05de2415a023e310f9e");
        assert_eq!(NUDGE.digest(), "c606c22e7f83d6a669af6b6ea51ce6ee4b37b9de");
        assert_eq!(RELEASE.digest(), "30e5d43cbc8ce47ebf28e229d6235b60497a1dc5");
    }

    #[test]
    fn a_call_puts_values_into_arguments_only() {
        let packed = call("EVALSHA", "abc", &["k'"], &["o\r\n"]).get_packed_command();
        let text = String::from_utf8(packed).unwrap();
        assert_eq!(
            text,
            "*5\r\n$7\r\nEVALSHA\r\n$3\r\nabc\r\n$1\r\n1\r\n$2\r\nk'\r\n$3\r\no\r\n\r\n"
        );
    }
}
