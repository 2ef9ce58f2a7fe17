//! A poller that frees a lock asks for it anew once the release has left. In real time: the
//! background thread takes part.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::fake::client_at;
use super::fifo_queue::{Waiter, granted};
use super::server::Server;
use crate::backend::LockBackend;
use crate::backoff;
use crate::client::Redlock;
use crate::key::LockKey;
use crate::kind::Kind;
use crate::local_queue::{PollerState, QueueHandle, RestReason};
use crate::options::Wait;

const EXPIRE: Duration = Duration::from_secs(30);

/// A client that the background thread serves, and its local queue.
fn process(server: &Arc<Server>) -> (Redlock, QueueHandle) {
    let redlock = client_at(Arc::clone(server) as Arc<dyn LockBackend>, 100, false);
    let key = LockKey::new("", "k").unwrap();
    let queue = redlock.engine().local_queue(&key, Kind::Exclusive);
    (redlock, queue)
}

fn waits(redlock: &Redlock, expire: Duration) -> Waiter {
    tokio::spawn(redlock.lock("k").expire(expire).wait(Wait::Forever).acquire())
}

async fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        tokio::task::yield_now().await;
    }
}

fn rests_behind_holder(poller: PollerState) -> bool {
    matches!(poller, PollerState::Resting { why: RestReason::TakenHere, .. })
}

/// What a round shows that ends before a poller asks by the clock, however busy the machine is.
async fn in_time<T>(round: impl AsyncFn() -> T) -> T {
    loop {
        let begun = Instant::now();
        let shown = round().await;
        if begun.elapsed() < backoff::HOLDER_HERE {
            return shown;
        }
    }
}

/// The lock cannot be passed on to it.
#[tokio::test]
async fn a_waiter_that_wants_a_longer_lease_is_granted_it_by_the_first_attempt() {
    let (verbs, is_contended) = in_time(async || {
        let server = Server::new();
        let (redlock, queue) = process(&server);
        let holder = granted(waits(&redlock, EXPIRE)).await;
        let waiter = waits(&redlock, 2 * EXPIRE);
        // Before it rests, the poller may make an attempt between the end of the hold and the
        // release.
        until(|| rests_behind_holder(queue.state().poller)).await;
        server.take_log();
        holder.release().await.unwrap();
        let _guard = granted(waiter).await;
        (server.take_verbs(), queue.state().is_contended())
    })
    .await;
    assert_eq!(verbs, ["release", "acquire"]);
    assert!(!is_contended, "no other process wanted it");
}

/// The next waiter wants a longer lease than the one for which its process queued.
#[tokio::test]
async fn a_lock_that_is_handed_over_for_a_caller_that_has_gone_is_released_first() {
    let verbs = in_time(async || {
        let server = Server::new();
        let (redlock, queue) = process(&server);
        let taken = server.set("k", EXPIRE);
        let gone = waits(&redlock, EXPIRE);
        until(|| server.waiting() == 1).await;
        let next = waits(&redlock, 2 * EXPIRE);
        until(|| queue.state().waiters.len() == 2).await;
        gone.abort();
        until(|| queue.state().waiters.len() == 1).await;
        server.take_log();
        server.free(&taken);
        let _guard = granted(next).await;
        server.take_verbs()
    })
    .await;
    assert_eq!(verbs, ["release", "join"]);
}
