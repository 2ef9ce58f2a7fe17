//! A script that the server does not know yet: it is sent as text.

use std::borrow::Cow;

use deadpool_redis::redis;
use deadpool_redis::redis::aio::ConnectionLike;
use deadpool_redis::redis::{Arg, Cmd, RedisResult, Value};

use super::{Invocation, WORDS_AHEAD};

#[cfg(any(test, feature = "_operator"))]
impl super::Script {
    pub(crate) fn text(&self) -> &'static str {
        self.text
    }
}

impl Invocation {
    /// The first of its keys.
    pub(crate) fn key(&self) -> Cow<'_, str> {
        match self.by_digest.args_iter().nth(WORDS_AHEAD) {
            Some(Arg::Simple(key)) => String::from_utf8_lossy(key),
            _ => Cow::Borrowed(""),
        }
    }

    /// Sends the text of the script. Its follower is probably unknown to the server too, so it is
    /// loaded first: later it would take two round trips, and the caller's next command would
    /// overtake it.
    pub(super) async fn introduce(
        &self,
        connection: &mut (impl ConnectionLike + Send),
    ) -> RedisResult<Value> {
        if let Some(follower) = self.follower() {
            // The answer does not matter.
            let _ = follower.run_text(connection).await;
        }
        self.run_text(connection).await
    }

    /// The follower of the script. Called without an owner, it does nothing.
    pub(crate) fn follower(&self) -> Option<Self> {
        let key = self.key();
        Some(Self::new(self.script.follower?, &[&*key], &[]))
    }

    /// Runs the script in one command, whether the server knows it or not.
    pub(crate) async fn run_text(
        &self,
        connection: &mut (impl ConnectionLike + Send),
    ) -> RedisResult<Value> {
        self.by_text().query_async(connection).await
    }

    pub(super) fn by_text(&self) -> Cmd {
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
