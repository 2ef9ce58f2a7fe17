//! What commands that come late leave behind is taken away again.

use std::time::Instant;

use deadpool_redis::redis::Value;
use redlock::{LockGuard, Redlock, Released, Wait};

use crate::fault_kit::{LONG, client};
use crate::support::proxy::{Then, contains};
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
    let asks_again = proxy.when(contains("acquire: grants a free lock"), Then::call(|| ()));
    assert_eq!(guard.release().await, Ok(Released::Released));
    asks_again.fired().await;
    time_passes(ms(300)).await;
    eventually(secs(3), || async { raw.get(&key).await.is_none() }).await;
}

/// A lock whose first try broke off with its connection, and was repeated on another one.
struct Repeated {
    server: &'static Server,
    _proxy: Proxy,
    prefix: String,
    owner: String,
}

impl Repeated {
    async fn acquire() -> (Self, LockGuard) {
        let server = Server::shared().await;
        let proxy = Proxy::start(server);
        let (redlock, prefix) = client(&proxy.url()).await;
        drop(redlock.lock("warm").acquire().await.unwrap().release().await);
        let hits = proxy.when(contains(format!("{prefix}k\r\n")), Then::CutRequest);
        let request = redlock.lock("k").expire(secs(60)).wait(Wait::Never);
        let guard = request.acquire().await.unwrap();
        assert_eq!(hits.count(), 1);
        let owner = guard.owner().to_owned();
        (Self { server, _proxy: proxy, prefix, owner }, guard)
    }

    /// The first try arrives after all, and the lock is free again soon. `false`: this machine was
    /// so slow that nobody would wait for it any more.
    async fn first_try_lands(self) -> bool {
        let released = Instant::now();
        let (raw, key) = (self.server.raw(), format!("{}k", self.prefix));
        let mark = raw.keys(&format!("{}*:mark:fence", self.prefix)).await.remove(0);
        let counter = format!("{{{key}}}:fence");
        let late = ["EVAL", ACQUIRE, "3", &key, &mark, &counter, &self.owner, "60000", "70000"];
        // It may be freed before anybody could look.
        let reply = raw.cmd(&late).await;
        assert!(!matches!(reply, Value::Array(_)), "it is refused: {reply:?}");
        if released.elapsed() > secs(1) {
            return false;
        }
        eventually(secs(20), || async { raw.get(&key).await.is_none() }).await;
        true
    }
}

#[tokio::test]
async fn a_first_try_that_lands_after_the_release_does_not_keep_the_lock() {
    loop {
        let (lock, guard) = Repeated::acquire().await;
        assert_eq!(guard.release().await, Ok(Released::Released));
        if lock.first_try_lands().await {
            return;
        }
    }
}

#[tokio::test]
async fn a_first_try_that_lands_after_a_downgrade_does_not_keep_the_lock() {
    loop {
        let (lock, guard) = Repeated::acquire().await;
        let reader = guard.downgrade().await.unwrap();
        assert_eq!(reader.release().await, Ok(Released::Released));
        if lock.first_try_lands().await {
            return;
        }
    }
}
