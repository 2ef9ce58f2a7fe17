//! Reads and writes the list of founders of a group of servers (`quorum/founders.rs`): a plain key.

use std::time::Duration;

use deadpool_redis::redis;
use deadpool_redis::redis::aio::ConnectionLike;
use deadpool_redis::redis::{ErrorKind, RedisError, RedisResult, Value};

use crate::backend::redis::commands::reply;
use crate::backend::{FormerList, FoundersList, FoundersOffer};

/// The list in `key`, after `offer` was written, and the server's time, in microseconds. One round
/// trip.
pub(crate) async fn call(
    connection: &mut (impl ConnectionLike + Send),
    key: &str,
    offer: Option<&FoundersOffer>,
) -> RedisResult<(FoundersList, i64)> {
    let mut pipe = redis::pipe();
    if let Some(FoundersOffer { founders, life, former, .. }) = offer {
        let life = u64::try_from(life.as_millis()).unwrap_or(u64::MAX);
        pipe.cmd("SET").arg(key).arg(founders).arg("PX").arg(life);
        if *former != FormerList::Replaced {
            pipe.arg("NX");
        }
        pipe.ignore();
        if *former == FormerList::Prolonged {
            pipe.cmd("PEXPIRE").arg(key).arg(life).ignore();
        }
    }
    pipe.cmd("GET").arg(key).cmd("PTTL").arg(key).cmd("TIME");
    let answers: RedisResult<(Option<String>, i64, Value)> = pipe.query_async(connection).await;
    let (text, left, time) = answers.map_err(first)?;
    let micros = reply::time(&time).ok_or_else(|| {
        RedisError::from((ErrorKind::UnexpectedReturnType, "TIME was answered oddly"))
    })?;
    // It is negative where there is no list, and for a list that does not end.
    let life = Duration::from_millis(left.try_into().unwrap_or(0));
    Ok((FoundersList { text, life }, micros))
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
    use super::*;
    use crate::backend::redis::connection::{Scripted, bulk};

    fn offer(former: FormerList) -> FoundersOffer {
        let (founders, life) = ("a c".to_owned(), Duration::from_secs(2));
        FoundersOffer { run_id: None, founders, life, former }
    }

    /// What a server has that was asked for `a b`.
    fn list(life: u64) -> FoundersList {
        FoundersList { text: Some("a b".to_owned()), life: Duration::from_millis(life) }
    }

    const TIME: &str = "*2\r\n$2\r\n17\r\n$1\r\n4";

    #[tokio::test]
    async fn a_list_is_written_where_nothing_stands_or_always_and_read() {
        let read = ["GET founders", "PTTL founders", "TIME"];
        let mut server = Scripted::new([&bulk("a b"), ":1500", TIME]);
        let answer = call(&mut server, "founders", None).await.unwrap();
        assert_eq!(answer, (list(1500), 17_000_004));
        assert_eq!(server.asked(), read);

        let mut server = Scripted::new(["$-1", ":1", &bulk("a b"), ":2000", TIME]);
        let offered = offer(FormerList::Prolonged);
        let asked = call(&mut server, "founders", Some(&offered)).await.unwrap();
        assert_eq!(asked, (list(2000), 17_000_004));
        let written = ["SET founders a c PX 2000 NX", "PEXPIRE founders 2000"];
        assert_eq!(server.asked(), [&written[..], &read].concat());

        for (former, written) in [
            (FormerList::Stays, "SET founders a c PX 2000 NX"),
            (FormerList::Replaced, "SET founders a c PX 2000"),
        ] {
            let mut server = Scripted::new(["+OK", &bulk("a c"), ":2000", TIME]);
            call(&mut server, "founders", Some(&offer(former))).await.unwrap();
            assert_eq!(server.asked(), [&[written], &read[..]].concat());
        }
    }

    /// No list, and one that does not end.
    #[tokio::test]
    async fn a_life_that_is_not_told_is_none() {
        for left in [":-1", ":-2"] {
            let mut server = Scripted::new([&bulk("a b"), left, TIME]);
            assert_eq!(call(&mut server, "founders", None).await.unwrap().0, list(0), "{left}");
        }
    }

    /// Busy, out of memory, without replicas: some of these errors are temporary.
    #[tokio::test]
    async fn an_error_in_the_pipeline_keeps_its_code() {
        for (code, answer) in
            [("BUSY", "-BUSY a script"), ("NOREPLICAS", "-NOREPLICAS few"), ("ERR", "-ERR odd")]
        {
            let mut server = Scripted::new([answer, "-LOADING", "-LOADING", TIME]);
            let offered = offer(FormerList::Replaced);
            let error = call(&mut server, "founders", Some(&offered)).await.unwrap_err();
            assert_eq!(error.code(), Some(code));
        }
        let mut server = Scripted::new(["$-1", ":-2", "+soon"]);
        let error = call(&mut server, "founders", None).await.unwrap_err();
        assert_eq!((error.kind(), error.code()), (ErrorKind::UnexpectedReturnType, None));
    }
}
