//! Releases on one node that no caller waits for: the node has not answered a release, or an
//! acquire may still arrive there after it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::grant_table::LeftBehind;
use super::member::{Member, NodeAdmission};
use crate::backend::{Claim, Fault, Found, Release};
use crate::backoff;

/// When a node is released again on which an acquire may still arrive, after an answer.
const RELEASE_AGAIN: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(2)];
/// For how long these tasks keep their node for a client that was dropped.
const LINGER: Duration = Duration::from_secs(3);

/// What is released on one node, until that is answered.
struct LateRelease {
    claim: Claim,
    /// The lock stays taken until then.
    retain_until: Option<Instant>,
    /// The only process of the node that may get the release.
    only_at: Option<Arc<str>>,
}

impl LateRelease {
    fn release(&self) -> Release<'_> {
        let left = self.retain_until.map(|until| until.saturating_duration_since(Instant::now()));
        let retain = left.filter(|left| !left.is_zero());
        Release { retain, only_at: self.only_at.as_ref(), ..Release::of(&self.claim) }
    }
}

impl Member {
    /// Releases what an owner has on this node, and goes on with that in the background if it
    /// fails, or if the lock may be acquired once more. `retain_until`: the lock stays taken until
    /// then.
    pub(crate) async fn let_go(
        self: &Arc<Self>,
        claim: Claim,
        left: LeftBehind,
        retain_until: Option<Instant>,
        within: Duration,
    ) -> Result<Found, Fault> {
        let only_at = left.only_at.clone();
        let held = LateRelease { claim: left.claim(&claim), retain_until, only_at };
        let answer = self.backend.release(held.release(), within).await;
        let is_owed = answer.is_err() && left.may_be_taken;
        if is_owed || left.may_land_late {
            let failures = u32::from(answer.is_err());
            self.release_later(held, within, left.may_land_late, failures);
        }
        if left.own_value.is_some() {
            // An acquire under its first owner value may have arrived in the meantime.
            let member = Arc::clone(self);
            tokio::spawn(async move {
                let first = LateRelease { claim, retain_until: None, only_at: left.only_at };
                let answer = member.backend.release(first.release(), within).await;
                let failures = u32::from(answer.is_err());
                member.release_later(first, within, left.may_land_late, failures);
            });
        }
        answer
    }

    /// Repeats a release on this node until it is answered, or until the lease is over. If an
    /// acquire may still arrive, the release is repeated after an answer as well. `failures`: how
    /// many of its tries have failed.
    ///
    /// Without this, the node would keep its vote from other owners for the whole lease. While the
    /// node is down, each owner that had the lock there costs a task that sleeps, and the node gets
    /// no more commands than from calls (`admit`). A shutdown does not wait for these tasks: the
    /// lock is free on a quorum, or the release of the whole lock is under way and is waited for.
    /// The tasks end with the client.
    fn release_later(
        self: &Arc<Self>,
        late: LateRelease,
        within: Duration,
        may_land_late: bool,
        mut failures: u32,
    ) {
        let (begun, weak) = (Instant::now(), Arc::downgrade(self));
        let end = begun + late.claim.expire;
        let mut kept = Some(Arc::clone(self));
        tokio::spawn(async move {
            let again: &[Duration] = if may_land_late { &RELEASE_AGAIN } else { &[] };
            let mut again = again.iter();
            loop {
                let pause = match failures {
                    0 => again.next().copied(),
                    _ => Some(pause(failures, begun.elapsed(), &weak)),
                };
                let next = pause.map(|pause| Instant::now() + pause);
                let Some(next) = next.filter(|next| *next < end) else { return };
                kept.take_if(|_| begun.elapsed() >= LINGER);
                sleep_until(next).await;
                let Some(member) = weak.upgrade() else { return };
                match member.release_again(late.release(), within).await {
                    Ok(_) => failures = 0,
                    Err(fault) if fault.ends_releases() => return,
                    Err(_) => failures += 1,
                }
            }
        });
    }

    /// Sends a release, unless the node is down and got a command a moment ago.
    async fn release_again(&self, release: Release<'_>, within: Duration) -> Result<Found, Fault> {
        if let NodeAdmission::Skip(fault) = self.admit() {
            return Err(fault);
        }
        let answer = self.backend.release(release, within).await;
        self.note(&answer);
        answer
    }
}

/// The pause after so many failures of one of these tasks, each of which has a weak reference.
fn pause(failures: u32, failing_for: Duration, member: &Weak<Member>) -> Duration {
    backoff::undone(failures, failing_for, member.weak_count(), fastrand::f64())
}
