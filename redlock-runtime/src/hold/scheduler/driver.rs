//! The task that checks each lease when it is due.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use super::{Scheduler, SchedulerState};
use crate::background_thread::lasting_work::LastingWork;
use crate::clock::Moment;
use crate::error::LockError;
use crate::hold::action::Action;
use crate::hold::alarm::Alarm;
use crate::hold::record::Hold;
use crate::hold::renewal_batch::{
    BATCH, batches, early_after_full_batch, magnitude, may_join_early_by,
};
use crate::shield::shielded;
use crate::state::LostReason;

impl SchedulerState {
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
            let comes_along = || {
                due.first().is_some_and(is_alike)
                    && at < stop
                    && at <= now.plus(may_join_early_by(hold))
            };
            if now < at && !comes_along() {
                break;
            }
            let hold = Arc::clone(hold);
            // Until an answer comes, only the stop is due. After the stop, the check of the lease
            // decides.
            self.schedule.reschedule(&hold, if now < stop { stop } else { Moment::NEVER });
            due.push(hold);
        }
        due
    }

    /// Is there nothing left to drive, and nothing to come?
    fn is_over(&self) -> bool {
        self.is_retired && self.schedule.next().is_none()
    }
}

impl Scheduler {
    pub(super) fn start_driver(self: &Arc<Self>) -> Result<(), LockError> {
        let guard = DriverGuard { scheduler: Arc::clone(self), has_begun: false };
        // Should the spawn fail, dropping `guard` tells the lease at once.
        self.executor.spawn_lasting(guard)
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
                match shielded(|| hold.next_action(now, hold.leeway())).unwrap_or(Action::Forget) {
                    Action::Renew => {
                        // A batch is answered in the time of its shortest lease: a long one that
                        // is renewed with it could be lost to a server that is a little slow.
                        let backend = Arc::as_ptr(&hold.client.backend).cast();
                        let alike = (backend, magnitude(hold.renewal_reply()));
                        due.entry(alike).or_default().push(hold);
                    }
                    Action::Withdraw => self.free(&hold),
                    Action::Sleep(_) | Action::Forget => others.push(hold),
                }
            }
            self.plan(&others, now, None);
        }
        let batches = due.into_values().flat_map(batches).collect();
        let mut state = self.state.lock();
        state.wakes_at = state.schedule.next().map_or(Moment::NEVER, |(at, _)| at);
        (batches, state.wakes_at)
    }

    /// Plans when to check each of these leases next, and removes those that are over.
    /// `head_start`: by which share of the allowed time the checks are early that follow a renewal;
    /// `None`: none was tried.
    pub(super) fn plan(&self, holds: &[Arc<Hold>], now: Moment, head_start: Option<f64>) {
        let look = |hold: &Arc<Hold>| (hold.is_offered(), hold.next_action(now, Duration::ZERO));
        let actions: Vec<(bool, Action)> = holds.iter().map(look).collect();
        // Dropped outside of the mutex: these may be the last references.
        let (mut over, mut withdrawn) = (Vec::new(), Vec::new());
        let mut state = self.state.lock();
        let mut wakes = false;
        for (hold, (was_offered, action)) in holds.iter().zip(actions) {
            let at = match action {
                // The caller took the lock meanwhile, and may have requested a check before this.
                Action::Sleep(_) if was_offered && !hold.is_offered() => Moment::ZERO,
                Action::Sleep(at) => {
                    let share = head_start.unwrap_or_default();
                    at.minus(early_after_full_batch(hold).mul_f64(share))
                }
                // Its caller took it meanwhile.
                Action::Renew if head_start.is_none() => now,
                Action::Renew => retry_at(hold, now),
                Action::Withdraw => {
                    over.push(state.schedule.remove(hold));
                    withdrawn.push(Arc::clone(hold));
                    continue;
                }
                Action::Forget => {
                    over.push(state.schedule.remove(hold));
                    continue;
                }
            };
            state.schedule.reschedule(hold, at);
            wakes |= state.wake_no_later_than(at);
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

/// A failed renewal is repeated soon, and never later than the stop.
fn retry_at(hold: &Hold, now: Moment) -> Moment {
    let pause =
        (hold.confirmed().lease / 50).clamp(Duration::from_millis(2), Duration::from_millis(250));
    now.plus(pause).min(hold.stop_at())
}

/// Guards the driver: when the driver ends (by a panic, or with its runtime), every lease it had is
/// lost at once, because no driver would renew or stop it any more. Where the background thread
/// dies, the driver begins anew on the next one.
struct DriverGuard {
    scheduler: Arc<Scheduler>,
    has_begun: bool,
}

impl LastingWork for DriverGuard {
    async fn run(&mut self) {
        let scheduler = &self.scheduler;
        if mem::replace(&mut self.has_begun, true) {
            // The renewals that were under way have ended with the thread.
            scheduler.look_at_all();
        }
        let alarm = Alarm::new(scheduler.clock);
        loop {
            #[cfg(test)]
            assert!(!scheduler.dies.swap(false, std::sync::atomic::Ordering::Relaxed), "killed");
            if scheduler.state.lock().is_over() {
                return;
            }
            let (batches, next) = scheduler.collect(scheduler.clock.now());
            for batch in batches {
                tokio::spawn(Arc::clone(scheduler).renew(batch));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::fake::fake;

    /// The renewal that was under way has ended with the thread.
    #[tokio::test(start_paused = true)]
    async fn a_driver_that_begins_anew_renews_what_is_due() {
        let (redlock, _fake) = fake();
        let guard = redlock.lock("k").acquire().await.unwrap();
        let (hold, engine) = (Arc::clone(guard.lease().hold()), redlock.engine());
        let scheduler = Scheduler::new(engine.executor(), engine.clock());
        engine.scheduler().forget(&hold);
        let (due, stop) = (hold.due_at(), hold.stop_at());
        scheduler.state.lock().schedule.insert(stop, Arc::clone(&hold));
        engine.clock().sleep_until(due).await;
        let mut driver = DriverGuard { scheduler, has_begun: true };
        let run = tokio::time::timeout(stop.since(due) / 2, driver.run());
        assert!(run.await.is_err() && hold.renewals() == 1);
    }

    /// Between two looks, the caller may have taken an offer, whose lease has to be claimed.
    #[tokio::test(start_paused = true)]
    async fn a_renewal_that_is_due_and_was_not_tried_is_not_put_off() {
        let (redlock, _fake) = fake();
        let guard = redlock.lock("k").acquire().await.unwrap();
        let (hold, engine) = (Arc::clone(guard.lease().hold()), redlock.engine());
        let (scheduler, due) = (engine.scheduler(), hold.due_at());
        let planned = || scheduler.state.lock().schedule.next().map(|(at, _)| at);
        scheduler.plan(std::slice::from_ref(&hold), due, None);
        assert_eq!(planned(), Some(due));
        scheduler.plan(std::slice::from_ref(&hold), due, Some(0.0));
        assert!(planned() > Some(due));
    }
}
