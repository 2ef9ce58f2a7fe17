//! Work that goes on where the background thread dies before the work is over: clean-ups, releases,
//! and timers for which a caller waits.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Background, BackgroundThread, here, serving};
use crate::clock::Clock;
use crate::error::LockError;
use crate::mutex::Mutex;
use crate::shield::tell;

/// How often in a row work is begun anew. Where each thread dies at once, it must not start another
/// one for ever.
const RESTARTS: u32 = 3;
/// The death of a thread that has lived for this long does not count.
const STEADY: Duration = Duration::from_secs(60);

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

impl<W: LastingWork> LastingTask<W> {
    fn begin_anew(&self, work: W) -> Result<(), LockError> {
        let was_steady = Clock::Boot.now().since(self.thread.started) >= STEADY;
        let restarts = if was_steady { RESTARTS } else { self.restarts };
        match restarts.checked_sub(1) {
            Some(restarts) => spawn_in(self.background, work, restarts),
            None => Err(LockError::BackgroundThread {
                message: "it died again and again, within a minute each time".to_owned(),
            }),
        }
    }
}

impl<W: LastingWork> Drop for LastingTask<W> {
    fn drop(&mut self) {
        // Work that panicked is not begun anew.
        if let Some(work) = self.work.take().filter(|_| self.thread.has_died())
            && let Err(error) = self.begin_anew(work)
            && !self.thread.has_told_loss.swap(true, Ordering::Relaxed)
        {
            tell!(
                warn,
                %error,
                "releases, clean-ups or renewals were given up when the background thread died; \
                 locks are free when their leases end"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;
    use std::sync::mpsc::{Sender, channel};

    use tracing::Level;

    use super::super::tests::{background, kill};
    use super::*;
    use crate::tests::hear::hear;

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

    /// A process that lives for months may lose its thread now and then.
    #[test]
    fn the_death_of_a_thread_that_has_lived_for_long_does_not_count() {
        let (background, (sender, told)) = (background(), channel());
        let thread = serving(background).unwrap();
        let mut steady = BackgroundThread::new(thread.handle.clone(), thread.has_died.clone());
        steady.started = steady.started.minus(STEADY);
        let (work, thread_of_work) = (Some(Counting(0, sender)), Arc::new(steady));
        let task = LastingTask { work, thread: thread_of_work, background, restarts: 0 };
        kill(&thread);
        drop(task);
        for begun in 1..=RESTARTS {
            assert_eq!(told.recv(), Ok(begun));
            kill(&serving(background).unwrap());
        }
        assert!(told.recv().is_err());
    }

    /// The operator is told, once for each thread.
    #[test]
    fn work_that_is_given_up_is_told() {
        let (background, lines) = (background(), Arc::new(AtomicU32::new(0)));
        let count = Arc::clone(&lines);
        let _hearing = hear(move |event| {
            assert_eq!(*event.metadata().level(), Level::WARN);
            count.fetch_add(1, Ordering::Relaxed);
        });
        let (thread, (sender, _told)) = (BackgroundThread::dead(), channel());
        for _ in 0..2 {
            let (work, thread) = (Some(Counting(0, sender.clone())), Arc::clone(&thread));
            drop(LastingTask { work, thread, background, restarts: 0 });
        }
        assert_eq!(lines.load(Ordering::Relaxed), 1);
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
