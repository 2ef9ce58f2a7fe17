//! The keeper: one background thread for the whole process, with a runtime of its own.
//!
//! Everything that must go on whatever happens to the caller runs here: connections (a socket must
//! outlive the runtime that first used it), renewals (a blocked runtime must not starve them) and
//! releases (a dropped guard may have no runtime at all).

use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use tokio::runtime::Handle;

use crate::error::LockError;

static KEEPER: Mutex<Option<Keeper>> = Mutex::new(None);

struct Keeper {
    handle: Handle,
    thread: JoinHandle<()>,
    /// A fork copies this memory, but not the thread.
    process: u32,
}

/// The runtime of the keeper, started at the first call and again should it ever die.
///
/// # Errors
/// [`LockError::ForkedProcess`] in a child of the process that started it, [`LockError::Keeper`]
/// when the operating system grants no thread.
pub(crate) fn handle() -> Result<Handle, LockError> {
    let mut keeper = KEEPER.lock().unwrap_or_else(PoisonError::into_inner);
    serving(&mut keeper, std::process::id())
}

/// The runtime of `keeper` for this process, with a thread that lives.
fn serving(keeper: &mut Option<Keeper>, process: u32) -> Result<Handle, LockError> {
    match keeper {
        Some(running) if running.process != process => Err(LockError::ForkedProcess),
        Some(running) if !running.thread.is_finished() => Ok(running.handle.clone()),
        _ => Ok(keeper.insert(start(process)?).handle.clone()),
    }
}

/// Runs `future` on the keeper.
pub(crate) fn spawn(future: impl Future<Output = ()> + Send + 'static) -> Result<(), LockError> {
    handle().map(|handle| drop(handle.spawn(future)))
}

fn start(process: u32) -> Result<Keeper, LockError> {
    let failed = |error: std::io::Error| LockError::Keeper { message: error.to_string() };
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let handle = runtime.handle().clone();
    let thread = std::thread::Builder::new()
        .name("redlock-keeper".to_owned())
        // Tasks come through the handle; the thread itself only drives them, for ever.
        .spawn(move || runtime.block_on(std::future::pending()))
        .map_err(failed)?;
    Ok(Keeper { handle, thread, process })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_serves_the_process_and_survives_a_panic_of_its_tasks() {
        let (sender, receiver) = std::sync::mpsc::channel();
        spawn(async { panic!("a task of the keeper panics on purpose") }).unwrap();
        for _ in 0..2 {
            let sender = sender.clone();
            spawn(async move { sender.send(std::thread::current().id()).unwrap() }).unwrap();
        }
        assert_eq!(receiver.recv().unwrap(), receiver.recv().unwrap());
    }

    #[test]
    fn a_keeper_that_died_is_replaced() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (handle, thread) = (runtime.handle().clone(), std::thread::spawn(|| ()));
        drop(runtime);
        while !thread.is_finished() {
            std::thread::yield_now();
        }
        let mut keeper = Some(Keeper { handle, thread, process: 41 });
        let (sender, receiver) = std::sync::mpsc::channel();
        serving(&mut keeper, 41).unwrap().spawn(async move { sender.send(()) });
        receiver.recv().unwrap();
    }

    /// With a keeper of its own: the process-wide one serves the other tests.
    #[test]
    fn a_child_of_a_fork_is_told() {
        let (parent, child) = (41, 42);
        let mut keeper = None;
        assert!(serving(&mut keeper, parent).is_ok());
        assert!(matches!(serving(&mut keeper, child), Err(LockError::ForkedProcess)));
        assert!(serving(&mut keeper, parent).is_ok());
    }
}
