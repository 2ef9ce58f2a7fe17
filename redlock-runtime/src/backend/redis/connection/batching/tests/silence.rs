//! A connection that is silent is kept for nobody who has gone.

use tokio::runtime::Handle;

use super::*;
use crate::backend::redis::connection::batching::batches::INTRODUCTION;

/// A silent connection is not kept for callers that have gone.
#[tokio::test]
async fn a_batch_ends_with_its_last_caller() {
    let crowd = Crowd::new();
    let calls = [crowd.acquire("a"), crowd.acquire("b")];
    crowd.settle().await;
    let _silent = crowd.wire.command();
    let held = || Arc::strong_count(crowd.connection.batches.as_ref().unwrap());
    let before = held();
    calls.iter().for_each(Call::abort);
    crowd.settle().await;
    assert_eq!(before - held(), calls.len() * 2 + 1, "each call has a clone and a place");
}

/// Neither for a release that its batch has left out, nor to tell the server the script.
#[tokio::test(start_paused = true)]
async fn a_silent_connection_is_not_kept_for_what_follows_a_batch() {
    for answer in [all(" -", &[]), "-NOSCRIPT No matching script".to_owned()] {
        let crowd = Crowd::new();
        let call = crowd.release("a");
        crowd.settle().await;
        crowd.wire.command().answer(&answer);
        crowd.settle().await;
        let _silent = crowd.wire.command();
        assert!(Handle::current().metrics().num_alive_tasks() > 1);
        call.abort();
        tokio::time::sleep(2 * INTRODUCTION).await;
        assert_eq!(Handle::current().metrics().num_alive_tasks(), 0, "{answer}");
    }
}
