//! Reads and writes the roll of a group of servers (`quorum/roll.rs`): a plain key.

use std::time::Duration;

use deadpool_redis::redis::aio::ConnectionLike;
use deadpool_redis::redis::{self, ErrorKind, RedisError, RedisResult, Value};

use super::reply;

/// What stands in `key`, after an `offer` was written where nothing stood; and the server's time,
/// in microseconds. One round trip.
pub(super) async fn call(
    connection: &mut (impl ConnectionLike + Send),
    key: &str,
    offer: Option<(&str, Duration)>,
) -> RedisResult<(Option<String>, i64)> {
    let mut pipe = redis::pipe();
    if let Some((roll, life)) = offer {
        let life = u64::try_from(life.as_millis()).unwrap_or(u64::MAX);
        pipe.cmd("SET").arg(key).arg(roll).arg("NX").arg("PX").arg(life).ignore();
    }
    pipe.cmd("GET").arg(key).cmd("TIME");
    let (roll, time): (Option<String>, Value) = pipe.query_async(connection).await?;
    let micros = reply::time(&time).ok_or_else(|| {
        RedisError::from((ErrorKind::UnexpectedReturnType, "TIME was answered oddly"))
    })?;
    Ok((roll, micros))
}
