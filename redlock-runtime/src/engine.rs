//! The engine: the state that all locks of one client share.

use std::collections::HashMap;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::runtime;
use tokio::sync::Semaphore;
use tokio::task::coop::unconstrained;

use super::clock::Clock;
use super::denial::Denial;
use super::executor::Executor;
use super::pending::PendingCommands;
use super::report::Reports;
use super::shield::tell;
use super::{background_thread, process};
use crate::backend::{BackgroundTask, FifoQueue, LockBackend};
use crate::background_thread::Resident;
use crate::background_thread::lasting_work::LastingWork;
use crate::blocking::blocks_thread;
use crate::error::LockError;
use crate::hold::{Hold, HoldingClient, RENEWALS_IN_FLIGHT, Scheduler};
use crate::key::LockKey;
use crate::kind::Kind;
use crate::local_queue::{CountedRelease, LocalQueues, QueueHandle, Shutdown, Shutdowns};
use crate::lock_order::LockOrder;
use crate::mutex::Mutex;
use crate::owner::ClientId;
use crate::shielded_waker::shield_wakers;
use crate::thread_exit;

/// One client's backend, with its queues and schedulers.
#[derive(Debug)]
pub(crate) struct Engine {
    /// What each hold of the client needs as well. The engine derefs to it.
    pub(crate) holding: Arc<HoldingClient>,
    pub(crate) client: ClientId,
    /// How long an acquire may take: `reply_timeout` for each command that it sends after another.
    pub(crate) acquire_timeout: Duration,
    /// How long a call waits for servers that do not answer; `None`: for its whole `wait`.
    pub(crate) outage_wait: Option<Duration>,
    queues: Arc<LocalQueues>,
    pub(crate) lock_order: LockOrder,
    place: Placement,
    /// Whether the user of this client is denied the queue of the server.
    queue_denial: Denial,
}

impl Deref for Engine {
    type Target = HoldingClient;

    fn deref(&self) -> &HoldingClient {
        &self.holding
    }
}

impl Resident for HoldingClient {
    fn task(&self) -> Option<BackgroundTask> {
        self.backend.abilities().background_work?.background_task()
    }
}

/// Where the client's background work runs, and on which clock.
#[derive(Debug)]
enum Placement {
    /// On the background thread, in real time.
    BackgroundThread(Arc<Scheduler>),
    /// On the clock of each caller, so that a clock that a test has paused drives renewals, too.
    /// Keyed by the runtime of such a clock; `None` stands for real time, which the background
    /// thread serves.
    Callers(Mutex<HashMap<Option<runtime::Id>, Arc<Scheduler>>>),
}

impl Placement {
    fn clock(&self) -> Clock {
        match self {
            Self::BackgroundThread(_) => Clock::Boot,
            Self::Callers(_) => Clock::Tokio,
        }
    }
}

/// The parts from which an engine is made.
pub(crate) struct Parts {
    pub(crate) backend: Arc<dyn LockBackend>,
    pub(crate) client_name: String,
    pub(crate) reply_timeout: Duration,
    pub(crate) outage_wait: Option<Duration>,
    pub(crate) max_waiters: usize,
    /// Whether tasks run on the runtimes of the callers, not on the background thread.
    pub(crate) is_embedded: bool,
    pub(crate) reports: Arc<Reports>,
}

impl Engine {
    pub(crate) fn new(parts: Parts) -> Result<Arc<Self>, LockError> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let Parts { backend, client_name, reply_timeout, .. } = parts;
        let Parts { outage_wait, max_waiters, is_embedded, reports, .. } = parts;
        let process = process::begin();
        let place = if is_embedded {
            Placement::Callers(Mutex::default())
        } else {
            Placement::BackgroundThread(Scheduler::of_process())
        };
        if !is_embedded {
            thread_exit::attend_end();
        }
        let acquire_timeout = reply_timeout.saturating_mul(1 + backend.abilities().further_steps);
        let has_background_work = backend.abilities().background_work.is_some();
        let holding = Arc::new(HoldingClient {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            process,
            backend,
            reply_timeout,
            reports,
            pending: PendingCommands::default(),
            clock: place.clock(),
            renewals: Semaphore::new(RENEWALS_IN_FLIGHT),
        });
        if has_background_work {
            background_thread::house(&holding)?;
        }
        Ok(Arc::new(Self {
            holding,
            client: ClientId::new(&client_name),
            acquire_timeout,
            outage_wait,
            queues: LocalQueues::new(max_waiters),
            lock_order: LockOrder::default(),
            place,
            queue_denial: Denial::default(),
        }))
    }

    pub(crate) fn shutdowns(&self) -> &Shutdowns {
        &self.queues.shutdowns
    }

    /// Begins a shutdown, which ends when the returned value is dropped.
    pub(crate) fn shut_down(&self) -> Shutdown {
        self.queues.shut_down()
    }

    /// Fails if a shutdown ends a call that `noted` how many had begun. `key`: what the call wants.
    pub(crate) fn check_shutdown(&self, noted: Option<u64>, key: &str) -> Result<(), LockError> {
        let is_refused = self.shutdowns().refuse(noted);
        if is_refused { Err(LockError::ShuttingDown { key: key.to_owned() }) } else { Ok(()) }
    }

    /// Fails for a kind of lock that the backend cannot hold.
    pub(crate) fn check_kind(&self, kind: Kind, min_hold: Duration) -> Result<Kind, LockError> {
        if kind.is_shared() {
            self.check_shared(kind, min_hold)?;
        }
        Ok(kind)
    }

    #[cold]
    fn check_shared(&self, kind: Kind, min_hold: Duration) -> Result<(), LockError> {
        if !min_hold.is_zero() {
            return Err(LockError::config(
                "`min_hold` is for a job that runs once, so for an exclusive lock; leave it out \
                 for a read lock or a permit",
            ));
        }
        if matches!(kind, Kind::Permits(_)) && !self.backend.abilities().has_permits {
            return Err(LockError::config(
                "`permits` cannot be counted where several masters decide, or with \
                 `restart_guard`: three holders of two permits fit on five nodes, each with a \
                 majority; use a client of one master, without the guard, for them",
            ));
        }
        Ok(())
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// Where a task of this client runs that is started by the current caller.
    pub(crate) fn executor(&self) -> Executor {
        match self.place {
            Placement::BackgroundThread(_) => Executor::BackgroundThread,
            Placement::Callers(_) => Executor::of_clock(),
        }
    }

    /// Does the backend answer at once, without I/O?
    pub(crate) fn is_embedded(&self) -> bool {
        matches!(self.place, Placement::Callers(_))
    }

    /// Does `work` in the background. That of an embedded backend is usually done when this
    /// returns: it comes before the caller's next command.
    pub(crate) fn in_background(&self, mut work: impl LastingWork) -> Result<(), LockError> {
        if !self.is_embedded() {
            return self.executor().spawn_lasting(work);
        }
        let mut work = Box::pin(async move { work.run().await });
        if self.is_done_here(work.as_mut()) { Ok(()) } else { self.executor().spawn(work) }
    }

    /// Polls background work of an embedded backend once, on the thread of its caller: usually it
    /// is done then, before the caller goes on. What it spawns where no runtime serves it goes to
    /// the background thread. `false`: it has to be spawned, as it always has on a thread that is
    /// ending and has dropped tokio's locals.
    fn is_done_here(&self, work: Pin<&mut impl Future<Output = ()>>) -> bool {
        let may_poll = self.may_poll_here();
        let background = match runtime::Handle::try_current() {
            Ok(_) if may_poll => None,
            Err(error) if error.is_thread_local_destroyed() => return false,
            _ => background_thread::handle().ok(),
        };
        if background.is_none() && !may_poll {
            return false;
        }
        let _entered = background.as_ref().map(runtime::Handle::enter);
        work.poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    /// May the caller's thread poll commands of an embedded backend? Those that are not synchronous
    /// need timers, and tasks. A runtime with a paused clock has both; any other one, if there is
    /// one, may have neither, and the background thread stands in for it.
    fn may_poll_here(&self) -> bool {
        self.backend.abilities().is_synchronous || matches!(self.executor(), Executor::Runtime(_))
    }

    /// Boxes work that its caller polls. On the way to a server the wakers of the caller are
    /// shielded, and the cooperative budget of its task does not count.
    pub(crate) fn polled_by_caller<T>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Pin<Box<dyn Future<Output = T> + Send>> {
        if self.is_embedded() {
            return Box::pin(work);
        }
        // Every answer comes from another thread or over a socket, so other tasks still have their
        // turn. A task that has used up its cooperative budget and blocks on a lock would never see
        // the answer.
        Box::pin(shield_wakers(unconstrained(work)))
    }

    /// A handle of the local queue of a key. All callers of one queue have the same clock. Callers
    /// of a shared kind do not wait for each other: each has a queue of its own.
    pub(crate) fn local_queue(&self, key: &LockKey, kind: Kind) -> QueueHandle {
        self.queues.join(key, kind, self.executor().runtime_id())
    }

    /// Counts a lock of an abandoned call, which may have to be freed.
    pub(crate) fn abandoned(&self, key: &LockKey) -> CountedRelease {
        self.queues.abandoned(key)
    }

    /// The quickest route to the backend that can be awaited here, if there is one. Otherwise the
    /// backend is reached from the [`executor`](Self::executor) only. A thread that blocks may be
    /// the one that drives its runtime, and the connections of that would stand still.
    pub(crate) fn route(&self) -> Option<Arc<dyn LockBackend>> {
        match self.place {
            Placement::BackgroundThread(_) if blocks_thread() => None,
            Placement::BackgroundThread(_) => {
                let local = self.backend.abilities().local_connection?;
                local.local_connection()
            }
            Placement::Callers(_) => self.may_poll_here().then(|| Arc::clone(&self.backend)),
        }
    }

    /// The queue of waiting processes on the server, if there is one and this client may use it.
    pub(crate) fn fifo_queue(&self) -> Option<&dyn FifoQueue> {
        let is_denied = self.queue_denial.lasts(|| self.clock().now());
        self.backend.abilities().fifo_queue.filter(|_| !is_denied)
    }

    /// Avoids that queue for a while.
    pub(crate) fn queue_denied(&self) {
        if self.queue_denial.denied(self.clock().now()) {
            tell!(
                warn,
                "this user may not queue for locks on the server, so waiting callers ask again \
                 and again; grant what docs/security.md lists, which is noticed within a minute"
            );
        }
    }

    /// The server allowed this client to use its queue.
    pub(crate) fn queue_allowed(&self) {
        self.queue_denial.allowed();
    }

    /// The scheduler for a lease that is granted to the current caller.
    pub(crate) fn scheduler(&self) -> Arc<Scheduler> {
        match &self.place {
            Placement::BackgroundThread(scheduler) => Arc::clone(scheduler),
            Placement::Callers(schedulers) => scheduler_here(schedulers),
        }
    }

    /// The leases that this client holds now.
    pub(crate) fn held(&self) -> Vec<Arc<Hold>> {
        let mut held: Vec<_> = match &self.place {
            Placement::BackgroundThread(scheduler) => scheduler.of_client(self.id),
            Placement::Callers(schedulers) => {
                let schedulers = schedulers.lock();
                schedulers.values().flat_map(|known| known.of_client(self.id)).collect()
            }
        };
        held.sort_by_key(|hold| hold.id);
        held
    }
}

/// The scheduler on the clock of the caller.
fn scheduler_here(
    schedulers: &Mutex<HashMap<Option<runtime::Id>, Arc<Scheduler>>>,
) -> Arc<Scheduler> {
    let executor = Executor::of_clock();
    let id = executor.runtime_id();
    let mut schedulers = schedulers.lock();
    // The scheduler of a runtime that has ended has no other reference.
    schedulers.retain(|known, shared| *known == id || Arc::strong_count(shared) > 1);
    let new = || Scheduler::new(executor, Clock::Tokio);
    Arc::clone(schedulers.entry(id).or_insert_with(new))
}

impl Drop for Engine {
    /// A child of a fork must not close the connections of its parent: their runtime does not run
    /// in the child.
    fn drop(&mut self) {
        if self.check_process().is_err() {
            return std::mem::forget(Arc::clone(&self.backend));
        }
        if let Placement::Callers(schedulers) = &self.place {
            schedulers.lock().values().for_each(|scheduler| scheduler.retire());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{Memory, MemoryStore};
    use crate::tests::fake::parts;

    /// Its driver, on the background thread, ends with it.
    #[tokio::test]
    async fn a_client_in_memory_leaves_no_scheduler_behind() {
        let redlock = crate::Redlock::builder().memory().build().await.unwrap();
        drop(redlock.lock("k").acquire().await.unwrap());
        let scheduler = Arc::downgrade(&redlock.engine().scheduler());
        drop(redlock);
        let ends = async {
            while scheduler.upgrade().is_some() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), ends).await.expect("it ends");
    }

    /// Callers on paused clocks come and go, as in tests: each has renewals of its own, and the
    /// schedulers of ended runtimes do not accumulate.
    #[test]
    fn each_runtime_has_a_scheduler_of_its_own_until_it_ends() {
        let engine = Engine::new(parts(Arc::new(Memory::new(MemoryStore::new())))).unwrap();
        let on_a_runtime = || {
            let runtime =
                runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
            let runtime = runtime.unwrap();
            runtime.block_on(async {
                assert!(Arc::ptr_eq(&engine.scheduler(), &engine.scheduler()));
                engine.scheduler()
            })
        };
        let held = on_a_runtime();
        assert!(!Arc::ptr_eq(&held, &on_a_runtime()));
        for _ in 0..10 {
            drop(on_a_runtime());
        }
        let Placement::Callers(schedulers) = &engine.place else { unreachable!("it is embedded") };
        let count = || schedulers.lock().len();
        assert_eq!(count(), 2, "that of the last runtime, and the one that is held");
        drop((held, on_a_runtime()));
        drop(on_a_runtime());
        assert_eq!(count(), 1);
    }
}
