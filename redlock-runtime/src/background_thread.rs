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
use crate::error::LockError;
use crate::mutex::Mutex;
use crate::shield::shielded;

static BACKGROUND: PerProcess<Mutex<Background>> = PerProcess::new();

/// The background thread of a process, once it is needed, and what it has to run.
#[derive(Default)]
struct Background {
    thread: Option<Arc<BackgroundThread>>,
    residents: Vec<Weak<dyn Resident>>,
}

/// What has a task on the background thread for as long as it lives.
pub(crate) trait Resident: Send + Sync {
    /// The task. `None`: it has none, or that runs already.
    fn task(&self) -> Option<Pin<Box<dyn Future<Output = ()> + Send>>>;
}

pub(crate) struct BackgroundThread {
    pub(crate) handle: Handle,
    has_died: Arc<AtomicBool>,
}

impl BackgroundThread {
    /// Has it died? Then its runtime has no tasks and no timers any more.
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
        Arc::new(Self { handle, has_died })
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
    serving(BACKGROUND.of(process::id(), Mutex::default)?)
}

/// The thread of `background`, which is replaced if it has died. The new thread runs the tasks of
/// all residents: those of the old one were dropped with its runtime.
fn serving(background: &Mutex<Background>) -> Result<Arc<BackgroundThread>, LockError> {
    let (thread, residents) = {
        let mut background = background.lock();
        match &background.thread {
            Some(running) if !running.has_died() => return Ok(Arc::clone(running)),
            _ => {}
        }
        let started = Arc::new(start(Builder::new())?);
        background.thread = Some(Arc::clone(&started));
        (started, background.residents.iter().filter_map(Weak::upgrade).collect::<Vec<_>>())
    };
    // Outside of the mutex: this may be the last reference to a resident.
    residents.iter().filter_map(|resident| resident.task()).for_each(|task| {
        thread.handle.spawn(task);
    });
    Ok(thread)
}

/// Runs the task of `resident` on the background thread, and on each that replaces it.
pub(crate) fn house(resident: &Arc<impl Resident + 'static>) -> Result<(), LockError> {
    house_in(BACKGROUND.of(process::id(), Mutex::default)?, resident)
}

fn house_in(
    background: &Mutex<Background>,
    resident: &Arc<impl Resident + 'static>,
) -> Result<(), LockError> {
    let weak = Arc::downgrade(resident);
    {
        let residents = &mut background.lock().residents;
        residents.retain(|known| known.strong_count() > 0);
        residents.push(weak);
    }
    let thread = serving(background)?;
    if let Some(task) = resident.task() {
        thread.handle.spawn(task);
    }
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

fn start(thread: Builder) -> Result<BackgroundThread, LockError> {
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
        .spawn(move || driven.drive())
        .map_err(failed("threads (`ulimit -u`, or `pids.max` of the container)"))?;
    Ok(BackgroundThread { handle, has_died })
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
    fn drive(&self) {
        if let Some(runtime) = &self.runtime {
            runtime.block_on(pending::<()>());
        }
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // It does not wait for a name server that is silent.
            runtime.shutdown_background();
        }
        self.has_died.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const STEP: Duration = Duration::from_millis(50);

    #[test]
    fn one_thread_serves_the_process_and_survives_a_panic_of_its_tasks() {
        let (sender, receiver) = std::sync::mpsc::channel();
        spawn(async { panic!("a task of the background thread panics on purpose") }).unwrap();
        for _ in 0..2 {
            let sender = sender.clone();
            spawn(async move { sender.send(std::thread::current().id()).unwrap() }).unwrap();
        }
        assert_eq!(receiver.recv().unwrap(), receiver.recv().unwrap());
    }

    /// The refusal stands for a process that has all the threads it may have.
    #[tokio::test]
    async fn a_thread_that_cannot_start_is_an_error_inside_of_a_runtime() {
        let refused = start(Builder::new().stack_size(usize::MAX / 2));
        let error = refused.map(|_| ()).unwrap_err();
        assert!(matches!(error, LockError::BackgroundThread { .. }));
        assert!(error.to_string().contains("the limit of threads (`ulimit -u`"), "{error}");
    }

    #[test]
    fn a_thread_that_died_says_what_the_caller_can_do() {
        let text = stopped("a shutdown").to_string();
        assert!(
            text.contains("it stopped during a shutdown, or") && text.ends_with("starts it anew")
        );
    }

    /// A timer that calls this waker ends the thread, as a file does that other code has closed.
    struct Kills;

    impl std::task::Wake for Kills {
        fn wake(self: Arc<Self>) {
            panic!("a waker panics on purpose");
        }
    }

    fn kill(thread: &BackgroundThread) {
        let mut timer = {
            let _timers = thread.handle.enter();
            Box::pin(sleep_until(Instant::now() + Duration::from_millis(1)))
        };
        let waker = std::task::Waker::from(Arc::new(Kills));
        assert!(timer.as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_pending());
        while !thread.has_died() {
            std::thread::yield_now();
        }
    }

    const FOR_EVER: Duration = Duration::from_secs(3600);

    /// A name server that is silent keeps the next thread from nobody.
    #[test]
    fn a_thread_that_dies_drops_its_tasks_and_waits_for_no_lookup() {
        let thread = start(Builder::new()).unwrap();
        let (alive, ends) = std::sync::mpsc::channel::<()>();
        let (lookup, lookup_ends) = std::sync::mpsc::channel::<()>();
        thread.handle.spawn_blocking(move || lookup_ends.recv());
        thread.handle.spawn(async move {
            pending::<()>().await;
            drop(alive);
        });
        kill(&thread);
        assert_eq!(ends.recv(), Err(std::sync::mpsc::RecvError));
        drop(lookup);
    }

    #[test]
    fn a_caller_whose_timer_dies_with_the_thread_goes_on_with_another_one() {
        let thread = start(Builder::new()).unwrap();
        let (answer, answered) = tokio::sync::oneshot::channel();
        let (outcome, late) = crate::blocking::block_on(async {
            let asked = until(Some(&thread), Instant::now() + FOR_EVER, answered);
            let late = until(Some(&thread), Instant::now() + 10 * STEP, pending::<()>());
            let (mut asked, mut late) = (pin!(asked), pin!(late));
            poll_fn(|cx| {
                assert!(asked.as_mut().poll(cx).is_pending());
                assert!(late.as_mut().poll(cx).is_pending());
                Poll::Ready(())
            })
            .await;
            kill(&thread);
            let late = late.await;
            answer.send(17).unwrap();
            (asked.await, late)
        });
        assert_eq!((outcome, late), (Some(Ok(17)), None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_goes_on_by_its_own_timers_where_no_thread_is_granted() {
        let none = || Err(stopped("a test"));
        let soon = Instant::now() + STEP;
        let answered = pin!(tokio::task::yield_now());
        assert_eq!(until_by_another(none, soon, answered).await, Some(()));
        assert_eq!(until_by_another(none, soon, pin!(pending::<()>())).await, None);
        assert_eq!(Instant::now(), soon);
    }

    /// Its runtime is shut down in order, and its timers would panic.
    #[test]
    fn a_timer_of_a_thread_that_has_died_does_not_panic() {
        let dead = BackgroundThread::dead();
        let soon = Instant::now() + STEP;
        assert_eq!(crate::blocking::block_on(dead.bound(soon, pin!(pending::<()>()))), None);
        assert_eq!(crate::blocking::block_on(until(Some(&dead), soon, pending::<()>())), None);
    }

    #[test]
    fn a_thread_that_died_is_replaced() {
        let thread = Some(BackgroundThread::dead());
        let background = Mutex::new(Background { thread, residents: Vec::new() });
        let (sender, receiver) = std::sync::mpsc::channel();
        serving(&background).unwrap().handle.spawn(async move { sender.send(()) });
        receiver.recv().unwrap();
    }

    /// Tells when its task is polled. The task has no end.
    struct Telling(std::sync::mpsc::Sender<std::thread::ThreadId>);

    impl Resident for Telling {
        fn task(&self) -> Option<Pin<Box<dyn Future<Output = ()> + Send>>> {
            let sender = self.0.clone();
            Some(Box::pin(async move {
                sender.send(std::thread::current().id()).unwrap();
                std::future::pending::<()>().await;
            }))
        }
    }

    #[test]
    fn the_tasks_of_residents_move_to_the_thread_that_replaces_one_that_died() {
        let background = Mutex::new(Background::default());
        let (sender, told) = std::sync::mpsc::channel();
        serving(&background).unwrap();
        let resident = Arc::new(Telling(sender.clone()));
        house_in(&background, &resident).unwrap();
        let gone = Arc::new(Telling(sender));
        house_in(&background, &gone).unwrap();
        let first = told.recv().unwrap();
        assert_eq!(told.recv().unwrap(), first);
        drop(gone);
        background.lock().thread = Some(BackgroundThread::dead());
        serving(&background).unwrap();
        assert_ne!(told.recv().unwrap(), first);
        serving(&background).unwrap();
        assert!(told.try_recv().is_err(), "each is begun once, and none of a client that has gone");
    }
}
