//! A release that is sent from the caller's runtime, which may stop at any moment.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};
use std::time::Duration;

use super::answer::Answer;
use super::job::ReleaseJob;
use crate::backend::{Backend, Fault};
use crate::clock::{Clock, Moment};
use crate::keeper;
use crate::state::Released;

/// The job, for as long as nobody else has taken it over.
struct Flight {
    job: Mutex<Option<ReleaseJob>>,
}

impl Flight {
    fn take(&self) -> Option<ReleaseJob> {
        self.job.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// From here on the background does it, from the beginning.
    fn hand_over(&self, is_unknown: bool) {
        let Some(mut job) = self.take() else { return };
        job.is_unknown |= is_unknown;
        let (host, key) = (job.engine.host(), job.claim.key.clone());
        if let Err(error) = host.spawn(job.in_background()) {
            tracing::warn!(key = key.name(), %error, "lock not released");
        }
    }
}

/// Hands the job over when it is dropped in flight.
struct InFlight(Arc<Flight>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.hand_over(true);
    }
}

/// Sends one release by `way`, with the first poll. What becomes of it after a failure, or when
/// the future is dropped, is the business of the background.
pub(super) fn here(
    job: ReleaseJob,
    way: Arc<dyn Backend>,
) -> impl Future<Output = Result<Released, Fault>> + Send + 'static {
    fly(InFlight(Arc::new(Flight { job: Mutex::new(Some(job)) })), way)
}

async fn fly(flight: InFlight, way: Arc<dyn Backend>) -> Result<Released, Fault> {
    let asked = {
        let job = flight.0.job.lock().unwrap_or_else(PoisonError::into_inner);
        job.as_ref().map(ReleaseJob::question)
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

/// How often the keeper looks after the releases that nobody awaits.
const LOOK: Duration = Duration::from_millis(5);
/// How many of those that left before a release looks after: more than one, so that they grow less.
const REAPED: usize = 2;

/// The releases that nobody awaits, in the order in which they left. A task for each of them on
/// the caller's runtime would cost more than the rest of its release.
static UNAWAITED: Mutex<Unawaited> =
    Mutex::new(Unawaited { flights: VecDeque::new(), is_kept: false });

struct Unawaited {
    flights: VecDeque<Watched>,
    /// The keeper has an eye on them.
    is_kept: bool,
}

struct Watched {
    flight: Pin<Box<dyn Future<Output = Result<Released, Fault>> + Send>>,
    /// The caller's runtime may not be driven any more: from here on the background does it.
    deadline: Moment,
}

impl Watched {
    fn is_over(&mut self, now: Moment) -> bool {
        let mut nobody = Context::from_waker(Waker::noop());
        self.flight.as_mut().poll(&mut nobody).is_ready() || now >= self.deadline
    }
}

/// Sends one release by `way`, and sees it through in the background. It has left when what is
/// returned is ready.
pub(super) fn send(job: ReleaseJob, way: Arc<dyn Backend>) -> Answer {
    begin(job, way);
    Answer::leaving()
}

fn begin(job: ReleaseJob, way: Arc<dyn Backend>) {
    let patience = job.engine.reply_timeout / 4;
    let flight = Box::pin(here(job, way));
    let now = Clock::Boot.now();
    let mut watched = Watched { flight, deadline: now.plus(patience) };
    if watched.is_over(now) {
        return;
    }
    watch(|flights| flights.push_back(watched));
    // Where releases follow each other, those before have been answered meanwhile. They end here at
    // less cost than on the keeper, to whose processor they are strange.
    for _ in 0..REAPED {
        let Some(mut oldest) = unawaited().flights.pop_front() else { return };
        if !oldest.is_over(now) {
            return watch(|flights| flights.push_front(oldest));
        }
    }
}

/// Adds flights, under the eye of the keeper.
fn watch(add: impl FnOnce(&mut VecDeque<Watched>)) {
    let is_kept = {
        let mut unawaited = unawaited();
        add(&mut unawaited.flights);
        std::mem::replace(&mut unawaited.is_kept, true)
    };
    // Without a keeper nothing could be done about them.
    if !is_kept && keeper::spawn(keep()).is_err() {
        unawaited().is_kept = false;
    }
}

/// However the keeper's eye on the flights ends, the next one to leave gets another.
struct Keeping {
    is_done: bool,
}

impl Drop for Keeping {
    fn drop(&mut self) {
        if !self.is_done {
            unawaited().is_kept = false;
        }
    }
}

async fn keep() {
    let mut keeping = Keeping { is_done: false };
    loop {
        Clock::Boot.sleep_until(Clock::Boot.now().plus(LOOK)).await;
        let flights = std::mem::take(&mut unawaited().flights);
        // Outside of the mutex: what ends may release, wake and tell others.
        let now = Clock::Boot.now();
        let mut left: VecDeque<_> = flights
            .into_iter()
            .filter_map(|mut watched| (!watched.is_over(now)).then_some(watched))
            .collect();
        let mut unawaited = unawaited();
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

fn unawaited() -> MutexGuard<'static, Unawaited> {
    UNAWAITED.lock().unwrap_or_else(PoisonError::into_inner)
}
