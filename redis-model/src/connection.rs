//! The server as a connection of the Redis client: its answers are there at once.

use std::future::ready;

use deadpool_redis::redis::aio::ConnectionLike;
use deadpool_redis::redis::{
    Arg, Cmd, Pipeline, RedisFuture, RedisResult, Value, parse_redis_value,
};

use crate::reply::Reply;
use crate::server::Server;

impl Server {
    fn answer(&mut self, command: &Cmd) -> RedisResult<Value> {
        let words = command.args_iter().map(|word| match word {
            Arg::Simple(word) => word,
            // The cursor of a scan, which the model does not know.
            _ => b"",
        });
        value(self.execute(&words.collect::<Vec<_>>()))
    }
}

/// The reply as the client reads it.
fn value(reply: Reply) -> RedisResult<Value> {
    Ok(match reply {
        Reply::Nil => Value::Nil,
        Reply::Status(text) if text == "OK" => Value::Okay,
        Reply::Status(text) => Value::SimpleString(text),
        Reply::Error(text) => return parse_redis_value(format!("-{text}\r\n").as_bytes()),
        Reply::Int(number) => Value::Int(number),
        Reply::Bulk(text) => Value::BulkString(text),
        Reply::Array(items) => {
            Value::Array(items.into_iter().map(value).collect::<RedisResult<_>>()?)
        }
    })
}

impl ConnectionLike for Server {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(ready(self.answer(command)))
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        _: usize,
        _: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        let answers = pipeline.cmd_iter().map(|command| self.answer(command)).collect();
        Box::pin(ready(answers))
    }

    fn get_db(&self) -> i64 {
        0
    }
}
