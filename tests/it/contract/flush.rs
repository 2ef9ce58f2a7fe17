//! What only a server of one's own can show: FLUSHALL and SCRIPT FLUSH.

use super::fencing::next;
use super::place::Place;
use crate::support::{Server, unique_prefix};

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
