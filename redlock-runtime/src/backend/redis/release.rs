//! Lets go of a lock, or of a place in its line.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::exchange::{Call, exchange, unheard};
use super::link::{Link, Loan};
use super::node::{Core, fence_life};
use super::presence::Watched;
use super::reply;
use super::script::{RELEASE, WINDOW_MS, cluster_flag};
use super::source::Source;
use crate::backend::{Claim, Fault, Found};
use crate::error::{NodeError, NodeErrorKind};
use crate::fencing::FencingToken;

/// What is let go of.
#[derive(Debug, Clone)]
pub(super) struct Release<'a> {
    claim: &'a Claim,
    fence: String,
    queue: String,
    last: String,
    fence_life: String,
    is_leaving: bool,
}

impl<'a> Release<'a> {
    /// The lock.
    pub(super) fn of(claim: &'a Claim) -> Self {
        let (fence, queue) = (claim.key.fence_key(), claim.key.queue_key());
        let (last, fence_life) = (String::new(), String::new());
        Self { claim, fence, queue, last, fence_life, is_leaving: false }
    }

    /// The lock, and the fencing tokens that were reserved behind `last`.
    pub(super) fn behind(claim: &'a Claim, last: FencingToken) -> Self {
        Self { last: last.to_string(), fence_life: fence_life(claim), ..Self::of(claim) }
    }

    /// The place in line, and the lock if it was handed over meanwhile.
    pub(super) fn leaving(claim: &'a Claim) -> Self {
        Self { is_leaving: true, ..Self::of(claim) }
    }

    fn keys(&self) -> [&str; 3] {
        [self.claim.key.redis_key(), &self.fence, &self.queue]
    }

    fn args(&self, cluster: &'static str) -> [&str; 6] {
        let leave = if self.is_leaving { "leave" } else { "" };
        [self.claim.owner.as_str(), &self.last, &self.fence_life, leave, WINDOW_MS, cluster]
    }

    /// Sends it on this connection and no other, in one command: by text, because a NOSCRIPT could
    /// not be answered any more. Whether it was answered.
    pub(super) async fn on<S: Source>(&self, loan: &mut Loan<S::Connection>) -> bool {
        let args = self.args(cluster_flag::<S>());
        RELEASE.run_text(&mut loan.connection, &self.keys(), &args).await.is_ok()
    }
}

impl<S: Source> Core<S> {
    pub(super) async fn let_go(
        &self,
        calls: &Link<Watched<S>>,
        release: Release<'_>,
        within: Duration,
    ) -> Result<Found, Fault> {
        let end = Instant::now() + within;
        let (keys, args) = (release.keys(), release.args(cluster_flag::<S>()));
        let ask = async |keys: &[&str], within| {
            let call = Call::new(&RELEASE, keys, &args);
            exchange(&self.name, calls, call, within, reply::released, unheard).await
        };
        let is_lineless = self.is_lineless.load(Ordering::Relaxed);
        let answer = match ask(if is_lineless { &keys[..1] } else { &keys }, within).await {
            Err(failure) if !is_lineless && is_out_of_reach::<S>(&failure.error) => {
                let alone = ask(&keys[..1], end - Instant::now()).await?;
                // A slot that moves comes to rest again; an ACL stays as it is.
                let is_denied = failure.error.kind() == NodeErrorKind::NoPermission;
                self.is_lineless.store(is_denied, Ordering::Relaxed);
                alone
            }
            answer => answer?,
        };
        let (found, was_handed_over) = answer.found;
        if was_handed_over {
            self.hand_overs.begin(&release.claim.key);
        }
        match found {
            // The try that broke off may have been the one that freed it.
            Found::Gone if answer.was_cut => Ok(Found::Ours),
            found => Ok(found),
        }
    }
}

/// May the lock be let go of where its line cannot be?
fn is_out_of_reach<S: Source>(error: &NodeError) -> bool {
    match error.kind() {
        // Not the command, but one of its keys.
        NodeErrorKind::NoPermission => error.message().contains("key"),
        // A script with several keys, while some of them have moved elsewhere.
        NodeErrorKind::Cluster => !S::LEADS_TO_ONE,
        _ => false,
    }
}
