//! A release in the background: it is tried again until it is answered, or until the lease would be
//! over anyway.

use std::mem;
use std::sync::Arc;

use super::repetition::Repetition;
use super::task::ReleaseTask;
use crate::backend::{Fault, Found};
use crate::background_thread::lasting_work::LastingWork;
use crate::engine::Engine;
use crate::error::NodeError;
use crate::executor;
use crate::hold::Tenure;
use crate::local_queue::{CountedRelease, QueueHandle};
use crate::report::Topic;
use crate::shield::{shielded, tell};
use crate::thread_exit::Unsent;

/// A release that the background sends.
pub(super) struct BackgroundRelease {
    /// `None`: it is over.
    task: Option<ReleaseTask>,
    /// What waits for this comes after the first poll, which sends the release.
    leaving: Option<CountedRelease>,
    has_begun: bool,
}

impl LastingWork for BackgroundRelease {
    async fn run(&mut self) {
        drop(self.leaving.take());
        let Some(task) = &mut self.task else { return };
        // One that is begun anew may have been carried out before.
        task.is_unknown |= mem::replace(&mut self.has_begun, true);
        let answer = task.send_until_answered().await;
        let Some(task) = self.task.take() else { return };
        match answer {
            Ok(found) => _ = task.finish(found),
            Err(fault) => task.give_up(fault),
        }
    }
}

impl ReleaseTask {
    /// Continues the release in the background.
    pub(super) fn into_background_work(mut self) -> BackgroundRelease {
        if self.unsent.is_none() && !self.engine.is_embedded() {
            self.unsent = Some(Unsent::here());
        }
        let leaving = self.under_way.goes_on_in_background();
        BackgroundRelease { task: Some(self), leaving, has_begun: false }
    }

    /// Returns the fault after which no try follows.
    async fn send_until_answered(&mut self) -> Result<Found, Fault> {
        let mut repetition = Repetition::begin(&self.engine);
        loop {
            let answer =
                self.engine.backend.release(self.request(), self.engine.reply_timeout).await;
            drop(self.unsent.take());
            let fault = match answer {
                Ok(found) => return Ok(found),
                Err(fault) => fault,
            };
            self.note_failure(&fault);
            let retry_at = repetition.next(&self.engine);
            if fault.ends_releases() || retry_at >= self.server_end {
                return Err(fault);
            }
            // The caller gets the fault at once; the background retries without it.
            if let Some(reply) = self.reply.take() {
                shielded(|| reply.send(Err(fault)));
            }
            repetition.rest(&self.engine, retry_at).await;
        }
    }

    /// An attempt has failed. Local waiters ask for themselves from here on: the next attempts may
    /// fail for as long as the lease lasts.
    pub(super) fn note_failure(&mut self, fault: &Fault) {
        self.is_unknown |= fault.is_unknown;
        self.under_way.wake_waiters();
    }

    pub(super) fn give_up(self, fault: Fault) {
        let nodes = fault.nodes_text();
        let key = self.claim.key.name();
        if fault.nodes.iter().all(NodeError::is_outage) {
            // The outage is told by itself.
            tell!(debug, key, %nodes, "lock was not released before its lease ended");
        } else if executor::admits(&self.engine.reports, Topic::Unreleased, self.template()) {
            tell!(warn, key, %nodes, "lock could not be released; it is free when its lease ends");
        } else {
            tell!(debug, key, %nodes, "lock could not be released; it is free when its lease ends");
        }
        if let Some(reply) = self.reply {
            shielded(|| reply.send(Err(fault)));
        }
    }
}

/// Sends a release from the background.
pub(crate) fn in_background(task: ReleaseTask) {
    let (engine, key) = (Arc::clone(&task.engine), task.claim.key.clone());
    if let Err(error) = engine.in_background(task.into_background_work()) {
        tell!(warn, key = key.name(), %error, "lock not released");
    }
}

/// Frees a lock that is no longer wanted by any caller of its `queue`.
pub(crate) fn free(engine: &Arc<Engine>, queue: &QueueHandle, tenure: &Tenure) {
    in_background(ReleaseTask::new(engine, tenure, tenure.server_end(), queue.another()));
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;
    use tokio::time::timeout;

    use super::*;
    use crate::backend::{Claim, Command, Fate, FencingTokens};
    use crate::fencing::FencingToken;
    use crate::hold::ConfirmedLease;
    use crate::key::LockKey;
    use crate::kind::Kind;
    use crate::owner::Owner;
    use crate::state::Released;
    use crate::tests::fake::{SECOND, fake};

    /// Its thread dies while the answer is on its way, which was that the lock is free.
    #[tokio::test(start_paused = true)]
    async fn a_release_that_is_begun_anew_knows_of_no_loss() {
        let (redlock, fake) = fake();
        let engine = redlock.engine();
        let (key, kind) = (LockKey::new("", "k").unwrap(), Kind::Exclusive);
        let queue = engine.local_queue(&key, kind);
        let (owner, expire) = (Owner::of_nobody("t"), 9 * SECOND);
        fake.store.set("k", owner.as_str(), expire);
        let confirmed = ConfirmedLease { sent: engine.clock().now(), lease: expire };
        let tokens = FencingTokens::one(FencingToken::new(1).unwrap());
        let tenure = Tenure::new(Claim { key, owner, expire, kind }, confirmed, tokens);
        let (reply, mut answer) = oneshot::channel();
        let task = ReleaseTask::new(engine, &tenure, tenure.server_end(), queue);
        let mut work = ReleaseTask { reply: Some(reply), ..task }.into_background_work();
        fake.state().script.next(Command::Release, [Fate::LostReply]);
        assert!(timeout(SECOND / 2, work.run()).await.is_err());
        assert_eq!(fake.store.owner("k"), None);
        work.run().await;
        assert_eq!(answer.try_recv(), Ok(Ok(Released::Unknown)));
        let queue = engine.local_queue(&tenure.claim.key, kind);
        assert!(engine.pending.count() == 0 && !queue.has_background_release());
    }
}
