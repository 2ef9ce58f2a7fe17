//! A release that is sent from the caller's runtime, which may stop at any moment.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::sync::oneshot;

use super::release_future::ReleaseFuture;
use super::task::ReleaseTask;
use crate::backend::{Fault, LockBackend};
use crate::clock::{Clock, Moment};
use crate::process::PerProcess;
use crate::shield::tell;
use crate::state::Released;
use crate::thread_exit::Unsent;
use crate::{background_thread, thread_exit};

/// The job, for as long as nobody else has taken it over.
struct InlineRelease {
    job: Mutex<Option<ReleaseTask>>,
}

impl InlineRelease {
    fn take(&self) -> Option<ReleaseTask> {
        self.job.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// From here on the background does it, from the beginning.
    fn hand_over(&self, is_unknown: bool) {
        let Some(mut job) = self.take() else { return };
        if job.engine.check_process().is_err() {
            // A copy in a child of a fork: the parent does it.
            return std::mem::forget(job);
        }
        job.is_unknown |= is_unknown;
        let (host, key) = (job.engine.executor(), job.claim.key.clone());
        if let Err(error) = host.spawn(job.in_background()) {
            tell!(warn, key = key.name(), %error, "lock not released");
        }
    }
}

/// Hands the job over when it is dropped in flight.
struct InlineGuard(Arc<InlineRelease>);

impl Drop for InlineGuard {
    fn drop(&mut self) {
        self.0.hand_over(true);
    }
}

/// Sends one release by `way`, with the first poll. What becomes of it after a failure, or when
/// the future is dropped, is the business of the background.
pub(crate) fn here(
    job: ReleaseTask,
    way: Arc<dyn LockBackend>,
) -> impl Future<Output = Result<Released, Fault>> + Send + 'static {
    fly(InlineGuard(Arc::new(InlineRelease { job: Mutex::new(Some(job)) })), way)
}

async fn fly(flight: InlineGuard, way: Arc<dyn LockBackend>) -> Result<Released, Fault> {
    let asked = {
        let job = flight.0.job.lock().unwrap_or_else(PoisonError::into_inner);
        job.as_ref().map(ReleaseTask::question)
    };
    // Taken over already.
    let Some(question) = asked else { return Ok(Released::Released) };
    match question.ask(&*way).await {
        Ok(found) => Ok(flight.0.take().map_or(Released::Released, |job| job.finish(found))),
        Err(fault) => {
            if fault.is_final {
                if let Some(job) = flight.0.take() {
                    job.give_up(fault.clone());
                }
            } else {
                flight.0.hand_over(fault.is_unknown);
            }
            Err(fault)
        }
    }
}

/// How often the background thread looks after the releases that nobody awaits.
const LOOK: Duration = Duration::from_millis(5);
/// How many of those that left before a release looks after: more than one, so that they grow less.
const REAPED: usize = 2;

/// The releases that nobody awaits, in the order in which they left. A task for each of them on
/// the caller's runtime would cost more than the rest of its release.
static UNAWAITED: PerProcess<Mutex<Unawaited>> = PerProcess::new();

#[derive(Default)]
struct Unawaited {
    flights: VecDeque<UnawaitedRelease>,
    /// The background thread has an eye on them.
    is_kept: bool,
}

struct UnawaitedRelease {
    flight: Pin<Box<dyn Future<Output = Result<Released, Fault>> + Send>>,
    /// The caller's runtime may not be driven any more: from here on the background does it.
    deadline: Moment,
    /// Tells by its drop.
    _over: oneshot::Sender<()>,
}

impl UnawaitedRelease {
    fn is_over(&mut self, now: Moment) -> bool {
        let mut nobody = Context::from_waker(Waker::noop());
        self.flight.as_mut().poll(&mut nobody).is_ready() || now >= self.deadline
    }
}

/// Sends one release by `way`, and sees it through in the background. It has left when what is
/// returned is ready.
pub(crate) fn unawaited(job: ReleaseTask, way: Arc<dyn LockBackend>) -> ReleaseFuture {
    let (watched, over) = oneshot::channel();
    begin(job, way, watched);
    ReleaseFuture::leaving(over)
}

fn begin(mut job: ReleaseTask, way: Arc<dyn LockBackend>, over: oneshot::Sender<()>) {
    // The end of this thread waits for its answer, or for the background to have it instead.
    job.unsent = Some(Unsent::here());
    let process = job.engine.process;
    let patience = job.engine.reply_timeout / 4;
    let flight = Box::pin(here(job, way));
    let now = Clock::Boot.now();
    let mut watched = UnawaitedRelease { flight, deadline: now.plus(patience), _over: over };
    if watched.is_over(now) {
        return;
    }
    let Ok(unawaited) = UNAWAITED.of(process, Mutex::default) else { return };
    watch(unawaited, |flights| flights.push_back(watched));
    // Where releases follow each other, those before have been answered meanwhile. They end here at
    // less cost than on the background thread, to whose processor they are strange.
    for _ in 0..REAPED {
        let Some(mut oldest) = lock(unawaited).flights.pop_front() else { return };
        if !oldest.is_over(now) {
            return watch(unawaited, |flights| flights.push_front(oldest));
        }
    }
}

/// Adds flights, under the eye of the background thread.
fn watch(unawaited: &'static Mutex<Unawaited>, add: impl FnOnce(&mut VecDeque<UnawaitedRelease>)) {
    let is_kept = {
        let mut unawaited = lock(unawaited);
        add(&mut unawaited.flights);
        std::mem::replace(&mut unawaited.is_kept, true)
    };
    // Without a background thread nothing could be done about them.
    if !is_kept && background_thread::spawn(keep(unawaited)).is_err() {
        lock(unawaited).is_kept = false;
    }
}

/// However the background thread's eye on the flights ends, the next one to leave gets another.
struct ReaperGuard {
    unawaited: &'static Mutex<Unawaited>,
    is_done: bool,
}

impl Drop for ReaperGuard {
    fn drop(&mut self) {
        if !self.is_done {
            lock(self.unawaited).is_kept = false;
        }
    }
}

async fn keep(all: &'static Mutex<Unawaited>) {
    let mut keeping = ReaperGuard { unawaited: all, is_done: false };
    loop {
        Clock::Boot.sleep_until(Clock::Boot.now().plus(LOOK)).await;
        let flights = std::mem::take(&mut lock(all).flights);
        // Outside of the mutex: what ends may release, wake and tell others. The runtime of a
        // thread that ends may never be driven again.
        let now = if thread_exit::is_awaited() { Moment::NEVER } else { Clock::Boot.now() };
        let mut left: VecDeque<_> = flights
            .into_iter()
            .filter_map(|mut watched| (!watched.is_over(now)).then_some(watched))
            .collect();
        let mut unawaited = lock(all);
        left.append(&mut unawaited.flights);
        unawaited.flights = left;
        if unawaited.flights.is_empty() {
            // Under the same mutex: whoever comes next must find nobody here.
            unawaited.is_kept = false;
            keeping.is_done = true;
            return;
        }
    }
}

fn lock(unawaited: &Mutex<Unawaited>) -> MutexGuard<'_, Unawaited> {
    unawaited.lock().unwrap_or_else(PoisonError::into_inner)
}
