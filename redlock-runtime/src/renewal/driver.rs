//! The renewal scheduler: sleeps until the next lease is due, renews in batches, stops what is
//! over.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::hold::{Hold, Step};
use super::schedule::Schedule;
use crate::backend::{Claim, Fault, Found};
use crate::clock::{Clock, Moment};
use crate::error::LockError;
use crate::host::Host;
use crate::state::LostReason;
use crate::telemetry;

/// Leases in one script: enough to save round trips, few enough not to block the server for others.
const BATCH: usize = 100;

/// Renews the leases of every client that shares its host and clock.
#[derive(Debug)]
pub(crate) struct Scheduler {
    state: Mutex<State>,
    /// Tells the driver that something earlier than its sleep is due.
    wake: Notify,
    host: Host,
    clock: Clock,
    /// Makes the driver panic, to see that somebody notices.
    #[cfg(test)]
    dies: std::sync::atomic::AtomicBool,
}

#[derive(Debug)]
struct State {
    schedule: Schedule<Arc<Hold>>,
    is_driven: bool,
}

impl Scheduler {
    pub(crate) fn new(host: Host, clock: Clock) -> Arc<Self> {
        let state = State { schedule: Schedule::new(), is_driven: false };
        Arc::new(Self {
            state: Mutex::new(state),
            wake: Notify::new(),
            host,
            clock,
            #[cfg(test)]
            dies: std::sync::atomic::AtomicBool::new(false),
        })
    }

    /// The scheduler of this process, on the keeper.
    pub(crate) fn of_process() -> Arc<Self> {
        static PROCESS: LazyLock<Arc<Scheduler>> =
            LazyLock::new(|| Scheduler::new(Host::Keeper, Clock::Boot));
        Arc::clone(&PROCESS)
    }

    /// Takes a lease into care. From here on it is renewed, and stopped in time.
    pub(crate) fn register(self: &Arc<Self>, hold: &Arc<Hold>) -> Result<(), LockError> {
        let Step::Sleep(at) = hold.step(self.clock.now()) else {
            // Due already: the driver looks at it as soon as it runs.
            return self.insert(hold, Moment::ZERO);
        };
        self.insert(hold, at)
    }

    fn insert(self: &Arc<Self>, hold: &Arc<Hold>, at: Moment) -> Result<(), LockError> {
        let mut state = self.state();
        let is_first = state.schedule.next().is_none_or(|next| at < next);
        state.schedule.insert(hold.id, at, Arc::clone(hold));
        if !state.is_driven {
            state.is_driven = true;
            drop(state);
            let care = Care { scheduler: Arc::clone(self) };
            // Should the spawn fail, dropping `care` tells the lease at once.
            return self.host.spawn(async move { care.drive().await });
        }
        drop(state);
        if is_first {
            self.wake.notify_one();
        }
        Ok(())
    }

    /// Lets go of a lease that its holder released. Takes effect before it returns: a released lock
    /// is never renewed by a batch that starts later.
    pub(crate) fn forget(&self, hold: &Hold) {
        let forgotten = self.state().schedule.remove(hold.id);
        // Dropped outside of the mutex: it may be the last reference.
        drop(forgotten);
    }

    /// The leases of one client.
    pub(crate) fn of_client(&self, client: u64) -> Vec<Arc<Hold>> {
        let state = self.state();
        state.schedule.values().filter(|hold| hold.client == client).cloned().collect()
    }

    #[cfg(test)]
    pub(crate) fn kill_driver(&self) {
        self.dies.store(true, std::sync::atomic::Ordering::Relaxed);
        self.wake.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is due at `now`, in batches of one backend each, and when to look again.
    fn collect(&self, now: Moment) -> (Vec<Vec<Arc<Hold>>>, Moment) {
        let mut due: HashMap<*const (), Vec<Arc<Hold>>> = HashMap::new();
        loop {
            let found = self.state().schedule.due(now);
            let Some(hold) = found else { break };
            // Outside of the mutex: a stop wakes tasks, and wakers run code of others.
            match hold.step(now) {
                Step::Sleep(at) => self.state().schedule.reschedule(hold.id, at),
                Step::Forget => self.forget(&hold),
                Step::Renew => {
                    // Until the answer comes, the next thing that is due is the stop.
                    self.state().schedule.reschedule(hold.id, hold.stop_at());
                    due.entry(Arc::as_ptr(&hold.backend).cast()).or_default().push(hold);
                }
            }
        }
        let next = self.state().schedule.next().unwrap_or(Moment::NEVER);
        let batches = due
            .into_values()
            .flat_map(|holds| holds.chunks(BATCH).map(<[Arc<Hold>]>::to_vec).collect::<Vec<_>>());
        (batches.collect(), next)
    }

    /// One batch: one script, its answers, and what each lease does next.
    async fn renew(self: Arc<Self>, mut batch: Vec<Arc<Hold>>) {
        // A holder may have let go since the batch was put together.
        batch.retain(|hold| !hold.over().is_cancelled());
        let Some(first) = batch.first() else { return };
        let claims: Vec<Claim> = batch.iter().map(|hold| hold.claim.clone()).collect();
        let within = batch.iter().map(|hold| hold.renewal_reply()).min().unwrap_or_default();
        // Before the command leaves: the server may begin the new lease at any time after this.
        let sent = self.clock.now();
        if let Some(due) = batch.iter().map(|hold| hold.due_at()).min() {
            telemetry::renewal_lag(sent.since(due));
        }
        let answer = first.backend.renew(&claims, within).await;
        settle(&batch, sent, &answer);
        let now = self.clock.now();
        for hold in &batch {
            match hold.step(now) {
                Step::Sleep(at) => self.state().schedule.reschedule(hold.id, at),
                Step::Renew => self.state().schedule.reschedule(hold.id, retry_at(hold, now)),
                Step::Forget => self.forget(hold),
            }
        }
        self.wake.notify_one();
    }
}

fn settle(batch: &[Arc<Hold>], sent: Moment, answer: &Result<Vec<Option<Found>>, Fault>) {
    match answer {
        Ok(outcomes) => {
            for (hold, outcome) in batch.iter().zip(outcomes) {
                match outcome {
                    Some(Found::Ours) => hold.extend(sent),
                    Some(Found::Gone) => drop(hold.lose(LostReason::Expired)),
                    Some(Found::Stolen) => drop(hold.lose(LostReason::Stolen)),
                    None => hold.doubt("too few nodes answered"),
                }
            }
        }
        Err(fault) => {
            let nodes = fault.nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            for hold in batch {
                hold.doubt(&nodes);
            }
        }
    }
}

/// A renewal that failed is tried again soon, and never later than the stop.
fn retry_at(hold: &Hold, now: Moment) -> Moment {
    let pause =
        (hold.confirmed().lease / 50).clamp(Duration::from_millis(2), Duration::from_millis(250));
    now.plus(pause).min(hold.stop_at())
}

/// The driver's duty of care: however it ends (a panic, or the end of its runtime), every lease it
/// had is told, because nobody would renew or stop it any more.
struct Care {
    scheduler: Arc<Scheduler>,
}

impl Care {
    async fn drive(&self) {
        let scheduler = &self.scheduler;
        loop {
            #[cfg(test)]
            assert!(!scheduler.dies.swap(false, std::sync::atomic::Ordering::Relaxed), "killed");
            let (batches, next) = scheduler.collect(scheduler.clock.now());
            for batch in batches {
                tokio::spawn(Arc::clone(scheduler).renew(batch));
            }
            tokio::select! {
                () = scheduler.wake.notified() => {}
                () = scheduler.clock.sleep_until(next) => {}
            }
        }
    }
}

impl Drop for Care {
    fn drop(&mut self) {
        let orphans = {
            let mut state = self.scheduler.state();
            state.is_driven = false;
            state.schedule.drain()
        };
        for hold in orphans {
            hold.lose(LostReason::Unreachable);
        }
    }
}
