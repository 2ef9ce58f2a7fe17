//! Lets releases and clean-ups leave before a thread ends.
//!
//! They would otherwise race with the end of the process: for example after a guard that is dropped
//! as the last action of a program (the end of `main`, a panic), a call that returned before its
//! release was answered, or a call that was cancelled while it acquired. A release never blocks;
//! the end of its thread does, and so does the end of the thread on which a client was made, which
//! is usually `main`. These ends wait while one answer follows another: for [`QUIET`] at most
//! without any, and for [`LONGEST`] in all. What thread-locals let go of afterwards is waited for
//! in the same way.

use std::collections::BTreeSet;
use std::sync::{Condvar, MutexGuard, PoisonError};
use std::thread::LocalKey;
use std::time::{Duration, Instant};

use super::process;
use super::process::PerProcess;
use crate::error::LockError;
use crate::mutex::Mutex;

/// Longer than a round trip to a server far away, and than a busy machine needs for one.
const QUIET: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(2);
const STEP: Duration = Duration::from_millis(10);
/// How often a wait includes work that follows from the work it waits for: an abandoned attempt may
/// be granted a lock, which has to be released as well.
const CONSEQUENCES: usize = 4;

static UNSENT: PerProcess<UnsentWork> = PerProcess::new();

thread_local! {
    static AT_THREAD_END: AtThreadEnd = const { AtThreadEnd };
    // A thread-local of the program that was used before `AT_THREAD_END` is dropped after it, and
    // may own a guard, or a runtime whose tasks do. When it lets go of them, the next of these is
    // used for the first time, which is dropped right after it. Each such thread-local takes one;
    // a fifth is not waited for.
    static AFTER_ONE: AtThreadEnd = const { AtThreadEnd };
    static AFTER_TWO: AtThreadEnd = const { AtThreadEnd };
    static AFTER_THREE: AtThreadEnd = const { AtThreadEnd };
    static AFTER_FOUR: AtThreadEnd = const { AtThreadEnd };
}

static AFTERWARDS: [&LocalKey<AtThreadEnd>; 4] =
    [&AFTER_ONE, &AFTER_TWO, &AFTER_THREE, &AFTER_FOUR];

struct AtThreadEnd;

impl Drop for AtThreadEnd {
    fn drop(&mut self) {
        // The child of a fork has nothing to wait for: the unfinished work belongs to its parent.
        if let Ok(work) = here() {
            // Reaching the limits is not a failure: leases end by themselves.
            work.have_left(QUIET, LONGEST);
        }
    }
}

fn here() -> Result<&'static UnsentWork, LockError> {
    UNSENT.of(process::id(), UnsentWork::default)
}

/// From here on the end of this thread waits for unsent work.
pub(crate) fn attend_end() {
    // An error means that this thread is ending already, and has waited once.
    if AT_THREAD_END.try_with(|_| ()).is_err() {
        attend_rest_of_end();
    }
}

#[cold]
fn attend_rest_of_end() {
    let _ = AFTERWARDS.iter().any(|end| end.try_with(|_| ()).is_ok());
}

/// Does a thread that ends wait for unsent work?
pub(crate) fn is_thread_waiting() -> bool {
    here().is_ok_and(|work| work.state.lock().ends > 0)
}

/// Work of an abandoned or released lock that the server may not know about yet.
#[derive(Debug)]
pub(crate) struct Unsent {
    work: Option<&'static UnsentWork>,
    id: u64,
}

impl Unsent {
    /// To be called on the thread that releases or abandons.
    pub(crate) fn here() -> Self {
        attend_end();
        // Without a slot for this process, no command can be sent either.
        here().map_or(Self { work: None, id: 0 }, UnsentWork::one_more)
    }

    #[cfg(test)]
    pub(crate) fn id(&self) -> u64 {
        self.id
    }
}

impl Drop for Unsent {
    fn drop(&mut self) {
        if let Some(work) = self.work {
            work.one_has_left(self.id);
        }
    }
}

/// The unsent work of this process.
#[derive(Debug, Default)]
struct UnsentWork {
    state: Mutex<Unfinished>,
    progress: Condvar,
}

#[derive(Debug, Default)]
struct Unfinished {
    /// The ids of the work that is not finished.
    open: BTreeSet<u64>,
    /// How many ids have been given out.
    begun: u64,
    /// How many of them are finished.
    left: u64,
    /// How many threads wait at their end.
    ends: usize,
}

impl UnsentWork {
    fn one_more(&'static self) -> Unsent {
        let mut state = self.state.lock();
        let id = state.begun;
        state.begun += 1;
        state.open.insert(id);
        Unsent { work: Some(self), id }
    }

    fn one_has_left(&self, id: u64) {
        let mut state = self.state.lock();
        state.open.remove(&id);
        state.left += 1;
        if state.ends > 0 {
            self.progress.notify_all();
        }
    }

    /// Waits for all work begun so far, and for the work that follows from it. Later work of other
    /// threads is not waited for. `false`: no work was finished for `quiet`, or `longest` is over.
    fn have_left(&self, quiet: Duration, longest: Duration) -> bool {
        let mut state = self.state.lock();
        state.ends += 1;
        let (mut in_all, mut is_done) = (Duration::ZERO, true);
        for _ in 0..CONSEQUENCES {
            // Work that follows from other work begins before that other work is finished.
            let begun = state.begun;
            while is_done && state.open.first().is_some_and(|id| *id < begun) {
                let left = state.left;
                let mut in_silence = Duration::ZERO;
                while state.left == left && in_silence < quiet && in_all < longest {
                    let passed;
                    (state, passed) = self.one_step(state, left);
                    in_silence += passed;
                    in_all += passed;
                }
                is_done = state.left != left;
            }
        }
        state.ends -= 1;
        is_done
    }

    /// Waits for progress for a [`STEP`]. Returns how long that took; a pause of the whole machine
    /// counts as one step only, because no server could have answered meanwhile.
    fn one_step<'a>(
        &'a self,
        state: MutexGuard<'a, Unfinished>,
        left: u64,
    ) -> (MutexGuard<'a, Unfinished>, Duration) {
        let start = Instant::now();
        let is_quiet = |state: &mut Unfinished| state.left == left;
        let waited = self.progress.wait_timeout_while(state, STEP, is_quiet);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        (state, start.elapsed().min(STEP))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::OnceCell;
    use std::sync::LazyLock;
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    const AT_ONCE: Duration = STEP;
    const FOR_EVER: Duration = Duration::from_secs(3600);

    /// The test has times of its own: other tests of this process leave unsent work, too.
    #[test]
    fn what_was_let_go_of_is_waited_for_while_something_leaves() {
        static WORK: LazyLock<UnsentWork> = LazyLock::new(UnsentWork::default);
        let work = &*WORK;
        assert!(work.have_left(FOR_EVER, FOR_EVER));
        let mut three: Vec<_> = (0..3).map(|_| work.one_more()).collect();
        assert!(!work.have_left(AT_ONCE, FOR_EVER));
        assert!(!work.have_left(FOR_EVER, AT_ONCE));
        let thread = std::thread::spawn(|| work.have_left(FOR_EVER, FOR_EVER));
        while work.state.lock().ends == 0 {
            std::thread::yield_now();
        }
        while let Some(unsent) = three.pop() {
            assert!(!thread.is_finished());
            drop(unsent);
        }
        assert!(thread.join().unwrap());
        assert_eq!(work.state.lock().ends, 0);
        assert!(work.state.lock().open.is_empty());
    }

    #[test]
    fn what_follows_is_waited_for_and_what_others_let_go_of_is_not() {
        static WORK: LazyLock<UnsentWork> = LazyLock::new(UnsentWork::default);
        let work = &*WORK;
        let first = work.one_more();
        let thread = std::thread::spawn(|| work.have_left(FOR_EVER, FOR_EVER));
        while work.state.lock().ends == 0 {
            std::thread::yield_now();
        }
        let mut open = work.one_more();
        drop(first);
        let until = Instant::now() + AT_ONCE;
        while Instant::now() < until {
            assert!(!thread.is_finished());
            std::thread::yield_now();
        }
        // Some work is unfinished at any time.
        while !thread.is_finished() {
            open = work.one_more();
        }
        assert!(thread.join().unwrap());
        drop(open);
    }

    /// Gives work away when the locals of its thread are dropped.
    struct LetsGoLate(Sender<Unsent>);

    impl Drop for LetsGoLate {
        fn drop(&mut self) {
            self.0.send(Unsent::here()).unwrap();
        }
    }

    /// What is used first is dropped last.
    #[test]
    fn what_the_locals_of_a_thread_let_go_of_is_waited_for() {
        thread_local! {
            static FIRST: OnceCell<LetsGoLate> = const { OnceCell::new() };
            static SECOND: OnceCell<LetsGoLate> = const { OnceCell::new() };
        }
        let (start, (sender, late)) = (Instant::now(), channel());
        let thread = std::thread::spawn(move || {
            for local in [&FIRST, &SECOND] {
                local.with(|local| _ = local.set(LetsGoLate(sender.clone())));
            }
            attend_end();
        });
        thread.join().unwrap();
        assert!(start.elapsed() >= 2 * QUIET);
        assert_eq!(late.iter().count(), 2);
    }

    #[test]
    fn a_thread_that_let_go_ends_after_its_release_has_left_or_the_limit() {
        let start = Instant::now();
        // The work is given away, and not finished while the thread lives.
        let unsent = std::thread::spawn(Unsent::here).join().unwrap();
        assert!(start.elapsed() >= QUIET);
        drop(unsent);
    }
}
