//! A connection without a server: a test reads what is sent over it, and gives the replies.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use deadpool_redis::redis::aio::ConnectionLike;
use deadpool_redis::redis::{Arg, Cmd, RedisFuture, RedisResult, Value};
use tokio::sync::oneshot;

use crate::backend::redis::connection::{single_commands, value};
use crate::backend::redis::pubsub::broken;

/// A connection whose replies the test gives.
#[derive(Clone, Default)]
pub(super) struct Wire {
    sent: Arc<Mutex<VecDeque<Sent>>>,
}

/// A command that has left.
pub(super) struct Sent {
    pub(super) words: Vec<String>,
    pub(super) reply: oneshot::Sender<RedisResult<Value>>,
}

impl Wire {
    pub(super) fn command(&self) -> Sent {
        self.sent.lock().unwrap().pop_front().expect("a command has left")
    }

    pub(super) fn count(&self) -> usize {
        self.sent.lock().unwrap().len()
    }
}

impl Sent {
    pub(super) fn answer(self, answer: &str) {
        let _ = self.reply.send(value(answer));
    }

    /// The keys that it names, in their order.
    pub(super) fn keys(&self) -> Vec<&str> {
        let count: usize = self.words[2].parse().unwrap();
        self.words[3..3 + count].iter().map(String::as_str).collect()
    }
}

/// The answer to a batch: a word for each command, and the refusals.
pub(super) fn all(words: &str, refusals: &[&str]) -> String {
    let text = format!("*{}\r\n${}\r\n{words}", 1 + refusals.len(), words.len());
    [&[&*text], refusals].concat().join("\r\n")
}

impl ConnectionLike for Wire {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(async move {
            let words = command.args_iter().map(|word| match word {
                Arg::Simple(word) => String::from_utf8_lossy(word).into_owned(),
                other => format!("{other:?}"),
            });
            let (reply, answer) = oneshot::channel();
            self.sent.lock().unwrap().push_back(Sent { words: words.collect(), reply });
            answer.await.unwrap_or_else(|_| Err(broken()))
        })
    }

    single_commands!();
}
