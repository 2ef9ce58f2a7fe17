//! What only a server of one's own can show: FLUSHALL and SCRIPT FLUSH.

use redlock::LostReason;

use super::fencing::next;
use super::place::{KEY, Place};
use crate::support::{Server, secs, unique_prefix};

#[tokio::test]
async fn fencing_tokens_grow_after_flushall() {
    let server = Server::start().await;
    let place = Place::redis(server.url(), unique_prefix());
    let client = place.client().await;
    let mut last = next(&client).await;
    for command in [&["FLUSHALL"][..], &["SCRIPT", "FLUSH"], &["FLUSHALL", "ASYNC"]] {
        server.raw().cmd(command).await;
        let fencing_token = next(&client).await;
        assert!(fencing_token > last, "{command:?}: {fencing_token} after {last}");
        last = fencing_token;
    }
}

#[tokio::test]
async fn flushall_is_a_loss_that_the_holder_hears_of() {
    let server = Server::start().await;
    let place = Place::redis(server.url(), unique_prefix());
    let client = place.client().await;
    let guard = client.lock(KEY).expire(secs(2)).acquire().await.unwrap();
    server.raw().cmd(&["FLUSHALL"]).await;
    let lost = tokio::time::timeout(secs(10), guard.lost()).await.expect("it is told");
    assert_eq!(lost, LostReason::Expired);
}
