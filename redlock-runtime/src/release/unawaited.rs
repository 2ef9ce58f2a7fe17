//! Sends the releases that nobody awaits.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::inline_release::{inline, patience};
use super::reaper::{UNAWAITED, Unawaited, UnawaitedRelease, add};
use super::release_future::ReleaseFuture;
use super::task::ReleaseTask;
use crate::backend::{Departures, LockBackend};
use crate::clock::{Clock, Moment};
use crate::mutex::Mutex;
use crate::thread_exit::Unsent;

/// How many earlier releases a new release polls: more than one, so that their number falls.
const REAPED: usize = 2;

/// Sends one release over `route`, and completes it in the background. When the returned future is
/// ready, the command has left.
pub(crate) fn unawaited(task: ReleaseTask, route: &Arc<dyn LockBackend>) -> ReleaseFuture {
    let (tells_over, over) = oneshot::channel();
    let process = task.engine.process;
    let now = Clock::Boot.now();
    let sent = send(task.unawaited(), Arc::clone(route), tells_over, now);
    if let Some(sent) = sent
        && let Ok(unawaited) = UNAWAITED.of(process, Mutex::default)
    {
        poll_oldest(unawaited, sent, now);
    }
    let departures = route.abilities().departures;
    let departure = departures.and_then(Departures::next_departure);
    ReleaseFuture::Leaving { departure, over }
}

/// Sends a release `now`. `None`: it is over.
fn send(
    mut task: ReleaseTask,
    route: Arc<dyn LockBackend>,
    over: oneshot::Sender<()>,
    now: Moment,
) -> Option<UnawaitedRelease> {
    // The end of this thread waits for the answer, or until the background has the release.
    task.unsent = Some(Unsent::here());
    let deadline = now.plus(patience(&task.engine));
    let release = Box::pin(inline(task, route, now));
    let mut sent = UnawaitedRelease::new(release, deadline, over);
    (!sent.poll_once(now)).then_some(sent)
}

/// Adds a release that was sent `now`, and polls the oldest ones. Where releases follow each other,
/// earlier ones have been answered meanwhile. Ending them here costs less than on the background
/// thread: their state is in this core's cache.
fn poll_oldest(unawaited: &'static Mutex<Unawaited>, sent: UnawaitedRelease, now: Moment) {
    let mut oldest: [_; REAPED] = add(unawaited, |releases| {
        let oldest = std::array::from_fn(|_| releases.pop_front());
        releases.push_back(sent);
        oldest
    });
    for place in &mut oldest {
        if place.as_mut().is_some_and(|release| !release.poll_once(now)) {
            break;
        }
        *place = None;
    }
    if oldest.iter().any(Option::is_some) {
        add(unawaited, |releases| {
            // One by one: there may be hundreds after them, which stay where they are.
            for release in oldest.into_iter().flatten().rev() {
                releases.push_front(release);
            }
        });
    }
}
