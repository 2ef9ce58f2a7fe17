//! One question to the backend, and what follows from its answer.

use std::sync::Arc;
use std::time::Duration;

use crate::backend::{Acquired, Claim, Fault, FencingTokens, LockBackend};
use crate::clock::Moment;
use crate::engine::Engine;
use crate::error::LockError;
use crate::handoff::Ownership;
use crate::hold::{ConfirmedLease, Hold, NewHold, Tenure};
use crate::local_queue::QueueHandle;
use crate::shield::tell;
use crate::{release, telemetry};

/// What the last question, asked when the time is up, may add to a wait.
pub(crate) const LAST_ATTEMPT: Duration = Duration::from_millis(250);

/// What one question came to.
pub(crate) enum Outcome {
    Granted(Tenure),
    /// Somebody else holds the lock.
    Busy {
        holder: String,
        free_in: Option<Duration>,
        /// Nobody holds it: several asked at once, and none got enough nodes.
        is_split: bool,
        /// The owner may not be used again: its clean-up is on the way.
        is_spent: bool,
    },
    /// As above, the owner is spent if the outcome is unknown.
    Failed(Fault),
}

/// Whom a lock is for, and on what terms.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    /// What the key was rendered from: the label of metrics.
    pub(crate) template: &'static str,
    pub(crate) expire: Duration,
    pub(crate) max_renew: Option<u32>,
    /// When the call began.
    pub(crate) started: Moment,
    /// How many shutdowns of its client had begun before.
    pub(crate) shutdowns: u64,
}

/// A command whose answer is not known yet. Dropped before it is, by a caller that goes away, it
/// sends a clean-up behind.
struct Unanswered<'a> {
    engine: &'a Arc<Engine>,
    claim: Option<&'a Claim>,
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if let Some(claim) = self.claim.take() {
            release::clean_up(self.engine, claim.clone(), None);
        }
    }
}

/// Asks once whether the lock is free. `way` leads to the engine's backend.
///
/// Cancel safe: what a command took whose answer is not awaited is freed in the background.
pub(crate) async fn ask(
    engine: &Arc<Engine>,
    way: &dyn LockBackend,
    claim: &Claim,
    template: &'static str,
    within: Duration,
) -> Outcome {
    telemetry::question(template);
    let _pending = engine.pending.begin();
    // Before the command leaves: the server may begin the lease at any time after this.
    let sent = engine.clock().now();
    let mut unanswered = Unanswered { engine, claim: Some(claim) };
    let answer = way.acquire(claim, within).await;
    unanswered.claim = None;
    match answer {
        Ok(Acquired::Granted { fencing_token, was_cut }) => {
            let fencing_tokens = FencingTokens { first: fencing_token, last: fencing_token };
            let confirmed = ConfirmedLease { sent, lease: claim.expire };
            let tenure = Tenure::new(claim.clone(), confirmed, fencing_tokens);
            Outcome::Granted(if was_cut { tenure.cut() } else { tenure })
        }
        Ok(Acquired::Refused { holder, free_in, was_cut, is_split }) => {
            if was_cut {
                release::clean_up(engine, claim.clone(), None);
            }
            Outcome::Busy { holder, free_in, is_split, is_spent: was_cut }
        }
        Err(fault) => {
            // A command of this owner may land late, so a clean-up goes behind it.
            if fault.is_unknown {
                release::clean_up(engine, claim.clone(), None);
            }
            Outcome::Failed(fault)
        }
    }
}

/// Why a lock that was granted did not reach its caller.
pub(crate) enum NotGranted {
    /// Nothing of the lease is left.
    TooLate { took: Duration },
    /// Nobody would renew and stop it.
    Unscheduled(LockError),
}

/// How a hold begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Begin {
    pub(crate) granted: Moment,
    /// The caller is being polled. Otherwise it learns of the lock later, or never.
    pub(crate) is_taken: bool,
}

/// Makes the caller of `terms`, for whom `attempts` were made, the holder: from here on a drop
/// releases, and the lease is cared for.
pub(crate) fn grant(
    engine: &Arc<Engine>,
    handle: QueueHandle,
    tenure: Tenure,
    terms: Terms,
    attempts: u32,
    begin: Begin,
) -> Result<Ownership, NotGranted> {
    let Begin { granted, is_taken } = begin;
    let hold = Arc::new(Hold::new(NewHold {
        client: engine.id,
        process: engine.process,
        template: terms.template,
        claim: tenure.claim.clone(),
        fencing_token: tenure.fencing_token(),
        max_renew: terms.max_renew,
        backend: Arc::clone(&engine.backend),
        reply_timeout: engine.reply_timeout,
        clock: engine.clock(),
        confirmed: tenure.confirmed,
        granted,
        waited: granted.since(terms.started),
        is_taken,
        reports: Arc::clone(&engine.reports),
        news: Arc::clone(&handle.queue.news),
    }));
    let scheduler = engine.scheduler();
    handle.now_holds(&hold);
    let ownership = Ownership::new(
        Arc::clone(&hold),
        Arc::clone(engine),
        Arc::clone(&scheduler),
        handle,
        tenure,
    );
    if hold.check().is_err() {
        return Err(NotGranted::TooLate { took: hold.held_for() });
    }
    match scheduler.register(&hold) {
        Ok(()) => {
            tell!(
                debug,
                key = hold.claim.key.name(),
                fencing_token = %hold.fencing_token,
                waited = ?hold.waited,
                attempts,
                "lock acquired"
            );
            Ok(ownership)
        }
        Err(error) => Err(NotGranted::Unscheduled(error)),
    }
}
