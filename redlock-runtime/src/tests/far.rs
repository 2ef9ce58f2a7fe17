//! A node that is far from one client.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::fake::Fake;
use crate::backend::{
    Abilities, Acquired, Claim, ClockOffset, Found, FoundersList, FoundersOffer, LockBackend,
    MemorySince, QuorumMember, Release, Reply,
};
use crate::fencing::FencingToken;

/// Each command is on its way for so long, and so is its answer.
#[derive(Debug)]
pub(super) struct Far {
    node: Arc<Fake>,
    one_way: Duration,
}

impl Far {
    pub(super) fn new(node: &Arc<Fake>, one_way: Duration) -> Arc<Self> {
        Arc::new(Self { node: Arc::clone(node), one_way })
    }

    fn there_and_back<'a, T: Send + 'a>(&self, command: Reply<'a, T>) -> Reply<'a, T> {
        let one_way = self.one_way;
        Box::pin(async move {
            sleep(one_way).await;
            let answer = command.await;
            sleep(one_way).await;
            answer
        })
    }
}

impl LockBackend for Far {
    fn acquire<'a>(&'a self, claim: &'a Claim, within: Duration) -> Reply<'a, Acquired> {
        self.there_and_back(self.node.acquire(claim, within))
    }

    fn renew<'a>(&'a self, claims: &'a [Claim], within: Duration) -> Reply<'a, Vec<Option<Found>>> {
        self.there_and_back(self.node.renew(claims, within))
    }

    fn release<'a>(&'a self, release: Release<'a>, within: Duration) -> Reply<'a, Found> {
        self.there_and_back(self.node.release(release, within))
    }

    fn raise<'a>(
        &'a self,
        claim: &'a Claim,
        fencing_token: FencingToken,
        within: Duration,
    ) -> Reply<'a, Found> {
        self.there_and_back(self.node.raise(claim, fencing_token, within))
    }

    fn verify(&self, within: Duration) -> Reply<'_, ()> {
        self.there_and_back(self.node.verify(within))
    }

    fn abilities(&self) -> Abilities<'_> {
        Abilities::default()
    }
}

impl QuorumMember for Far {
    fn name(&self) -> &str {
        QuorumMember::name(&*self.node)
    }

    fn memory_since(&self) -> Option<MemorySince> {
        self.node.memory_since()
    }

    fn clock_offset(&self) -> Option<ClockOffset> {
        QuorumMember::clock_offset(&*self.node)
    }

    fn founders<'a>(
        &'a self,
        key: &'a str,
        offer: Option<FoundersOffer>,
        within: Duration,
    ) -> Reply<'a, FoundersList> {
        self.there_and_back(QuorumMember::founders(&*self.node, key, offer, within))
    }
}
