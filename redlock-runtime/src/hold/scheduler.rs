//! The renewal scheduler: sleeps until the next lease is due, renews in batches, and stops leases
//! that are over.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::Notify;

use super::alarm::Alarm;
use super::in_flight::{InFlightLimit, InFlightLimits};
use super::record::Hold;
use super::renewal_batch::{BATCH, batches, company, early, magnitude};
use super::schedule::Schedule;
use super::step::Step;
use crate::backend::{Claim, Fault, Found, Release};
use crate::clock::{Clock, Moment};
use crate::error::LockError;
use crate::executor::Executor;
use crate::mutex::Mutex;
use crate::process::PerProcess;
use crate::shield::shielded;
use crate::state::LostReason;
use crate::{backoff, process, telemetry};

/// Renews the leases of every client that shares its executor and clock.
#[derive(Debug)]
pub(crate) struct Scheduler {
    state: Mutex<SchedulerState>,
    /// Tells the driver that a lease is due before the end of its sleep.
    wake: Notify,
    executor: Executor,
    clock: Clock,
    /// Makes the driver panic, so that a test sees what follows.
    #[cfg(test)]
    dies: std::sync::atomic::AtomicBool,
}

#[derive(Debug)]
struct SchedulerState {
    schedule: Schedule<Arc<Hold>>,
    is_driven: bool,
    /// Until when the driver sleeps. A lease that is due earlier must wake it.
    wakes_at: Moment,
    /// No lease will be registered any more.
    is_retired: bool,
}

impl SchedulerState {
    fn insert(&mut self, hold: &Arc<Hold>, at: Moment) {
        let place = self.schedule.insert(hold.id, at, Arc::clone(hold));
        hold.place.store(place, Ordering::Relaxed);
    }

    fn reschedule(&mut self, hold: &Hold, at: Moment) {
        self.schedule.reschedule(hold.id, hold.place.load(Ordering::Relaxed), at);
    }

    fn remove(&mut self, hold: &Hold) -> Option<Arc<Hold>> {
        self.schedule.remove(hold.id, hold.place.load(Ordering::Relaxed))
    }

    /// Up to a batch of leases to check now. The last of them may be a little early: a batch that
    /// is sent anyway takes along the leases that are due next.
    fn take_due(&mut self, now: Moment) -> Vec<Arc<Hold>> {
        let mut due = Vec::new();
        while due.len() < BATCH
            && let Some((at, hold)) = self.schedule.next()
        {
            let stop = hold.stop_at();
            let is_alike =
                |first: &Arc<Hold>| magnitude(first.terms.expire) == magnitude(hold.terms.expire);
            let comes_along =
                || due.first().is_some_and(is_alike) && at < stop && at <= now.plus(company(hold));
            if now < at && !comes_along() {
                break;
            }
            let hold = Arc::clone(hold);
            // Until an answer comes, only the stop is due. After the stop, the check of the lease
            // decides.
            self.reschedule(&hold, if now < stop { stop } else { Moment::NEVER });
            due.push(hold);
        }
        due
    }

    /// Is there nothing left to drive, and nothing to come?
    fn is_over(&self) -> bool {
        self.is_retired && self.schedule.next().is_none()
    }

    /// Does the driver have to be woken for a lease that is due at `at`?
    fn wakes_for(&mut self, at: Moment) -> bool {
        let is_first = at < self.wakes_at;
        self.wakes_at = self.wakes_at.min(at);
        is_first
    }
}

impl Scheduler {
    pub(crate) fn new(executor: Executor, clock: Clock) -> Arc<Self> {
        let state = SchedulerState {
            schedule: Schedule::new(),
            is_driven: false,
            wakes_at: Moment::NEVER,
            is_retired: false,
        };
        Arc::new(Self {
            state: Mutex::new(state),
            wake: Notify::new(),
            executor,
            clock,
            #[cfg(test)]
            dies: std::sync::atomic::AtomicBool::new(false),
        })
    }

    /// The scheduler of this process, on the background thread.
    pub(crate) fn of_process() -> Arc<Self> {
        static PROCESS: PerProcess<Arc<Scheduler>> = PerProcess::new();
        let new = || Self::new(Executor::BackgroundThread, Clock::Boot);
        PROCESS.of(process::id(), new).map_or_else(|_| new(), Arc::clone)
    }

    /// Registers a lease. From here on it is renewed, and stopped in time.
    pub(crate) fn register(self: &Arc<Self>, hold: &Arc<Hold>) -> Result<(), LockError> {
        let at = hold.first_look();
        let mut state = self.state.lock();
        state.insert(hold, at);
        let wakes = state.wakes_for(at);
        let is_driven = std::mem::replace(&mut state.is_driven, true);
        drop(state);
        if !is_driven {
            let guard = DriverGuard { scheduler: Arc::clone(self) };
            // Should the spawn fail, dropping `guard` tells the lease at once.
            return self.executor.spawn(async move { guard.drive().await });
        }
        if wakes {
            self.wake.notify_one();
        }
        Ok(())
    }

    /// Ends a hold for its holder, and its renewals. `false`: the hold had ended before.
    pub(crate) fn end(&self, hold: &Hold) -> bool {
        let is_held = hold.end();
        self.forget(hold);
        is_held
    }

    /// Removes a lease that its holder released. Takes effect before it returns: a released lock is
    /// never renewed by a batch that starts later.
    pub(crate) fn forget(&self, hold: &Hold) {
        let forgotten = self.state.lock().remove(hold);
        // Dropped outside of the mutex: it may be the last reference.
        drop(forgotten);
    }

    /// Checks a lease as soon as possible.
    pub(crate) fn look_at(&self, hold: &Hold) {
        let mut state = self.state.lock();
        state.reschedule(hold, Moment::ZERO);
        state.wakes_at = Moment::ZERO;
        drop(state);
        self.wake.notify_one();
    }

    /// No lease will be registered any more.
    pub(crate) fn retire(&self) {
        self.state.lock().is_retired = true;
        self.wake.notify_one();
    }

    /// The leases of one client.
    pub(crate) fn of_client(&self, client: u64) -> Vec<Arc<Hold>> {
        let state = self.state.lock();
        state.schedule.values().filter(|hold| hold.client.id == client).cloned().collect()
    }

    #[cfg(test)]
    pub(crate) fn kill_driver(&self) {
        self.dies.store(true, Ordering::Relaxed);
        self.wake.notify_one();
    }

    /// The leases that are due at `now`, in batches of one backend and of like times for an answer,
    /// and when to check again.
    fn collect(&self, now: Moment) -> (Vec<Vec<Arc<Hold>>>, Moment) {
        let mut due: HashMap<(*const (), u32), Vec<Arc<Hold>>> = HashMap::new();
        loop {
            let found = self.state.lock().take_due(now);
            if found.is_empty() {
                break;
            }
            let mut others = Vec::new();
            for hold in found {
                // Outside of the mutex: a stop wakes tasks, and wakers run foreign code.
                match shielded(|| hold.step(now, hold.leeway())).unwrap_or(Step::Forget) {
                    Step::Renew => {
                        // A batch is answered in the time of its shortest lease: a long one that
                        // is renewed with it could be lost to a server that is a little slow.
                        let backend = Arc::as_ptr(&hold.client.backend).cast();
                        let alike = (backend, magnitude(hold.renewal_reply()));
                        due.entry(alike).or_default().push(hold);
                    }
                    Step::Withdraw => self.free(&hold),
                    Step::Sleep(_) | Step::Forget => others.push(hold),
                }
            }
            self.plan(&others, now, 0.0);
        }
        let batches = due.into_values().flat_map(batches).collect();
        let mut state = self.state.lock();
        state.wakes_at = state.schedule.next().map_or(Moment::NEVER, |(at, _)| at);
        (batches, state.wakes_at)
    }

    /// Frees a lock that was taken back from its caller, who may never be polled again: repeats the
    /// release until it is answered, or refused for good, or the lease is over. The lease is not
    /// renewed any more. When the caller is polled or dropped after all, its ownership releases
    /// once more, with the clean-up that may be due.
    fn free(&self, hold: &Arc<Hold>) {
        self.forget(hold);
        // Dropped behind the loop, where the releases are counted.
        let _offered = hold.offer_ends();
        for claim in hold.claims() {
            let (clock, hold, claim) = (self.clock, Arc::clone(hold), claim.clone());
            let pending = hold.client.pending.begin();
            tokio::spawn(async move {
                let _pending = pending;
                let (client, mut failures) = (&hold.client, 0);
                while clock.now() < hold.server_end() {
                    let release = Release::of(&claim);
                    match client.backend.release(release, client.reply_timeout).await {
                        Err(fault) if !fault.is_final => {}
                        _ => return,
                    }
                    let pause = backoff::failed(failures, fastrand::f64());
                    clock.sleep_until(clock.now().plus(pause)).await;
                    failures += 1;
                }
            });
        }
    }

    /// Renews one batch: sends one script, and plans each lease by its answer.
    async fn renew(self: Arc<Self>, mut batch: Vec<Arc<Hold>>, limit: InFlightLimit) {
        let within = batch.iter().map(|hold| hold.renewal_reply()).min().unwrap_or_default();
        let _permit = limit.pass(within).await;
        // A holder may have released since the batch was collected.
        batch.retain(|hold| !hold.is_over());
        let Some(first) = batch.first() else { return };
        // The time is read before the command leaves: the server may begin the new lease at any
        // time after.
        let sent = self.clock.now();
        let claims: Vec<Claim> = batch.iter().flat_map(|hold| hold.renewal(sent)).collect();
        if let Some(due) = batch.iter().map(|hold| hold.due_at()).min() {
            telemetry::renewal_lag(sent.since(due));
        }
        let answer = first.client.backend.renew(&claims, within).await;
        settle(&batch, sent, &answer);
        let now = self.clock.now();
        // A full batch is renewed earlier than it must be, by a random share, so that leases that
        // were acquired together are not renewed together for ever.
        let head_start = if claims.len() >= BATCH { fastrand::f64() } else { 0.0 };
        self.plan(&batch, now, head_start);
    }

    /// Plans when to check each of these leases next, and removes those that are over.
    /// `head_start`: by which share of the allowed time the checks are early.
    fn plan(&self, holds: &[Arc<Hold>], now: Moment, head_start: f64) {
        let look = |hold: &Arc<Hold>| (hold.is_offered(), hold.step(now, Duration::ZERO));
        let steps: Vec<(bool, Step)> = holds.iter().map(look).collect();
        // Dropped outside of the mutex: these may be the last references.
        let (mut over, mut withdrawn) = (Vec::new(), Vec::new());
        let mut state = self.state.lock();
        let mut wakes = false;
        for (hold, (was_offered, step)) in holds.iter().zip(steps) {
            let at = match step {
                // The caller took the lock meanwhile, and may have requested a check before this.
                Step::Sleep(_) if was_offered && !hold.is_offered() => Moment::ZERO,
                Step::Sleep(at) => at.minus(early(hold).mul_f64(head_start)),
                Step::Renew => retry_at(hold, now),
                Step::Withdraw => {
                    over.push(state.remove(hold));
                    withdrawn.push(Arc::clone(hold));
                    continue;
                }
                Step::Forget => {
                    over.push(state.remove(hold));
                    continue;
                }
            };
            state.reschedule(hold, at);
            wakes |= state.wakes_for(at);
        }
        drop(state);
        for hold in withdrawn {
            self.free(&hold);
        }
        if wakes {
            self.wake.notify_one();
        }
    }
}

fn settle(batch: &[Arc<Hold>], sent: Moment, answer: &Result<Vec<Option<Found>>, Fault>) {
    match answer {
        Ok(outcomes) => {
            let mut outcomes = outcomes.as_slice();
            for hold in batch {
                let own;
                (own, outcomes) = outcomes.split_at(hold.key_count().min(outcomes.len()));
                shielded(|| settle_hold(hold, sent, own));
            }
        }
        Err(fault) => {
            let nodes = fault.nodes_text();
            for hold in batch {
                shielded(|| hold.doubt(&nodes));
            }
        }
    }
}

/// A hold is renewed if all of its keys are, and lost with any of them.
fn settle_hold(hold: &Hold, sent: Moment, outcomes: &[Option<Found>]) {
    let lost = |(place, found): (usize, &Option<Found>)| Some((place, (*found)?.loss()?));
    if let Some((place, reason)) = outcomes.iter().enumerate().find_map(lost) {
        hold.lose_key(place, reason);
    } else if outcomes == vec![Some(Found::Ours); hold.key_count()] {
        hold.extend(sent);
    } else {
        hold.doubt("too few nodes answered");
    }
}

/// A failed renewal is repeated soon, and never later than the stop.
fn retry_at(hold: &Hold, now: Moment) -> Moment {
    let pause =
        (hold.confirmed().lease / 50).clamp(Duration::from_millis(2), Duration::from_millis(250));
    now.plus(pause).min(hold.stop_at())
}

/// Guards the driver: when the driver ends (by a panic, or with its runtime), every lease it had is
/// lost at once, because no driver would renew or stop it any more.
struct DriverGuard {
    scheduler: Arc<Scheduler>,
}

impl DriverGuard {
    async fn drive(&self) {
        let scheduler = &self.scheduler;
        let (mut limits, alarm) = (InFlightLimits::default(), Alarm::new(scheduler.clock));
        loop {
            #[cfg(test)]
            assert!(!scheduler.dies.swap(false, Ordering::Relaxed), "killed");
            if scheduler.state.lock().is_over() {
                return;
            }
            let (batches, next) = scheduler.collect(scheduler.clock.now());
            limits.tidy();
            for batch in batches {
                let limit = limits.of(&batch[0].client.backend);
                tokio::spawn(Arc::clone(scheduler).renew(batch, limit));
            }
            tokio::select! {
                () = scheduler.wake.notified() => {}
                () = alarm.rings_at(next) => {}
            }
        }
    }
}

impl Drop for DriverGuard {
    fn drop(&mut self) {
        let orphans = {
            let mut state = self.scheduler.state.lock();
            state.is_driven = false;
            state.schedule.drain()
        };
        for hold in orphans {
            shielded(|| hold.lose(LostReason::Unreachable));
        }
    }
}
