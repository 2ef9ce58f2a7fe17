//! The background thread: one for the whole process, with a runtime of its own. A child of a fork
//! has another one.
//!
//! All work that must not depend on a caller runs here: connections (a socket must outlive the
//! runtime that first used it), renewals (a blocked runtime must not starve them) and releases (a
//! dropped guard may have no runtime at all).

use std::thread::{Builder, JoinHandle};

use tokio::runtime;
use tokio::runtime::{Handle, Runtime};

use super::process;
use super::process::PerProcess;
use crate::error::LockError;
use crate::mutex::Mutex;

static BACKGROUND_THREAD: PerProcess<Mutex<Option<BackgroundThread>>> = PerProcess::new();

struct BackgroundThread {
    handle: Handle,
    thread: JoinHandle<Option<()>>,
}

/// The runtime of the background thread of this process. The first call starts the thread, and a
/// later call replaces it if it has died.
///
/// # Errors
/// [`LockError::BackgroundThread`] when the operating system grants no thread,
/// [`LockError::ForkedProcess`] after too many generations of forks.
pub(crate) fn handle() -> Result<Handle, LockError> {
    let background = BACKGROUND_THREAD.of(process::id(), Mutex::default)?;
    serving(&mut background.lock())
}

/// The runtime of `background`, whose thread is replaced if it has died.
fn serving(background: &mut Option<BackgroundThread>) -> Result<Handle, LockError> {
    match background {
        Some(running) if !running.thread.is_finished() => Ok(running.handle.clone()),
        _ => Ok(background.insert(start(Builder::new())?).handle.clone()),
    }
}

/// Runs `future` on the background thread.
pub(crate) fn spawn(future: impl Future<Output = ()> + Send + 'static) -> Result<(), LockError> {
    handle().map(|handle| drop(handle.spawn(future)))
}

/// The error of a caller when the thread stopped during `what`.
pub(crate) fn stopped(what: &str) -> LockError {
    LockError::BackgroundThread { message: format!("it stopped during {what}") }
}

fn start(thread: Builder) -> Result<BackgroundThread, LockError> {
    let failed = |error: std::io::Error| LockError::BackgroundThread { message: error.to_string() };
    let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let (handle, mut driven) = (runtime.handle().clone(), Driven(Some(runtime)));
    let thread = thread
        .name("redlock-bg".to_owned())
        // Tasks come through the handle; the thread itself only drives them, for ever.
        .spawn(move || driven.0.take().map(|runtime| runtime.block_on(std::future::pending())))
        .map_err(failed)?;
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
        assert!(matches!(refused, Err(LockError::BackgroundThread { .. })));
    }

    #[test]
    fn a_thread_that_died_is_replaced() {
        let runtime = runtime::Builder::new_current_thread().build().unwrap();
        let (handle, thread) = (runtime.handle().clone(), std::thread::spawn(|| None));
        drop(runtime);
        while !thread.is_finished() {
            std::thread::yield_now();
        }
        let mut background = Some(BackgroundThread { handle, thread });
        let (sender, receiver) = std::sync::mpsc::channel();
        serving(&mut background).unwrap().spawn(async move { sender.send(()) });
        receiver.recv().unwrap();
    }
}
