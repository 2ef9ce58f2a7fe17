//! What the background does about a lock that its holder let go of.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::flush::Unsent;
use super::pending::PendingGuard;
use crate::acquire::Seat;
use crate::backend::{Claim, Fault, Found};
use crate::backoff;
use crate::clock::Moment;
use crate::engine::Engine;
use crate::state::Released;

/// One release, tried until it is answered or the lease would be over anyway.
pub(super) struct ReleaseJob {
    pub(super) engine: Arc<Engine>,
    pub(super) claim: Claim,
    /// The server has dropped the lease by itself from here on.
    pub(super) until: Moment,
    pub(super) reply: Option<oneshot::Sender<Result<Released, Fault>>>,
    pub(super) pending: PendingGuard,
    pub(super) unsent: Option<Unsent>,
    pub(super) seat: Option<Seat>,
}

impl ReleaseJob {
    pub(super) async fn run(mut self) {
        let clock = self.engine.clock();
        let mut is_unknown = false;
        let mut failures = 0;
        loop {
            let answer = self.engine.backend.release(&self.claim, self.engine.reply_timeout).await;
            drop(self.unsent.take());
            let fault = match answer {
                Ok(found) => return self.finish(found, is_unknown),
                Err(fault) => fault,
            };
            is_unknown |= fault.is_unknown;
            let retry_at = clock.now().plus(backoff::failed(failures, fastrand::f64()));
            if fault.is_final || retry_at >= self.until {
                return self.give_up(fault);
            }
            // The caller is told at once; the work goes on without it.
            if let Some(reply) = self.reply.take() {
                let _ = reply.send(Err(fault));
            }
            failures += 1;
            clock.sleep_until(retry_at).await;
        }
    }

    fn finish(self, found: Found, is_unknown: bool) {
        let released = match found {
            Found::Ours => Released::Released,
            // An earlier try that was never answered may have been the one that freed it.
            Found::Gone if is_unknown => Released::Released,
            Found::Gone => Released::Expired,
            Found::Stolen => Released::Stolen,
        };
        tracing::debug!(key = self.claim.key.name(), ?released, "lock released");
        if let Some(seat) = &self.seat {
            seat.freed();
        }
        if let Some(reply) = self.reply {
            let _ = reply.send(Ok(released));
        }
        drop(self.pending);
    }

    fn give_up(self, fault: Fault) {
        let nodes = fault.nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        tracing::warn!(
            key = self.claim.key.name(),
            %nodes,
            "lock could not be released; it is free when its lease ends"
        );
        if let Some(reply) = self.reply {
            let _ = reply.send(Err(fault));
        }
    }
}

/// When the clean-up of an unanswered acquire is repeated after its first answer: the command may
/// still be on its way, and land later.
const REPEATS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(2)];

/// Frees what an acquire without an answer may have taken, now or late.
pub(crate) fn clean_up(engine: &Arc<Engine>, claim: Claim) {
    let pending = engine.pending.begin();
    let host = engine.host();
    let engine = Arc::clone(engine);
    // A keeper that cannot be started has sent nothing that could land.
    let _ = host.spawn(async move {
        let clock = engine.clock();
        let until = clock.now().plus(claim.expire);
        let mut pending = Some(pending);
        let mut repeats = REPEATS.into_iter();
        let mut failures = 0;
        while clock.now() < until {
            let pause = match engine.backend.release(&claim, engine.reply_timeout).await {
                Ok(Found::Ours) => return,
                Ok(Found::Gone | Found::Stolen) => {
                    drop(pending.take());
                    let Some(pause) = repeats.next() else { return };
                    pause
                }
                Err(_) => {
                    failures += 1;
                    backoff::failed(failures, fastrand::f64())
                }
            };
            clock.sleep_until(clock.now().plus(pause)).await;
        }
    });
}
