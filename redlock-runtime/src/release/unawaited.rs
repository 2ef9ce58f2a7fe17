//! Sends the releases that nobody awaits.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::awaited::awaited_for_a_while;
use super::background::in_background;
use super::inline_release::{inline, patience};
use super::reaper::{UnawaitedRelease, keep};
use super::release_future::ReleaseFuture;
use super::task::ReleaseTask;
use crate::backend::{Departures, LockBackend};
use crate::clock::Clock;
use crate::thread_exit::Unsent;

/// Sends a release, whose answer the background awaits. `Some`: ready once the command has left, or
/// was answered. `None`: the background thread sends it. `may_wait`: the caller can await the
/// future. Otherwise its runtime may end as soon as the call returns, and the background thread
/// sends the release.
pub(crate) fn unawaited(task: ReleaseTask, may_wait: bool) -> Option<ReleaseFuture> {
    let may_send = may_wait && !task.engine.is_embedded();
    let Some(route) = task.engine.route().filter(|_| may_send) else {
        in_background(task);
        return None;
    };
    let departures = route.abilities().departures;
    if departures.is_some_and(|departures| !departures.has_room(task.request().may_join())) {
        return Some(awaited_for_a_while(task, route));
    }
    Some(send(task, &route))
}

/// Sends one release over `route`, and completes it in the background. When the returned future is
/// ready, the command has left.
fn send(mut task: ReleaseTask, route: &Arc<dyn LockBackend>) -> ReleaseFuture {
    let (tells_over, over) = oneshot::channel();
    let (process, now) = (task.engine.process, Clock::Boot.now());
    task.under_way.leaves();
    // The end of this thread waits for the answer, or until the background has the release.
    task.unsent = Some(Unsent::here());
    let deadline = now.plus(patience(&task.engine));
    let release = Box::pin(inline(task, Arc::clone(route), now));
    let mut sent = UnawaitedRelease::new(release, deadline, tells_over);
    if sent.poll_once(now) {
        drop(sent);
    } else {
        keep(process, sent, now);
    }
    let departure = route.abilities().departures.and_then(Departures::next_departure);
    ReleaseFuture::Leaving { departure, over }
}
