//! Two addresses of a group that lead to one server, which has one vote.

use crate::masters::on;
use crate::support::proxy::{Then, contains};
use crate::support::{Masters, Proxy, secs, time_passes, unique_prefix};

/// An acquire without an answer is undone, but not on the server of another address: the lock there
/// has the same owner, and is the vote of that address.
#[tokio::test]
async fn an_address_that_moves_to_another_server_of_the_group_takes_no_vote_away() {
    let masters = Masters::start(3).await;
    let proxy = Proxy::start(&masters[0]);
    let (urls, prefix) = ([proxy.url(), masters[1].url(), masters[2].url()], unique_prefix());
    let redlock = on(urls, &prefix).build().await.unwrap();
    redlock.lock("other").expire(secs(6)).run(async {}).await.unwrap();

    proxy.lead_to(&masters[1]);
    proxy.cut_all();
    let key = format!("{prefix}k");
    let unanswered = proxy.when(contains(&key), Then::LoseReply);
    let guard = redlock.lock("k").expire(secs(6)).acquire().await.unwrap();
    unanswered.fired().await;
    // One server gets an answer for a twentieth of `expire`.
    time_passes(secs(2)).await;
    assert_eq!(masters[1].raw().get(&key).await.as_deref(), Some(guard.owner()));
    guard.release().await.unwrap();
    assert_eq!(masters[1].raw().get(&key).await, None);
}
