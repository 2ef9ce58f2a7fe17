//! A scripted reply reaches the client as the error it is, and the command is not executed.

use deadpool_redis::redis::{self, Client, RedisResult};

use crate::support::scripted::{self, CODED, Scripted};
use crate::support::{Server, unique_prefix};

async fn incr(scripted: &Scripted, key: &str) -> RedisResult<i64> {
    let client = Client::open(scripted.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await?;
    redis::cmd("INCR").arg(key).query_async(&mut connection).await
}

#[tokio::test]
async fn every_error_reply_arrives_with_its_code_and_executes_nothing() {
    let server = Server::shared().await;
    let scripted = Scripted::start(server);
    let key = unique_prefix();
    for reply in CODED {
        let hits = scripted.answer_next(&["SET", "INCR"], *reply);
        let error = incr(&scripted, &key).await.expect_err(reply.name);
        assert_eq!(error.code(), Some(reply.name), "{error}");
        assert_eq!(hits.count(), 1);
    }
    assert_eq!(incr(&scripted, &key).await, Ok(1), "none of them was executed");
}

#[tokio::test]
async fn scripted_and_real_replies_keep_their_order() {
    let server = Server::shared().await;
    let scripted = Scripted::start(server);
    let client = Client::open(scripted.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    scripted.answer_times(2, &["TIME"], scripted::NIL);
    let mut pipe = redis::pipe();
    pipe.cmd("ECHO").arg(1).cmd("TIME").cmd("ECHO").arg(2).cmd("TIME").cmd("ECHO").arg(3);
    let replies: Vec<Option<i32>> = pipe.query_async(&mut connection).await.unwrap();
    assert_eq!(replies, [Some(1), None, Some(2), None, Some(3)]);
}

#[tokio::test]
async fn a_replaced_reply_hides_what_was_executed() {
    let server = Server::shared().await;
    let scripted = Scripted::start(server);
    let key = unique_prefix();
    scripted.replace_next(&["INCR"], scripted::LOADING);
    let error = incr(&scripted, &key).await.expect_err("the reply is replaced");
    assert_eq!(error.code(), Some("LOADING"));
    assert_eq!(incr(&scripted, &key).await, Ok(2), "it was executed");
}

#[tokio::test]
async fn a_refusal_and_garbage_end_the_connection() {
    let server = Server::shared().await;
    let scripted = Scripted::start(server);
    let key = unique_prefix();
    for reply in [scripted::MAX_CLIENTS, scripted::GARBAGE] {
        let hits = scripted.answer_always(&["INCR"], reply);
        incr(&scripted, &key).await.expect_err(reply.wire);
        assert_eq!(hits.count(), 1);
        scripted.proxy.pass();
    }
    scripted.answer_next(&["INCR"], scripted::WRONG_SHAPE);
    incr(&scripted, &key).await.expect_err("an array is no number");
    assert_eq!(incr(&scripted, &key).await, Ok(1), "none of them was executed");
}
