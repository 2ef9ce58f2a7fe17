//! The background thread: one for the whole process, with a runtime of its own. A child of a fork
//! has another one.
//!
//! All work that must not depend on a caller runs here: connections (a socket must outlive the
//! runtime that first used it), renewals (a blocked runtime must not starve them) and releases (a
//! dropped guard may have no runtime at all).

use std::future::{pending, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::thread::Builder;

use tokio::runtime;
use tokio::runtime::{Handle, Runtime};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::process;
use super::process::PerProcess;
use crate::clock::{Clock, Moment};
use crate::error::LockError;
use crate::mutex::Mutex;
use crate::shield::{shielded, tell};

pub(crate) mod lasting_work;

static BACKGROUND: PerProcess<Mutex<Background>> = PerProcess::new();

/// The background thread of a process, once it is needed, and what it has to run.
#[derive(Default)]
struct Background {
    thread: Option<Arc<BackgroundThread>>,
    residents: Vec<Weak<dyn Resident>>,
}

/// What has a task on the background thread for as long as it lives.
pub(crate) trait Resident: Send + Sync {
    /// The task. `None`: it has none, or that runs already. One that was dropped runs no longer.
    fn task(&self) -> Option<Pin<Box<dyn Future<Output = ()> + Send>>>;
}

pub(crate) struct BackgroundThread {
    pub(crate) handle: Handle,
    has_died: Arc<AtomicBool>,
    started: Moment,
    /// It was told that work of this thread is not begun anew.
    has_told_loss: AtomicBool,
}

impl BackgroundThread {
    fn new(handle: Handle, has_died: Arc<AtomicBool>) -> Self {
        Self { handle, has_died, started: Clock::Boot.now(), has_told_loss: AtomicBool::new(false) }
    }

    /// Has it died? Then its runtime takes no tasks any more, and drops those that it has.
    pub(crate) fn has_died(&self) -> bool {
        self.has_died.load(Ordering::Acquire)
    }

    /// The outcome of `future`; the inner `None`: `end` came first. `None`: the thread has died.
    /// Some of its timers would panic then, and others never ring: whoever waits for an answer that
    /// does not come learns of that death when it is polled for another reason. To be told of it,
    /// each command would have to be entered in a list that all threads share.
    async fn bound<F: Future>(
        &self,
        end: Instant,
        mut future: Pin<&mut F>,
    ) -> Option<Option<F::Output>> {
        let mut timer = pin!({
            let _timers = self.handle.enter();
            sleep_until(end)
        });
        poll_fn(|cx| {
            if let Poll::Ready(outcome) = future.as_mut().poll(cx) {
                return Poll::Ready(Some(Some(outcome)));
            }
            if self.has_died() {
                return Poll::Ready(None);
            }
            // It panics where the thread dies in this moment: the answer is awaited no longer.
            match shielded(|| timer.as_mut().poll(cx)) {
                Some(Poll::Pending) => Poll::Pending,
                Some(Poll::Ready(())) | None => Poll::Ready(Some(None)),
            }
        })
        .await
    }

    /// One that has died.
    #[cfg(test)]
    pub(crate) fn dead() -> Arc<Self> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (handle, has_died) = (runtime.handle().clone(), Arc::<AtomicBool>::default());
        drop(Driven { runtime: Some(runtime), has_died: Arc::clone(&has_died) });
        Arc::new(Self::new(handle, has_died))
    }
}

/// The outcome of `future`, which is polled until `end` by a timer of the background thread, or of
/// the one that replaces it: the caller may block its own runtime. `known` is tried first. `None`:
/// the time is over.
pub(crate) async fn until<F: Future>(
    known: Option<&BackgroundThread>,
    end: Instant,
    future: F,
) -> Option<F::Output> {
    let mut future = pin!(future);
    if let Some(known) = known.filter(|known| !known.has_died())
        && let Some(outcome) = known.bound(end, future.as_mut()).await
    {
        return outcome;
    }
    // Boxed: it is seldom needed.
    Box::pin(until_by_another(thread, end, future)).await
}

/// The same by the timers of `next`, or, where no thread is granted, by those of the caller's
/// runtime.
async fn until_by_another<F: Future>(
    next: impl Fn() -> Result<Arc<BackgroundThread>, LockError>,
    end: Instant,
    mut future: Pin<&mut F>,
) -> Option<F::Output> {
    while let Ok(thread) = next() {
        if let Some(outcome) = thread.bound(end, future.as_mut()).await {
            return outcome;
        }
    }
    // A thread without a runtime has no timers.
    Handle::try_current().ok()?;
    timeout_at(end, future).await.ok()
}

/// The runtime of the background thread of this process. The first call starts the thread, and a
/// later call replaces it if it has died.
///
/// # Errors
/// [`LockError::BackgroundThread`] when the operating system grants no thread,
/// [`LockError::ForkedProcess`] after too many generations of forks.
pub(crate) fn handle() -> Result<Handle, LockError> {
    thread().map(|thread| thread.handle.clone())
}

/// As [`handle`], for those who keep it and have to know whether the thread has died since.
pub(crate) fn thread() -> Result<Arc<BackgroundThread>, LockError> {
    serving(here()?)
}

fn here() -> Result<&'static Mutex<Background>, LockError> {
    BACKGROUND.of(process::id(), Mutex::default)
}

/// The thread of `background`, which is replaced if it has died.
fn serving(background: &'static Mutex<Background>) -> Result<Arc<BackgroundThread>, LockError> {
    let (thread, former) = {
        let mut state = background.lock();
        match &state.thread {
            Some(running) if !running.has_died() => return Ok(Arc::clone(running)),
            _ => {}
        }
        let started = Arc::new(start(Builder::new(), background)?);
        (Arc::clone(&started), state.thread.replace(started))
    };
    if former.is_some() {
        tell!(warn, "the background thread died; another one has taken its place");
    }
    run_residents(background);
    Ok(thread)
}

/// Runs the tasks of all residents that do not run, if there is a thread for them. A thread that
/// replaces another one does so when it starts, and again when the other one has dropped its tasks:
/// it may have been started by what one of these drops has spawned.
fn run_residents(background: &Mutex<Background>) {
    loop {
        let (thread, residents): (_, Vec<_>) = {
            let state = background.lock();
            let Some(thread) = state.thread.as_ref().filter(|thread| !thread.has_died()) else {
                return;
            };
            (Arc::clone(thread), state.residents.iter().filter_map(Weak::upgrade).collect())
        };
        // Outside of the mutex: this may be the last reference to a resident.
        residents.iter().filter_map(|resident| resident.task()).for_each(|task| {
            thread.handle.spawn(task);
        });
        // Tasks that came too late for their thread are dropped. Until then they seemed to run to
        // the next thread.
        if !thread.has_died() {
            return;
        }
    }
}

/// Runs the task of `resident` on the background thread, and on each that replaces it.
pub(crate) fn house(resident: &Arc<impl Resident + 'static>) -> Result<(), LockError> {
    house_in(here()?, resident)
}

fn house_in(
    background: &'static Mutex<Background>,
    resident: &Arc<impl Resident + 'static>,
) -> Result<(), LockError> {
    let weak = Arc::downgrade(resident);
    {
        let residents = &mut background.lock().residents;
        residents.retain(|known| known.strong_count() > 0);
        residents.push(weak);
    }
    serving(background)?;
    run_residents(background);
    Ok(())
}

/// Runs `future` on the background thread.
pub(crate) fn spawn(future: impl Future<Output = ()> + Send + 'static) -> Result<(), LockError> {
    handle().map(|handle| drop(handle.spawn(future)))
}

/// The error of a caller when the thread stopped during `what`, or the runtime of a test that
/// stands for it.
pub(crate) fn stopped(what: &str) -> LockError {
    let message = format!(
        "it stopped during {what}, or the runtime with a paused clock ended, where a test has one; \
         the next call starts it anew"
    );
    LockError::BackgroundThread { message }
}

fn start(
    thread: Builder,
    background: &'static Mutex<Background>,
) -> Result<BackgroundThread, LockError> {
    let failed = |limit: &'static str| {
        move |error: std::io::Error| LockError::BackgroundThread {
            message: format!("{error}; check the memory and the limit of {limit}"),
        }
    };
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(failed("open files (`ulimit -n`), or find who leaks connections"))?;
    let (handle, has_died) = (runtime.handle().clone(), Arc::<AtomicBool>::default());
    let driven = Driven { runtime: Some(runtime), has_died: Arc::clone(&has_died) };
    thread
        .name("redlock-bg".to_owned())
        .spawn(move || {
            shielded(|| driven.drive());
            run_residents(background);
        })
        .map_err(failed("threads (`ulimit -u`, or `pids.max` of the container)"))?;
    Ok(BackgroundThread::new(handle, has_died))
}

/// The runtime of the thread. If the thread cannot be started, the caller drops it, possibly inside
/// of another runtime.
struct Driven {
    runtime: Option<Runtime>,
    has_died: Arc<AtomicBool>,
}

impl Driven {
    /// Tasks come through the handle; the thread itself only drives them, for ever. Only a panic of
    /// the runtime ends it, as where its files were closed by other code.
    fn drive(self) {
        if let Some(runtime) = &self.runtime {
            runtime.block_on(pending::<()>());
        }
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        // Before its tasks are dropped: what these drops spawn goes to the thread that replaces it.
        self.has_died.store(true, Ordering::Release);
        if let Some(runtime) = self.runtime.take() {
            // It does not wait for a name server that is silent.
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests;
