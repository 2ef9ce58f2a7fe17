//! The way of one process to the queue of a node, and its watch over the locks it handed over.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::line::Entry;
use super::node::{Answer, Command};
use super::plan::{NEVER, Tick, millis};
use super::wire::Wire;
use crate::backend::{
    Claim, Enqueued, Fault, FifoQueue, Found, LockBackend, Look, Release, Reply, Rotated,
    Subscription, TokensUsed,
};
use crate::key::LockKey;

/// When each key is to be looked at, which this process handed over, or let go of while it stays
/// taken.
#[derive(Debug, Default, Clone)]
pub(super) struct Watch {
    due: Arc<Mutex<HashMap<LockKey, Tick>>>,
}

/// For how much longer a lock is given.
const GRACE: Tick = 5;

impl Wire {
    fn entry(&self, claim: &Claim, reserve: u32) -> Entry {
        let line = self.world.plan.line.as_ref();
        let is_told = line.is_some_and(|line| line.listeners[self.process].can_hear);
        Entry { claim: claim.clone(), reserve, process: self.process, is_told }
    }

    /// Frees a lock, and watches what becomes of it.
    pub(super) async fn free(
        &self,
        command: Command,
        claim: &Claim,
        within: Duration,
    ) -> Result<Found, Fault> {
        let departing = command.departing().cloned();
        let window = self.world.plan.line.as_ref().map(|line| line.window).unwrap_or_default();
        let taken_for = if let Command::Retain(_, left) = command { left } else { window };
        let answer = self.call(command, within).await;
        if !matches!(answer, Ok((Answer::Freed(_, false), false))) {
            self.watch(claim, taken_for);
        }
        if let (Ok(_), Some(departing)) = (&answer, departing) {
            self.departs(&departing);
        }
        match answer? {
            // The try that broke off may have been the one that freed it.
            (Answer::Freed(Found::Gone | Found::Stolen, _), true) => Ok(Found::Unclear),
            (Answer::Freed(found, _), _) => Ok(found),
            (other, _) => unreachable!("{other:?}"),
        }
    }

    /// Frees several locks with one command. A client that may not touch the queues frees each by
    /// itself.
    pub(super) async fn free_all(
        &self,
        releases: &[Release<'_>],
        within: Duration,
    ) -> Vec<Result<Found, Fault>> {
        let claims: Vec<Claim> = releases.iter().map(|release| release.claim.clone()).collect();
        let window = self.world.plan.line.as_ref().map(|line| line.window).unwrap_or_default();
        let (each, was_cut) = match self.call(Command::ReleaseAll(claims.clone()), within).await {
            Ok((Answer::AllFreed(each), was_cut)) => (each, was_cut),
            Ok((other, _)) => unreachable!("{other:?}"),
            Err(fault) if fault.is_final && !fault.is_unknown => {
                let mut each = Vec::new();
                for release in releases {
                    each.push(self.release(*release, within).await);
                }
                return each;
            }
            Err(fault) => {
                for claim in &claims {
                    self.watch(claim, window);
                }
                return claims.iter().map(|_| Err(fault.clone())).collect();
            }
        };
        let freed = |(claim, (found, is_handed)): (&Claim, (Found, bool))| {
            if is_handed || was_cut {
                self.watch(claim, window);
            }
            self.departs(claim);
            let is_lost = matches!(found, Found::Gone | Found::Stolen);
            Ok(if is_lost && was_cut { Found::Unclear } else { found })
        };
        claims.iter().zip(each).map(freed).collect()
    }

    /// Where there is one node only, whoever lets go of a lock there lets go of it for good.
    fn departs(&self, claim: &Claim) {
        if self.world.plan.nodes.len() == 1 {
            self.world.departs(self.process, claim);
        }
    }

    async fn enqueued(&self, command: Command, within: Duration) -> Result<Enqueued, Fault> {
        match self.call(command, within).await? {
            (Answer::Enqueued(enqueued), _) => Ok(enqueued),
            (other, _) => unreachable!("{other:?}"),
        }
    }

    /// `claim`: one of this process.
    fn watch(&self, claim: &Claim, taken_for: Duration) {
        let Some(line) = &self.world.plan.line else { return };
        let due = self.world.now() + millis(taken_for);
        let before = self.watch.due.lock().unwrap().insert(claim.key.clone(), due);
        if before.is_none_or(|before| due < before) {
            let (wire, claim, window) = (self.clone(), claim.clone(), millis(line.window));
            tokio::spawn(async move { wire.keep_watch(&claim, window).await });
        }
    }

    fn due(&self, key: &LockKey) -> Option<Tick> {
        self.watch.due.lock().unwrap().get(key).copied()
    }

    /// Whoever was to have the lock may have died meanwhile.
    async fn keep_watch(&self, claim: &Claim, window: Tick) {
        let key = &claim.key;
        while let Some(due) = self.due(key) {
            self.world.sleep_until(due + GRACE).await;
            let runs_at = self.world.runs_at(self.process, self.world.now());
            if runs_at == NEVER {
                return;
            }
            self.world.sleep_until(runs_at).await;
            if self.due(key) != Some(due) {
                continue;
            }
            let within = self.world.plan.reply_timeout;
            let answer = self.call(Command::Nudge(claim.clone()), within).await;
            let mut watched = self.watch.due.lock().unwrap();
            let now = self.world.now();
            let left = match answer {
                Ok((Answer::Nudged { left: Some(left), waiting }, _)) if waiting > 0 => left,
                _ => Duration::MAX,
            };
            if millis(left) <= window {
                watched.insert(key.clone(), now + millis(left));
            } else if watched.get(key) == Some(&due) {
                watched.remove(key);
                return;
            }
        }
    }
}

impl FifoQueue for Wire {
    fn subscribe(&self, claim: &Claim) -> Subscription {
        self.world.subscriptions.issue(self.process, &claim.owner)
    }

    /// A connection is made at the beginning, and again now and then.
    fn is_unconnected(&self) -> bool {
        let now = self.world.now();
        now < 50 || (now + 90 * self.process as Tick) % 500 < 50
    }

    fn is_signal_certain(&self) -> bool {
        true
    }

    fn enqueue<'a>(
        &'a self,
        claim: &'a Claim,
        reserve: u32,
        within: Duration,
    ) -> Reply<'a, Enqueued> {
        Box::pin(self.enqueued(Command::Join(self.entry(claim, reserve)), within))
    }

    fn look<'a>(
        &'a self,
        claim: &'a Claim,
        reserve: u32,
        look: Look,
        within: Duration,
    ) -> Reply<'a, Enqueued> {
        Box::pin(self.enqueued(Command::Look(self.entry(claim, reserve), look), within))
    }

    fn rotate<'a>(
        &'a self,
        held: &'a Claim,
        drawn: TokensUsed,
        next: &'a Claim,
        reserve: u32,
        within: Duration,
    ) -> Reply<'a, Rotated> {
        let next = self.entry(next, reserve);
        let command = Command::Rotate { held: held.clone(), drawn, next };
        Box::pin(async move {
            let answer = self.call(command, within).await;
            if !matches!(answer, Ok((Answer::Rotated(Rotated::Kept(_) | Rotated::Lost(_)), _))) {
                let window = self.world.plan.line.as_ref().map(|line| line.window);
                self.watch(held, window.unwrap_or_default());
            }
            match answer? {
                (Answer::Rotated(rotated), _) => {
                    if !matches!(rotated, Rotated::Kept(_) | Rotated::Lost(_)) {
                        self.departs(held);
                    }
                    Ok(rotated)
                }
                (other, _) => unreachable!("{other:?}"),
            }
        })
    }
}
