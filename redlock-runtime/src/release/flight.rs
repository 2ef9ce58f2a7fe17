//! A release that is sent from the caller's runtime, which may stop at any moment.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use super::flush::Unsent;
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
        let is_embedded = job.engine.is_embedded();
        job.unsent = (!is_embedded).then(Unsent::here);
        let (host, key) = (job.engine.host(), job.claim.key.clone());
        if let Err(error) = host.spawn(job.run()) {
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
/// the future is dropped, is the business of the background. So it is when the caller's runtime is
/// not driven any more: after a while the background takes over.
pub(super) fn here(
    job: ReleaseJob,
    way: Arc<dyn Backend>,
) -> impl Future<Output = Result<Released, Fault>> + Send {
    let engine = Arc::clone(&job.engine);
    let flight = Arc::new(Flight { job: Mutex::new(Some(job)) });
    if !engine.is_embedded() {
        watch(Clock::Boot.now().plus(engine.reply_timeout / 4), &flight);
    }
    fly(InFlight(flight), way)
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

/// Flights in the order of their deadlines, which are all as long.
static WATCHED: Mutex<Watched> = Mutex::new(Watched { flights: VecDeque::new(), is_kept: false });

struct Watched {
    flights: VecDeque<(Moment, Arc<Flight>)>,
    /// The keeper has an eye on them.
    is_kept: bool,
}

fn watch(deadline: Moment, flight: &Arc<Flight>) {
    let is_kept = {
        let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
        watched.flights.push_back((deadline, Arc::clone(flight)));
        std::mem::replace(&mut watched.is_kept, true)
    };
    if !is_kept && keeper::spawn(keep()).is_err() {
        WATCHED.lock().unwrap_or_else(PoisonError::into_inner).is_kept = false;
    }
}

async fn keep() {
    loop {
        let next = {
            let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
            let next = watched.flights.pop_front();
            watched.is_kept = next.is_some();
            next
        };
        let Some((deadline, flight)) = next else { return };
        if flight.job.lock().is_ok_and(|job| job.is_some()) {
            Clock::Boot.sleep_until(deadline).await;
            flight.hand_over(true);
        }
    }
}
