//! A lock that is handed to a process whose server is far away.

use redlock::Redlock;

use crate::support::{Proxy, Server, eventually, ms, secs, time_passes, unique_prefix};

/// A round trip is longer than a short lease has for one renewal.
#[tokio::test]
async fn a_body_outlasts_the_claim_window_also_where_replies_take_long() {
    let server = Server::shared().await;
    let (proxy, prefix, raw) = (Proxy::start(server), unique_prefix(), server.raw());
    let client = |url| Redlock::builder().url(url).prefix(&prefix).expire(secs(5)).build();
    let (near, far) = (client(server.url()).await.unwrap(), client(proxy.url()).await.unwrap());
    proxy.delay_requests(ms(25));
    proxy.delay_replies(ms(25));
    let mut outcomes = Vec::new();
    for _ in 0..6 {
        let holder = near.lock("k").wait(secs(20)).acquire().await.unwrap();
        let next = tokio::spawn(far.lock("k").wait(secs(20)).run(time_passes(ms(700))));
        let queue = format!("{{{prefix}k}}:queue");
        eventually(secs(20), || async { raw.int(&["LLEN", &queue]).await == 1 }).await;
        holder.release().await.unwrap();
        outcomes.push(next.await.unwrap());
    }
    let held = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    // A machine that is too busy may miss one.
    assert!(held >= 5, "{outcomes:?}");
}
