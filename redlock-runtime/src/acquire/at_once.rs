//! Several keys with one command, where one place has them all and they are free.

use std::sync::Arc;
use std::time::Duration;

use super::endless::warn_if_endless;
use super::observed::{CallTime, Observed};
use super::order::Acquisition;
use super::unanswered::Unanswered;
use crate::backend::{AcquireAll, AllAcquired, Busy, Claim, Fault, FencingTokens, LockBackend};
use crate::clock::Moment;
use crate::engine::Engine;
use crate::error::LockError;
use crate::fencing::FencingToken;
use crate::handoff::hold_together;
use crate::hold::{Begin, ConfirmedLease, Tenure, Terms};
use crate::key::LockKey;
use crate::kind::Kind;
use crate::local_queue::{DirectAttemptGuard, QueueHandle};
use crate::owner::Owner;
use crate::{release, telemetry};

/// Several keys are locked together as exclusive locks only.
const KIND: Kind = Kind::Exclusive;

/// One command for all keys of a call.
pub(super) struct AtOnce<'a> {
    pub(super) engine: &'a Arc<Engine>,
    /// In the order of keys.
    pub(super) keys: Vec<&'a LockKey>,
    pub(super) terms: Terms,
    /// The call waits if it is refused. Then callers that came before go first.
    pub(super) may_wait: bool,
}

/// What came of the attempt.
pub(super) enum AtOnceOutcome {
    /// The call has all keys, or fails.
    Ended(Acquisition),
    /// The keys have to be acquired one after another. `Some`: what came of the command; `None`: it
    /// was not sent, or says nothing about the locks.
    OneByOne(Option<Refusal>),
}

/// What came of the command: another owner has one of the keys, or there was no answer.
pub(super) struct Refusal {
    /// In the order of keys.
    pub(super) key_index: usize,
    observed: Observed,
}

impl Refusal {
    /// The error of a call that learns nothing else until `time` is over. `key`: that of the index.
    pub(super) fn error(&self, key: &LockKey, time: CallTime) -> LockError {
        self.observed.error(key, time, 1, None)
    }
}

impl AtOnce<'_> {
    /// Acquires all of them over `route`. `is_polled`: the caller itself polls this future.
    ///
    /// Cancel safe: if the future is dropped, whatever the command acquired is freed in the
    /// background.
    pub(super) async fn over(
        &self,
        route: &dyn LockBackend,
        within: Duration,
        is_polled: bool,
    ) -> AtOnceOutcome {
        let Some(ability) = route.abilities().acquire_all else {
            return AtOnceOutcome::OneByOne(None);
        };
        let claims: Vec<Claim> = self.keys.iter().map(|key| self.claim(key)).collect();
        if !ability.reaches(&claims) {
            return AtOnceOutcome::OneByOne(None);
        }
        let queues: Vec<QueueHandle> =
            self.keys.iter().map(|key| self.engine.local_queue(key, KIND)).collect();
        let Some(_attempts) = self.go_first(&queues, is_polled) else {
            return AtOnceOutcome::OneByOne(None);
        };
        // Before the command: a release may be answered when the refusal arrives.
        let are_leaving = queues.iter().any(QueueHandle::is_leaving);
        // Counted until the caller has looked for a shutdown. A task that sends the command for its
        // caller is counted by itself.
        let pending = is_polled.then(|| self.engine.pending.begin());
        // It looks for a shutdown after that: one that has not counted this call keeps it from
        // sending.
        if let Err(ended) = self.check_shutdown() {
            return AtOnceOutcome::Ended(Err(ended));
        }
        let (sent, answer) = self.ask(ability, &claims, within).await;
        let mut observed = Observed::default();
        let key_index = match answer {
            Ok(AllAcquired::Granted { fencing_token, was_cut }) => {
                let tenure = |claim| self.tenure(claim, sent, fencing_token, was_cut);
                let keys = queues.into_iter().zip(claims.into_iter().map(tenure)).collect();
                let begin = Begin { at: sent, is_taken: is_polled };
                return match hold_together(self.engine, keys, self.terms, begin) {
                    Ok(granted) => AtOnceOutcome::Ended(Ok(granted.with_pending(pending))),
                    // A lease that is over already is released; another try follows.
                    Err(_) => AtOnceOutcome::OneByOne(None),
                };
            }
            Ok(AllAcquired::Refused { key_index, holder, free_in, was_cut }) => {
                if was_cut {
                    clean_up(self.engine, &claims);
                }
                observed.busy(Busy::decided(holder, free_in), self.engine.clock().now());
                if self.engine.fifo_queue().is_some() {
                    queues[key_index].state().note_contention();
                }
                key_index
            }
            Err(fault) => {
                if fault.is_unknown {
                    clean_up(self.engine, &claims);
                }
                // Perhaps not the locks are out of reach, but this command.
                if fault.is_final || !fault.is_unknown {
                    return AtOnceOutcome::OneByOne(None);
                }
                observed.failed(fault, sent);
                0
            }
        };
        self.refused(Refusal { key_index, observed }, are_leaving)
    }

    /// The tenure of a key, as the command was granted that was `sent` then.
    fn tenure(
        &self,
        claim: Claim,
        sent: Moment,
        fencing_token: FencingToken,
        was_cut: bool,
    ) -> Tenure {
        let confirmed = ConfirmedLease { sent, lease: self.terms.expire };
        let tenure = Tenure::new(claim, confirmed, FencingTokens::one(fencing_token));
        if was_cut { tenure.cut() } else { tenure }
    }

    /// Ends the call if it does not wait any longer. `are_leaving`: a release that nobody awaits,
    /// or a clean-up, may have been overtaken. Each key by itself heeds that.
    fn refused(&self, refusal: Refusal, are_leaving: bool) -> AtOnceOutcome {
        let (started, now) = (self.terms.started, self.engine.clock().now());
        let is_given_up = now >= refusal.observed.gives_up_at(started, self.engine.outage_wait);
        if !is_given_up && (self.may_wait || are_leaving) {
            return AtOnceOutcome::OneByOne(Some(refusal));
        }
        let key = self.keys[refusal.key_index];
        warn_if_endless(self.engine, key, self.terms.template, &refusal.observed);
        AtOnceOutcome::Ended(Err(refusal.error(key, CallTime { started, now })))
    }

    fn check_shutdown(&self) -> Result<(), LockError> {
        self.engine.check_shutdown(self.terms.shutdowns_before, self.keys[0].name())
    }

    /// Other callers wait meanwhile. `None`: some came before, or a release that is on its way over
    /// another connection would be overtaken.
    fn go_first(
        &self,
        queues: &[QueueHandle],
        is_polled: bool,
    ) -> Option<Vec<Option<DirectAttemptGuard>>> {
        let would_overtake = |queue: &QueueHandle| is_polled && queue.has_background_release();
        // First, so that no contention credit is spent on a command that is not sent.
        if queues.iter().any(would_overtake) {
            return None;
        }
        let now = self.engine.clock().now();
        let first = |queue: &QueueHandle| match queue.attempt_first(now) {
            // A holder of this process may have let go of the lock since.
            _ if would_overtake(queue) => None,
            None if self.may_wait => None,
            attempt => Some(attempt),
        };
        queues.iter().map(first).collect()
    }

    /// The answer, and the moment before the command left: the server may begin the leases at any
    /// time after it.
    async fn ask(
        &self,
        ability: &dyn AcquireAll,
        claims: &[Claim],
        within: Duration,
    ) -> (Moment, Result<AllAcquired, Fault>) {
        telemetry::acquire_sent(self.terms.template);
        let sent = self.engine.clock().now();
        let unanswered = Unanswered::new(self.engine, claims);
        let answer = ability.acquire_all(claims, within).await;
        unanswered.answered();
        (sent, answer)
    }

    fn claim(&self, key: &LockKey) -> Claim {
        let owner = Owner::fresh(&self.engine.client);
        Claim { key: key.clone(), owner, expire: self.terms.expire, kind: KIND }
    }
}

fn clean_up(engine: &Arc<Engine>, claims: &[Claim]) {
    for claim in claims {
        release::clean_up(engine, claim.clone(), false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local_queue::GRANTS_TO_FORGET;
    use crate::tests::fake::SECOND;
    use crate::tests::server::Server;

    /// As a direct attempt for one key.
    #[tokio::test(start_paused = true)]
    async fn a_call_that_a_shutdown_has_not_counted_sends_nothing() {
        let server = Server::new();
        server.acquires_all();
        let redlock = server.client();
        let (engine, keys) =
            (redlock.engine(), ["a", "b"].map(|key| LockKey::new("", key).unwrap()));
        let terms = Terms::of_plain_call(SECOND, engine.clock().now());
        let _shutdown = engine.shut_down();
        let attempt = AtOnce { engine, keys: keys.iter().collect(), terms, may_wait: true };
        let told = attempt.over(&*engine.backend, SECOND, true).await;
        assert!(matches!(told, AtOnceOutcome::Ended(Err(LockError::ShuttingDown { .. }))));
        assert_eq!(server.take_verbs(), [""; 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_would_overtake_a_release_spends_no_contention_credit() {
        let server = Server::new();
        server.acquires_all();
        let redlock = server.client();
        let (engine, keys) =
            (redlock.engine(), ["a", "b"].map(|key| LockKey::new("", key).unwrap()));
        let [first, second] = [&keys[0], &keys[1]].map(|key| engine.local_queue(key, KIND));
        first.state().note_contention();
        for _ in 1..GRANTS_TO_FORGET {
            first.state().spend_contention_credit();
        }
        let mut release = second.begin_release(false);
        let _in_background = release.goes_on_in_background();
        let terms = Terms::of_plain_call(SECOND, engine.clock().now());
        let attempt = AtOnce { engine, keys: keys.iter().collect(), terms, may_wait: true };
        let told = attempt.over(&*engine.backend, SECOND, true).await;
        assert!(matches!(told, AtOnceOutcome::OneByOne(None)));
        assert_eq!(server.take_verbs(), [""; 0]);
        assert!(first.state().is_contended());
    }
}
