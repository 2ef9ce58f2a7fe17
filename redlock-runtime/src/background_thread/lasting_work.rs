//! Work that goes on where the background thread dies before the work is over: clean-ups, releases,
//! and timers for which a caller waits.

use std::sync::Arc;

use super::{Background, BackgroundThread, here, serving};
use crate::error::LockError;
use crate::mutex::Mutex;

/// How often work is begun anew. Where each thread dies at once, it must not start another one for
/// ever.
const RESTARTS: u32 = 3;

/// What is begun anew on the next background thread if its own one dies.
pub(crate) trait LastingWork: Send + 'static {
    /// Does what is left of the work. If the thread dies, this future is dropped, and made again.
    fn run(&mut self) -> impl Future<Output = ()> + Send;
}

/// Runs `work` on the background thread, and on those that replace it.
pub(crate) fn spawn(work: impl LastingWork) -> Result<(), LockError> {
    spawn_in(here()?, work, RESTARTS)
}

fn spawn_in(
    background: &'static Mutex<Background>,
    work: impl LastingWork,
    restarts: u32,
) -> Result<(), LockError> {
    let thread = serving(background)?;
    let mut task =
        LastingTask { work: Some(work), thread: Arc::clone(&thread), background, restarts };
    thread.handle.spawn(async move {
        if let Some(work) = &mut task.work {
            work.run().await;
        }
        drop(task.work.take());
    });
    Ok(())
}

/// Work on one background thread, also before its first poll.
struct LastingTask<W: LastingWork> {
    /// `None`: it is over.
    work: Option<W>,
    thread: Arc<BackgroundThread>,
    background: &'static Mutex<Background>,
    restarts: u32,
}

impl<W: LastingWork> Drop for LastingTask<W> {
    fn drop(&mut self) {
        // Work that panicked is not begun anew.
        if let Some(work) = self.work.take().filter(|_| self.thread.has_died())
            && let Some(restarts) = self.restarts.checked_sub(1)
        {
            // Without a thread the work is dropped.
            let _ = spawn_in(self.background, work, restarts);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::super::tests::{background, kill};
    use super::*;

    /// Tells how often it was begun. It has no end.
    struct Counting(u32, Sender<u32>);

    impl LastingWork for Counting {
        async fn run(&mut self) {
            self.0 += 1;
            let _ = self.1.send(self.0);
            std::future::pending::<()>().await;
        }
    }

    #[test]
    fn work_whose_thread_dies_is_begun_anew_but_not_for_ever() {
        let (background, (sender, told)) = (background(), channel());
        spawn_in(background, Counting(0, sender), RESTARTS).unwrap();
        for begun in 1..=RESTARTS + 1 {
            assert_eq!(told.recv(), Ok(begun));
            kill(&serving(background).unwrap());
        }
        assert!(told.recv().is_err());
    }

    /// The thread dies after its handle was taken, and before the task is there.
    #[test]
    fn work_that_comes_too_late_for_its_thread_is_begun_on_the_next_one() {
        let (background, (sender, told)) = (background(), channel());
        let thread = serving(background).unwrap();
        let work = LastingTask {
            work: Some(Counting(0, sender)),
            thread: Arc::clone(&thread),
            background,
            restarts: 1,
        };
        kill(&thread);
        thread.handle.spawn(async move { drop(work) });
        assert_eq!(told.recv(), Ok(1));
    }

    #[test]
    fn work_that_is_over_or_panics_is_not_begun_anew() {
        struct Ends {
            well: bool,
            _told: Sender<()>,
        }

        impl LastingWork for Ends {
            async fn run(&mut self) {
                assert!(self.well, "work panics on purpose");
            }
        }

        for well in [true, false] {
            let (background, (sender, told)) = (background(), channel());
            spawn_in(background, Ends { well, _told: sender }, RESTARTS).unwrap();
            assert!(told.recv().is_err());
        }
    }
}
