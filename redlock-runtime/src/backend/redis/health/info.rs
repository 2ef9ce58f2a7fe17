//! Reads the answer to INFO.

use deadpool_redis::redis::{self, FromRedisValue, ParsingError, Value};

/// The answer to INFO. It names files of the server, whose names need not be UTF-8.
#[derive(Debug, Default)]
#[cfg_attr(not(feature = "_operator"), expect(unreachable_pub, reason = "`redlock-cli` has it"))]
pub struct InfoText(pub String);

impl FromRedisValue for InfoText {
    fn from_redis_value(answer: Value) -> Result<Self, ParsingError> {
        match answer {
            Value::BulkString(bytes) => Ok(Self(String::from_utf8_lossy(&bytes).into_owned())),
            other => redis::from_redis_value(other).map(Self),
        }
    }
}

pub(crate) fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// `standalone`, `cluster` or `sentinel`. Valkey tells it by a name of its own.
pub(crate) fn mode(info: &str) -> Option<&str> {
    field(info, "redis_mode").or_else(|| field(info, "server_mode"))
}
