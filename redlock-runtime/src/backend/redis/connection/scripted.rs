//! A connection with predefined answers, for unit tests.

use std::collections::VecDeque;
use std::sync::Arc;

use deadpool_redis::redis;
use deadpool_redis::redis::aio::ConnectionLike;
use deadpool_redis::redis::{Arg, Cmd, Pipeline, RedisFuture, RedisResult, Value};

use super::identified_source::IdentifiedSource;
use super::source::Source;
use crate::backend::redis::health::ServerIdentity;
use crate::backend::redis::pubsub::broken;
use crate::clock::Moment;
use crate::mutex::Mutex;

/// The rest of a connection over which a test sends single commands only.
macro_rules! single_commands {
    () => {
        fn req_packed_commands<'a>(
            &'a mut self,
            _: &'a deadpool_redis::redis::Pipeline,
            _: usize,
            _: usize,
        ) -> deadpool_redis::redis::RedisFuture<'a, Vec<deadpool_redis::redis::Value>> {
            unreachable!("no pipeline is sent")
        }

        fn get_db(&self) -> i64 {
            0
        }
    };
}
pub(crate) use single_commands;

/// Gives these answers, as the protocol encodes them, one to each command.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scripted {
    answers: VecDeque<String>,
    asked: Vec<String>,
}

impl Scripted {
    pub(crate) fn new<const N: usize>(answers: [&str; N]) -> Self {
        Self { answers: answers.map(str::to_owned).into(), asked: Vec::new() }
    }

    /// The commands that came.
    pub(crate) fn asked(&self) -> Vec<&str> {
        self.asked.iter().map(String::as_str).collect()
    }

    pub(super) fn answer(&mut self, command: &Cmd) -> RedisResult<Value> {
        let words = command.args_iter().map(|word| match word {
            Arg::Simple(word) => String::from_utf8_lossy(word).into_owned(),
            other => format!("{other:?}"),
        });
        self.asked.push(words.collect::<Vec<_>>().join(" "));
        value(&self.answers.pop_front().expect("an answer to every command"))
    }
}

/// An answer of the server, as the client decodes it.
pub(crate) fn value(answer: &str) -> RedisResult<Value> {
    redis::parse_redis_value(format!("{answer}\r\n").as_bytes())
}

/// A source whose servers are not asked who they are.
pub(crate) fn unidentified<S: Source>(source: S) -> Arc<IdentifiedSource<S>> {
    let identity = Arc::new(ServerIdentity::new("n".to_owned(), None));
    identity.info_denial.denied(Moment::NEVER);
    Arc::new(IdentifiedSource::new(source, "n".into(), &identity))
}

/// A text of the server.
pub(crate) fn bulk(text: &str) -> String {
    format!("${}\r\n{text}", text.len())
}

/// Each connection gives all of the answers.
impl Source for Scripted {
    type Connection = Self;

    async fn connect(&self) -> RedisResult<Self> {
        Ok(self.clone())
    }
}

impl ConnectionLike for Scripted {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        let answer = self.answer(command);
        Box::pin(async { answer })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        _: usize,
        _: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        let answers = pipeline.cmd_iter().map(|command| self.answer(command)).collect();
        Box::pin(async { answers })
    }

    fn get_db(&self) -> i64 {
        0
    }
}

/// A server that gives these answers to scripts, over whichever connection. An empty one: the
/// connection breaks.
#[derive(Clone)]
pub(crate) struct InTurn(Arc<Mutex<VecDeque<&'static str>>>);

impl InTurn {
    pub(crate) fn new<const N: usize>(answers: [&'static str; N]) -> Self {
        Self(Arc::new(Mutex::new(answers.into())))
    }

    /// How many answers are left.
    pub(crate) fn left(&self) -> usize {
        self.0.lock().len()
    }
}

impl Source for InTurn {
    type Connection = Self;

    async fn connect(&self) -> RedisResult<Self> {
        Ok(self.clone())
    }
}

impl ConnectionLike for InTurn {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        let is_script = matches!(command.args_iter().next(), Some(Arg::Simple(b"EVALSHA")));
        let answer = match self.0.lock().pop_front().filter(|_| is_script) {
            Some("") => Err(broken()),
            Some(answer) => value(answer),
            None => unreachable!("no further command is sent"),
        };
        Box::pin(async { answer })
    }

    single_commands!();
}
