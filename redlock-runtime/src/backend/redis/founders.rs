//! Reads and writes the list of founders of a group of servers (`quorum/founders.rs`): a plain key.

use deadpool_redis::redis;
use deadpool_redis::redis::aio::ConnectionLike;
use deadpool_redis::redis::{ErrorKind, RedisError, RedisResult, Value};

use crate::backend::FoundersOffer;
use crate::backend::redis::commands::reply;

/// The value of `key`, after `offer` was written, and the server's time, in microseconds. One round
/// trip.
pub(crate) async fn call(
    connection: &mut (impl ConnectionLike + Send),
    key: &str,
    offer: Option<&FoundersOffer>,
) -> RedisResult<(Option<String>, i64)> {
    let mut pipe = redis::pipe();
    if let Some(FoundersOffer { founders, life, replaces, .. }) = offer {
        let life = u64::try_from(life.as_millis()).unwrap_or(u64::MAX);
        pipe.cmd("SET").arg(key).arg(founders).arg("PX").arg(life);
        if *replaces {
            pipe.ignore();
        } else {
            pipe.arg("NX").ignore().cmd("PEXPIRE").arg(key).arg(life).ignore();
        }
    }
    pipe.cmd("GET").arg(key).cmd("TIME");
    let answers: RedisResult<(Option<String>, Value)> = pipe.query_async(connection).await;
    let (founders, time) = answers.map_err(first)?;
    let micros = reply::time(&time).ok_or_else(|| {
        RedisError::from((ErrorKind::UnexpectedReturnType, "TIME was answered oddly"))
    })?;
    Ok((founders, micros))
}

/// The first error of a server: the error of the whole pipeline has no code, and would look like a
/// refusal.
pub(crate) fn first(error: RedisError) -> RedisError {
    match error.clone().into_server_errors().as_deref() {
        Some([(_, said), ..]) => said.clone().into(),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::backend::redis::connection::{Scripted, bulk};

    fn offer(replaces: bool) -> FoundersOffer {
        let (founders, life) = ("a c".to_owned(), Duration::from_secs(2));
        FoundersOffer { run_id: None, founders, life, replaces }
    }

    const TIME: &str = "*2\r\n$2\r\n17\r\n$1\r\n4";

    #[tokio::test]
    async fn a_list_is_written_where_nothing_stands_or_always_and_read() {
        let mut server = Scripted::new([&bulk("a b"), TIME]);
        let answer = call(&mut server, "founders", None).await.unwrap();
        assert_eq!(answer, (Some("a b".to_owned()), 17_000_004));
        assert_eq!(server.asked(), ["GET founders", "TIME"]);

        let mut server = Scripted::new(["$-1", ":1", &bulk("a b"), TIME]);
        let asked = call(&mut server, "founders", Some(&offer(false))).await.unwrap();
        assert_eq!(asked, (Some("a b".to_owned()), 17_000_004));
        let commands =
            ["SET founders a c PX 2000 NX", "PEXPIRE founders 2000", "GET founders", "TIME"];
        assert_eq!(server.asked(), commands);

        let mut server = Scripted::new(["+OK", &bulk("a c"), TIME]);
        call(&mut server, "founders", Some(&offer(true))).await.unwrap();
        assert_eq!(server.asked(), ["SET founders a c PX 2000", "GET founders", "TIME"]);
    }

    /// Busy, out of memory, without replicas: some of these errors are temporary.
    #[tokio::test]
    async fn an_error_in_the_pipeline_keeps_its_code() {
        for (code, answer) in
            [("BUSY", "-BUSY a script"), ("NOREPLICAS", "-NOREPLICAS few"), ("ERR", "-ERR odd")]
        {
            let mut server = Scripted::new([answer, "-LOADING", TIME]);
            let error = call(&mut server, "founders", Some(&offer(true))).await.unwrap_err();
            assert_eq!(error.code(), Some(code));
        }
        let mut server = Scripted::new(["$-1", "+soon"]);
        let error = call(&mut server, "founders", None).await.unwrap_err();
        assert_eq!((error.kind(), error.code()), (ErrorKind::UnexpectedReturnType, None));
    }
}
