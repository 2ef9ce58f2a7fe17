//! The reaper: completes the releases that nobody awaits, once they have been sent.

use std::collections::VecDeque;
use std::pin::{Pin, pin};
use std::sync::MutexGuard;
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::coop::unconstrained;

use super::release_future::ReleaseOutcome;
use crate::background_thread::lasting_work::{self, LastingWork};
use crate::clock::{Clock, Moment};
use crate::mutex::Mutex;
use crate::process::{PerProcess, ProcessId};
use crate::shield::shielded;
use crate::thread_exit;

/// How often the reaper checks the unawaited releases.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);
/// After how many checks in a row that find no release the reaper ends. It does not end with the
/// last release: to start it wakes the background thread, which would get in the way of a release
/// that is about to leave.
const EMPTY_CHECKS_BEFORE_END: u32 = 20;
/// How many earlier releases a new release polls: more than one, so that their number falls.
const POLLED_WITH_EACH: usize = 2;
/// A check ends after this many releases that are not answered, as a connection answers in order.
const MAX_UNANSWERED: usize = 32;
/// Each third check polls all releases: those of a slow connection may stand before those of a
/// quick one.
const FULL_CHECK_EVERY: u64 = 3;

/// The unawaited releases, in the order in which they were sent. One task for each of them on the
/// caller's runtime would cost more than the rest of the release.
static UNAWAITED: PerProcess<Mutex<Unawaited>> = PerProcess::new();

#[derive(Default)]
struct Unawaited {
    releases: VecDeque<UnawaitedRelease>,
    /// The reaper runs on the background thread.
    has_reaper: bool,
}

pub(super) struct UnawaitedRelease {
    release: Pin<Box<dyn Future<Output = ReleaseOutcome> + Send>>,
    /// From this moment on the background sends the release: the caller's runtime may have stopped.
    deadline: Moment,
    /// Dropped last, when the background has the release, or it was answered.
    _over: TellsOver,
}

impl UnawaitedRelease {
    /// `over` is closed once the release was answered, or the background has taken it.
    pub(super) fn new(
        release: Pin<Box<dyn Future<Output = ReleaseOutcome> + Send>>,
        deadline: Moment,
        over: oneshot::Sender<()>,
    ) -> Self {
        Self { release, deadline, _over: TellsOver(Some(over)) }
    }

    /// Polls the release; the first poll sends it. Returns whether the caller has to drop it: it
    /// was answered, or it is overdue, and its drop (`InlineRelease`) gives it to the background.
    pub(super) fn poll_once(&mut self, now: Moment) -> bool {
        let mut no_waker = Context::from_waker(Waker::noop());
        // The cooperative budget of the task that happens to poll must not delay it.
        let release = pin!(unconstrained(self.release.as_mut()));
        release.poll(&mut no_waker).is_ready() || now >= self.deadline
    }
}

/// Its drop tells the caller of a release that the release is over.
struct TellsOver(Option<oneshot::Sender<()>>);

impl Drop for TellsOver {
    /// Dropping the sender wakes the caller. That waker is foreign code, which may panic here, on
    /// the thread of another caller or of the reaper.
    fn drop(&mut self) {
        shielded(|| drop(self.0.take()));
    }
}

/// Adds a release that was sent `now`, and polls the oldest ones. Where releases follow each other,
/// earlier ones have been answered meanwhile. Ending them here costs less than on the background
/// thread: their state is in this core's cache.
pub(super) fn keep(process: ProcessId, sent: UnawaitedRelease, now: Moment) {
    // After too many forks there is no list: the drop of the release gives it to the background.
    if let Ok(unawaited) = UNAWAITED.of(process, Mutex::default) {
        add(unawaited, sent, now);
    }
}

fn add(unawaited: &'static Mutex<Unawaited>, sent: UnawaitedRelease, now: Moment) {
    let mut oldest: [_; POLLED_WITH_EACH] = with_releases(unawaited, |releases| {
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
        with_releases(unawaited, |releases| {
            // One by one: there may be hundreds after them, which stay where they are.
            for release in oldest.into_iter().flatten().rev() {
                releases.push_front(release);
            }
        });
    }
}

/// Changes the list of releases, and starts the reaper if it does not run.
fn with_releases<T>(
    unawaited: &'static Mutex<Unawaited>,
    change: impl FnOnce(&mut VecDeque<UnawaitedRelease>) -> T,
) -> T {
    let (result, has_reaper) = {
        let mut unawaited = unawaited.lock();
        let result = change(&mut unawaited.releases);
        (result, std::mem::replace(&mut unawaited.has_reaper, true))
    };
    // Without a background thread, the releases stay in the list for the next unawaited release.
    if !has_reaper {
        let _ = lasting_work::spawn(Reaper { unawaited, is_done: false });
    }
    result
}

/// If it panics, or is not started, the next unawaited release starts another one.
struct Reaper {
    unawaited: &'static Mutex<Unawaited>,
    is_done: bool,
}

impl Drop for Reaper {
    fn drop(&mut self) {
        if !self.is_done {
            self.unawaited.lock().has_reaper = false;
        }
    }
}

impl LastingWork for Reaper {
    async fn run(&mut self) {
        let mut empty_checks = 0;
        for check in 1_u64.. {
            Clock::Boot.sleep_until(Clock::Boot.now().plus(CHECK_INTERVAL)).await;
            let mut unawaited = check_releases(self.unawaited, check % FULL_CHECK_EVERY == 0);
            empty_checks = if unawaited.releases.is_empty() { empty_checks + 1 } else { 0 };
            if empty_checks == EMPTY_CHECKS_BEFORE_END {
                // This is under the mutex that `with_releases` takes: the next release must not
                // rely on a reaper that is about to end.
                unawaited.has_reaper = false;
                self.is_done = true;
                return;
            }
        }
    }
}

/// Ends the releases that were answered, or are due. `is_full`: it polls all of them.
fn check_releases(list: &Mutex<Unawaited>, is_full: bool) -> MutexGuard<'_, Unawaited> {
    // While a thread waits at its end, all releases of the process are due at once: the runtime of
    // that thread may never run again.
    let is_thread_waiting = thread_exit::is_thread_waiting();
    let now = if is_thread_waiting { Moment::NEVER } else { Clock::Boot.now() };
    let all = is_thread_waiting || is_full;
    poll_oldest(list, now, if all { usize::MAX } else { MAX_UNANSWERED })
}

/// Polls the releases, the oldest first. After `max_unanswered` without an answer it leaves the
/// rest as it is.
fn poll_oldest(
    list: &Mutex<Unawaited>,
    now: Moment,
    max_unanswered: usize,
) -> MutexGuard<'_, Unawaited> {
    // They are polled outside of the mutex: a release that ends may run foreign code.
    let releases = std::mem::take(&mut list.lock().releases);
    let mut unanswered = 0;
    let mut is_pending = |release: &mut UnawaitedRelease| {
        let is_pending = unanswered == max_unanswered || !release.poll_once(now);
        unanswered += usize::from(is_pending && unanswered < max_unanswered);
        is_pending
    };
    let mut left: VecDeque<_> = releases
        .into_iter()
        .filter_map(|mut release| is_pending(&mut release).then_some(release))
        .collect();
    let mut unawaited = list.lock();
    left.append(&mut unawaited.releases);
    unawaited.releases = left;
    unawaited
}

#[cfg(test)]
mod tests {
    use std::future::{pending, poll_fn};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Poll, Wake};

    use tokio::task::coop;
    use tokio::time::timeout;

    use super::*;
    use crate::state::Released;

    struct Panics;

    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("a waker panics on purpose");
        }
    }

    /// Another caller ends it, or the reaper, whose other releases must not suffer.
    #[test]
    fn a_release_ends_quietly_though_the_waker_of_its_caller_panics() {
        let (over, mut is_over) = oneshot::channel();
        let waker = Waker::from(Arc::new(Panics));
        assert!(pin!(&mut is_over).poll(&mut Context::from_waker(&waker)).is_pending());
        drop(TellsOver(Some(over)));
        assert!(is_over.try_recv().is_err());
    }

    /// Otherwise the releases after it would wait for their deadline, or for the next release.
    #[tokio::test]
    async fn a_reaper_that_has_ended_leaves_its_place_to_the_next_one() {
        let unawaited = Unawaited { has_reaper: true, ..Unawaited::default() };
        let unawaited: &'static _ = Box::leak(Box::new(Mutex::new(unawaited)));
        Reaper { unawaited, is_done: false }.run().await;
        assert!(!unawaited.lock().has_reaper);
    }

    const LONG: Duration = Duration::from_secs(30);

    fn at(seconds: u64) -> Moment {
        Clock::Boot.now().plus(Duration::from_secs(seconds))
    }

    /// A release that is answered, or not, before its deadline, and counts its polls.
    fn release(deadline: Moment, is_answered: bool, polls: &Arc<AtomicUsize>) -> UnawaitedRelease {
        let polls = Arc::clone(polls);
        let release = poll_fn(move |_| {
            polls.fetch_add(1, Ordering::Relaxed);
            if is_answered { Poll::Ready(Ok(Released::Released)) } else { Poll::Pending }
        });
        UnawaitedRelease::new(Box::pin(release), deadline, oneshot::channel().0)
    }

    /// A list with a reaper that does nothing.
    fn list(releases: impl IntoIterator<Item = UnawaitedRelease>) -> &'static Mutex<Unawaited> {
        let releases = releases.into_iter().collect();
        Box::leak(Box::new(Mutex::new(Unawaited { releases, has_reaper: true })))
    }

    fn deadlines(list: &Mutex<Unawaited>) -> Vec<Moment> {
        list.lock().releases.iter().map(|release| release.deadline).collect()
    }

    #[test]
    fn a_release_without_an_answer_is_over_at_its_deadline() {
        let polls = Arc::default();
        let deadline = at(1000);
        let mut release = release(deadline, false, &polls);
        assert!(!release.poll_once(deadline.minus(Duration::from_nanos(1))));
        assert!(release.poll_once(deadline));
    }

    /// Otherwise a task that does much would not send its releases.
    #[tokio::test]
    async fn a_release_is_sent_though_its_caller_has_used_up_its_budget() {
        let sending = async {
            coop::consume_budget().await;
            Ok(Released::Released)
        };
        let (over, _) = oneshot::channel();
        let mut release = UnawaitedRelease::new(Box::pin(sending), at(1000), over);
        assert!(
            poll_fn(|context| {
                while pin!(coop::consume_budget()).poll(context).is_ready() {}
                Poll::Ready(release.poll_once(Moment::ZERO))
            })
            .await
        );
    }

    #[test]
    fn a_new_release_ends_earlier_ones_and_leaves_the_order_of_the_others() {
        let [first, second, third, sent] = [1001, 1002, 1003, 1004].map(at);
        let polls = Arc::default();
        let pending = |deadline| release(deadline, false, &polls);
        let waiting = list([release(first, true, &polls), pending(second), pending(third)]);
        add(waiting, pending(sent), Moment::ZERO);
        assert_eq!(deadlines(waiting), [second, third, sent]);
        assert_eq!(polls.swap(0, Ordering::Relaxed), 2);
        // As a connection answers in order, the next one is not asked.
        let last = at(1005);
        add(waiting, pending(last), Moment::ZERO);
        assert_eq!(deadlines(waiting), [second, third, sent, last]);
        assert_eq!(polls.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_check_ends_after_some_that_are_not_answered() {
        let polls = Arc::default();
        let answered = || release(at(1000), true, &polls);
        let pending = (0..40).map(|n| release(at(1000 + n), false, &polls));
        let releases = [answered()].into_iter().chain(pending).chain([answered()]);
        let waiting = list(releases);
        assert_eq!(poll_oldest(waiting, Moment::ZERO, 32).releases.len(), 41);
        assert_eq!(polls.swap(0, Ordering::Relaxed), 1 + 32);
        assert_eq!(poll_oldest(waiting, Moment::ZERO, usize::MAX).releases.len(), 40);
        assert_eq!(polls.load(Ordering::Relaxed), 41);
        assert!(deadlines(waiting).is_sorted(), "they stay in their order");
    }

    /// It may come from code that runs at the end of another one.
    #[test]
    fn a_release_that_is_added_while_others_are_checked_comes_after_them() {
        let waiting = list([]);
        let [first, second] = [1001, 1002].map(at);
        let adding = poll_fn(move |_| {
            add(waiting, release(second, false, &Arc::default()), Moment::ZERO);
            Poll::Pending
        });
        let adding = UnawaitedRelease::new(Box::pin(adding), first, oneshot::channel().0);
        waiting.lock().releases.push_back(adding);
        drop(poll_oldest(waiting, Moment::ZERO, usize::MAX));
        assert_eq!(deadlines(waiting), [first, second]);
    }

    /// Those of a slow connection stand before it.
    #[tokio::test]
    async fn an_answered_release_ends_behind_many_without_an_answer() {
        let polls = Arc::default();
        let (over, is_over) = oneshot::channel();
        let answered = async { Ok(Released::Released) };
        let answered = UnawaitedRelease::new(Box::pin(answered), at(1000), over);
        let pending = (0..2 * MAX_UNANSWERED).map(|_| release(at(1000), false, &polls));
        let unawaited = list(pending.chain([answered]));
        let mut reaper = Reaper { unawaited, is_done: false };
        let reaper = tokio::spawn(async move { reaper.run().await });
        assert!(timeout(LONG, is_over).await.expect("it is found").is_err());
        reaper.abort();
    }

    #[test]
    fn a_reaper_that_dies_leaves_its_place_to_the_next_one() {
        let unawaited = list([]);
        drop(Reaper { unawaited, is_done: false });
        assert!(!unawaited.lock().has_reaper);
        let never = UnawaitedRelease::new(Box::pin(pending()), at(1000), oneshot::channel().0);
        add(unawaited, never, Moment::ZERO);
        assert!(unawaited.lock().has_reaper);
    }
}
