//! `release`: free when the call returns, or one round trip earlier.

use std::error::Error;

use redlock::{Lease, LockError, Redlock, redis_lock};

use crate::clients::{client, raw};
use crate::support::{Proxy, Server, eventually, ms, secs, unique_prefix};

#[redis_lock(key = "k", client = redlock, release = "await")]
async fn awaited(redlock: &Redlock, cut: Option<&Proxy>) -> Result<String, LockError> {
    if let Some(proxy) = cut {
        proxy.black_hole();
    }
    Ok(Lease::current().unwrap().redis_key().to_owned())
}

#[redis_lock(key = "k", client = redlock, release = "background")]
async fn spelled_out(redlock: &Redlock, cut: &Proxy) -> Result<String, LockError> {
    cut.black_hole();
    Ok(Lease::current().unwrap().redis_key().to_owned())
}

#[redis_lock(key = "k", client = redlock)]
async fn background(redlock: &Redlock, cut: &Proxy) -> Result<String, LockError> {
    cut.black_hole();
    Ok(Lease::current().unwrap().redis_key().to_owned())
}

/// An output that is not `Send`.
#[redis_lock(key = "k", client = redlock)]
async fn local(redlock: &Redlock, cut: &Proxy) -> Result<String, Box<dyn Error>> {
    cut.black_hole();
    Ok(Lease::current().unwrap().redis_key().to_owned())
}

/// A client that talks through a proxy, patiently.
async fn through_proxy() -> (Redlock, Proxy) {
    let proxy = Proxy::start(Server::shared().await);
    let builder = Redlock::builder().url(proxy.url()).prefix(unique_prefix());
    (builder.reply_timeout(secs(30)).build().await.unwrap(), proxy)
}

#[tokio::test]
async fn an_awaited_release_is_done_when_the_call_returns() {
    let redlock = client().await;
    let raw = raw().await;
    for _ in 0..50 {
        let key = awaited(&redlock, None).await.unwrap();
        assert_eq!(raw.get(&key).await, None);
    }
}

#[tokio::test]
async fn an_awaited_release_keeps_the_call_until_it_is_answered() {
    let (redlock, proxy) = through_proxy().await;
    let mut call = Box::pin(awaited(&redlock, Some(&proxy)));
    tokio::time::timeout(ms(200), &mut call).await.expect_err("its release is on the way");
    proxy.pass();
    let key = tokio::time::timeout(secs(20), call).await.expect("answered").unwrap();
    assert_eq!(raw().await.get(&key).await, None);
}

#[tokio::test]
async fn a_background_release_does_not_keep_the_call() {
    let (redlock, proxy) = through_proxy().await;
    let key = tokio::time::timeout(secs(20), background(&redlock, &proxy)).await;
    assert_free_once_healed(&proxy, &key.expect("nothing is awaited").unwrap()).await;
    let key = tokio::time::timeout(secs(20), spelled_out(&redlock, &proxy)).await;
    assert_free_once_healed(&proxy, &key.expect("nothing is awaited").unwrap()).await;
}

#[tokio::test]
async fn an_output_that_is_not_send_is_released_in_the_background() {
    let (redlock, proxy) = through_proxy().await;
    let key = tokio::time::timeout(secs(20), local(&redlock, &proxy)).await;
    assert_free_once_healed(&proxy, &key.expect("nothing is awaited").unwrap()).await;
}

async fn assert_free_once_healed(proxy: &Proxy, key: &str) {
    let raw = raw().await;
    assert!(raw.get(key).await.is_some(), "the release is on the way");
    proxy.pass();
    eventually(secs(10), || async { raw.get(key).await.is_none() }).await;
}

/// Dropped while the release is awaited: the output is lost, the release is not.
#[tokio::test]
async fn a_call_dropped_during_its_release_releases_all_the_same() {
    let (redlock, proxy) = through_proxy().await;
    let mut call = Box::pin(awaited(&redlock, Some(&proxy)));
    tokio::time::timeout(ms(200), &mut call).await.expect_err("its release is on the way");
    drop(call);
    assert!(redlock.held().is_empty());
    proxy.pass();
    assert_eq!(redlock.shutdown(secs(20)).await, 0);
    drop(client().await.lock("k").acquire().await.unwrap());
    assert!(redlock.lock("k").try_acquire().await.unwrap().is_some(), "it is free");
}
