//! A planned failover behind one address: another server is the master from one moment to the next,
//! and no connection breaks.

use redlock::{LeaseState, Redlock};

use crate::support::proxy::{Then, command};
use crate::support::{Masters, Proxy, eventually, secs, unique_prefix};

/// The connection for renewals leads to the old server, where the lock never was.
#[tokio::test]
async fn a_lock_is_not_lost_by_what_an_older_connection_says() {
    let masters = Masters::start(2).await;
    let proxy = Proxy::start(&masters[0]);
    let builder = Redlock::builder().url(proxy.url()).prefix(unique_prefix()).expire(secs(3));
    let redlock = builder.build().await.unwrap();
    drop(redlock.lock("warm").acquire().await.unwrap().release().await);
    proxy.lead_to(&masters[1]);
    let hits = proxy.when(command(&["EVALSHA"]), Then::CutRequest);
    let guard = redlock.lock("k").acquire().await.unwrap();
    assert_eq!(hits.count(), 1);
    assert!(masters[1].raw().get(guard.redis_key()).await.is_some(), "acquired at the new master");
    let is_renewed = || async { if guard.renewals() > 0 { Ok(()) } else { Err(guard.state()) } };
    eventually(secs(20), is_renewed).await;
    assert_eq!(guard.state(), LeaseState::Held);
    assert!(masters[1].raw().get(guard.redis_key()).await.is_some());
}
