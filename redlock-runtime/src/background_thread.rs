//! The background thread: one for the whole process, with a runtime of its own. A child of a fork
//! has another one.
//!
//! All work that must not depend on a caller runs here: connections (a socket must outlive the
//! runtime that first used it), renewals (a blocked runtime must not starve them) and releases (a
//! dropped guard may have no runtime at all).

use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::thread::{Builder, JoinHandle};

use tokio::runtime;
use tokio::runtime::{Handle, Runtime};

use super::process;
use super::process::PerProcess;
use crate::error::LockError;
use crate::mutex::Mutex;

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
    thread: JoinHandle<Option<()>>,
}

impl BackgroundThread {
    /// Has it died? Then its runtime has no tasks and no timers any more.
    pub(crate) fn has_died(&self) -> bool {
        self.thread.is_finished()
    }

    /// One that has died.
    #[cfg(test)]
    pub(crate) fn dead() -> Arc<Self> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (handle, thread) = (runtime.handle().clone(), std::thread::spawn(|| None));
        runtime.shutdown_background();
        while !thread.is_finished() {
            std::thread::yield_now();
        }
        Arc::new(Self { handle, thread })
    }
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
    let (handle, mut driven) = (runtime.handle().clone(), Driven(Some(runtime)));
    let thread = thread
        .name("redlock-bg".to_owned())
        // Tasks come through the handle; the thread itself only drives them, for ever.
        .spawn(move || driven.0.take().map(|runtime| runtime.block_on(std::future::pending())))
        .map_err(failed("threads (`ulimit -u`, or `pids.max` of the container)"))?;
    Ok(BackgroundThread { handle, thread })
}

/// The runtime of the thread. If the thread cannot be started, the caller drops it, possibly inside
/// of another runtime.
struct Driven(Option<Runtime>);

impl Drop for Driven {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
