//! Turns a held exclusive lock into a read lock, without a moment in which a writer could enter.

use std::iter::once;
use std::sync::Arc;
use std::time::Duration;

use super::caller::on_executor;
use crate::backend::{Claim, Downgrade, Downgraded, FencingTokens};
use crate::background_thread::stopped;
use crate::engine::Engine;
use crate::error::LockError;
use crate::handoff::{NotHeld, Ownership, grant};
use crate::hold::{Begin, ConfirmedLease, Hold, Leftovers, Tenure, Terms};
use crate::kind::Kind;
use crate::local_queue::QueueHandle;
use crate::owner::Owner;
use crate::release;
use crate::state::LostReason;

/// Turns the lock of `ownership` into a read lock. If that fails, the lock is released.
///
/// Cancel safe: the task that sends the command runs to its end, and a read lock whose caller has
/// gone is released.
pub(crate) async fn downgrade(ownership: Ownership) -> Result<Ownership, LockError> {
    let engine = Arc::clone(ownership.engine());
    let (own, key) = (Arc::clone(&engine), ownership.hold().claim.key.clone());
    on_executor(&engine, DOWNGRADE, once(&key), |reply| async move {
        let _ = reply.send(send(&own, ownership).await);
    })
    .await?
}

const DOWNGRADE: &str = "a downgrade";

async fn send(engine: &Arc<Engine>, ownership: Ownership) -> Result<Ownership, LockError> {
    let Some(downgrade) = engine.backend.abilities().downgrade else {
        return Err(LockError::config("this backend cannot turn a lock into a read lock"));
    };
    // A lock that was lost, or that stays taken, is released by the drop of its handle.
    ownership.hold().check()?;
    if ownership.hold().has_min_hold() {
        let message = "a lock with `min_hold` stays taken, and cannot become a read lock";
        return Err(LockError::config(message));
    }
    // From here on the lease is no longer renewed: the server would find another owner.
    let hold = Arc::clone(ownership.hold());
    let Some((queue, tenure)) = ownership.detach() else {
        hold.check()?;
        return Err(stopped(DOWNGRADE));
    };
    let (writer, leftovers) = (tenure.claim.clone(), tenure.leftovers());
    let owner = Owner::fresh(&engine.client);
    let next = Claim { owner, kind: Kind::Read, ..writer.clone() };
    let claims = Some((writer, next));
    let undecided = Undecided { engine, hold: &hold, queue, leftovers, claims };
    undecided.ask(downgrade).await
}

/// A downgrade whose outcome is not known. If it is dropped, both owners are cleaned up.
struct Undecided<'a> {
    engine: &'a Arc<Engine>,
    hold: &'a Hold,
    queue: QueueHandle,
    /// What the acquire of the exclusive lock may have left behind.
    leftovers: Leftovers,
    claims: Option<(Claim, Claim)>,
}

impl Undecided<'_> {
    async fn ask(mut self, downgrade: &dyn Downgrade) -> Result<Ownership, LockError> {
        let (engine, hold) = (self.engine, self.hold);
        let Some((writer, next)) = &self.claims else { return Err(stopped(DOWNGRADE)) };
        let sent = engine.clock().now();
        let key = writer.key.name().to_owned();
        match downgrade.downgrade(writer, next, engine.acquire_timeout).await {
            Ok(Downgraded::Granted(fencing_token)) => {
                let tokens = FencingTokens::one(fencing_token);
                let confirmed = ConfirmedLease { sent, lease: next.expire };
                let tenure = Tenure::new(next.clone(), confirmed, tokens);
                let Leftovers { was_cut, may_be_queued, .. } = self.leftovers;
                if let Some((writer, _)) = self.claims.take()
                    && (was_cut || may_be_queued)
                {
                    // An earlier try may still arrive, and acquire the lock after the readers.
                    release::clean_up(engine, writer, may_be_queued);
                }
                begin(engine, hold, tenure)
            }
            Ok(Downgraded::Lost(found)) => {
                let reason = found.loss().unwrap_or(LostReason::Expired);
                let (held_for, renewals) = (hold.held_for(), hold.renewals());
                Err(LockError::Lost { key, reason, held_for, renewals })
            }
            Err(fault) => Err(LockError::Unavailable { key, nodes: fault.nodes }),
        }
    }
}

impl Drop for Undecided<'_> {
    fn drop(&mut self) {
        // Some of several nodes may have the one owner, and some the other.
        if let Some((writer, next)) = self.claims.take() {
            release::clean_up(self.engine, next, false);
            release::clean_up(self.engine, writer, self.leftovers.may_be_queued);
        }
        self.queue.let_go(self.hold);
    }
}

/// The read lock begins.
fn begin(engine: &Arc<Engine>, before: &Hold, tenure: Tenure) -> Result<Ownership, LockError> {
    let claim = &tenure.claim;
    let queue = engine.local_queue(&claim.key, claim.kind);
    let terms = Terms {
        expire: claim.expire,
        min_hold: Duration::ZERO,
        started: tenure.confirmed.sent,
        ..before.terms
    };
    let (key, expire) = (claim.key.name().to_owned(), claim.expire);
    let start = Begin { at: tenure.confirmed.sent, is_taken: true };
    match grant(engine, &queue, tenure, terms, 1, start) {
        Ok(granted) => {
            let mut ownership = Ownership::new(engine, queue, granted);
            ownership.count_as_lock();
            Ok(ownership)
        }
        Err(NotHeld::Unscheduled(error)) => Err(error),
        Err(NotHeld::TooLate { took }) => Err(LockError::ExpireTooShort { key, took, expire }),
    }
}
