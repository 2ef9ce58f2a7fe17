//! Clients of several masters, and a lock that some of the masters do not have.

use redlock::{LockError, LockGuard, Redlock, RedlockBuilder, Wait};

use crate::support::{Proxy, Server, secs};

pub fn on(urls: impl IntoIterator<Item = String>, prefix: &str) -> RedlockBuilder {
    // A busy machine may take its time.
    Redlock::builder().urls(urls).prefix(prefix).reply_timeout(secs(20))
}

/// Asks once for the lock that is called `k`.
pub async fn attempt(redlock: &Redlock) -> Result<LockGuard, LockError> {
    redlock.lock("k").expire(secs(50)).wait(Wait::Never).acquire().await
}

/// Holds that lock on the first masters: what is sent to the last ones, `away` of them, gets lost.
pub async fn hold_without(
    away: usize,
    masters: &[Server],
    prefix: &str,
) -> (LockGuard, Vec<Proxy>) {
    let (near, far) = masters.split_at(masters.len() - away);
    let proxies: Vec<Proxy> = far.iter().map(Proxy::start).collect();
    let urls = near.iter().map(Server::url).chain(proxies.iter().map(Proxy::url));
    let redlock = on(urls, prefix).build().await.unwrap();
    for proxy in &proxies {
        proxy.drop_requests();
    }
    let guard = redlock.lock("k").expire(secs(50)).wait(secs(60)).acquire().await.unwrap();
    (guard, proxies)
}
