//! What commands that come late leave behind is taken away again.

use redlock::{Redlock, Released, Wait};

use crate::fault_kit::{LONG, client};
use crate::support::proxy::{Then, command, contains};
use crate::support::{Proxy, Server, eventually, ms, secs, time_passes, unique_prefix};

const ACQUIRE: &str = script!("acquire.lua");

/// A server that has forgotten its scripts is asked three times until it grants a lock again, and
/// the release comes in between.
#[tokio::test]
async fn a_node_that_is_won_back_while_its_owner_lets_go_is_freed() {
    let (first, second, third) = tokio::join!(Server::start(), Server::start(), Server::start());
    let proxy = Proxy::start(&third);
    let prefix = unique_prefix();
    let builder = Redlock::builder().urls([first.url(), second.url(), proxy.url()]);
    let redlock = builder.prefix(&*prefix).restart_guard(false).build().await.unwrap();
    let guard = redlock.lock("k").expire(secs(12)).acquire().await.unwrap();
    let (raw, key) = (third.raw(), format!("{prefix}k"));
    eventually(LONG, || async { raw.get(&key).await.is_some() }).await;
    raw.cmd(&["SCRIPT", "FLUSH"]).await;
    raw.del(&key).await;
    proxy.delay_requests(ms(100));
    proxy.delay_replies(ms(100));
    // Of three keys: an acquire.
    let asks = proxy.when(contains("$1\r\n3\r\n"), Then::call(|| ()));
    asks.fired().await;
    let asks_again = proxy.when(contains("acquire: takes a free lock"), Then::call(|| ()));
    assert_eq!(guard.release().await, Ok(Released::Released));
    asks_again.fired().await;
    time_passes(ms(300)).await;
    eventually(secs(3), || async { raw.get(&key).await.is_none() }).await;
}

/// Its connection broke, and it was repeated on another one.
#[tokio::test]
async fn a_first_try_that_lands_after_the_release_does_not_keep_the_lock() {
    let server = Server::shared().await;
    let proxy = Proxy::start(server);
    let (redlock, prefix) = client(&proxy.url()).await;
    drop(redlock.lock("warm").acquire().await.unwrap().release().await);
    let hits = proxy.when(command(&["EVALSHA"]), Then::CutRequest);
    let request = redlock.lock("k").expire(secs(60)).wait(Wait::Never);
    let guard = request.acquire().await.unwrap();
    assert_eq!(hits.count(), 1);
    let (raw, key, owner) = (server.raw(), format!("{prefix}k"), guard.owner().to_owned());
    assert_eq!(guard.release().await, Ok(Released::Released));
    let mark = raw.keys(&format!("{prefix}*:mark:fence")).await.remove(0);
    let counter = format!("{{{key}}}:fence");
    let late = ["EVAL", ACQUIRE, "3", &key, &mark, &counter, &owner, "60000", "70000"];
    raw.cmd(&late).await;
    assert_eq!(raw.get(&key).await, Some(owner));
    eventually(secs(9), || async { raw.get(&key).await.is_none() }).await;
}
