//! Who waits for locks of the embedded backend, and is notified of a release.

use std::sync::Arc;
use std::time::Duration;

use super::tables::Hint;
use super::{Memory, MemoryStore, tell};
use crate::backend::{Claim, Found, HintRegistration, OnRelease, ReleaseHints, Reply};
use crate::clock::Clock;
use crate::owner::Owner;

/// How long a request for a hint keeps others out if it is not cancelled.
const STAYS: Duration = Duration::from_secs(2);

impl ReleaseHints for Memory {
    fn request_hint<'a>(
        &'a self,
        claim: &'a Claim,
        on_release: OnRelease,
        _: Duration,
    ) -> Reply<'a, HintRegistration> {
        let (owner, kind) = (claim.owner.clone(), claim.kind);
        let key = claim.key.redis_key();
        let registration =
            Registration { store: self.store.clone(), key: key.to_owned(), owner: owner.clone() };
        let now = Clock::Tokio.now();
        let is_free = {
            let mut tables = self.store.tables.lock();
            let is_kept_out = tables.is_kept_out(claim, now);
            let held = tables.live(key, now).map(|record| record.kind);
            let is_free = held.is_none() && !is_kept_out;
            if !is_free {
                let stays = held.is_none_or(|held| !held.is_like(kind));
                let stays_until = stays.then(|| now.plus(STAYS));
                let hint = Hint { owner, kind, stays_until, on_release: Arc::clone(&on_release) };
                tables.hints.entry(key.to_owned()).or_default().push(hint);
            }
            is_free
        };
        if is_free {
            on_release();
        }
        Box::pin(async move { Ok(HintRegistration::new(registration)) })
    }

    /// The end of the registration has removed it.
    fn cancel_hint<'a>(&'a self, _: &'a Claim, _: Duration) -> Reply<'a, Found> {
        Box::pin(async { Ok(Found::Gone) })
    }
}

#[cfg(test)]
impl MemoryStore {
    /// Tells the first who waits for this key that it is free, whether it is or not.
    pub(crate) fn give_hint(&self, redis_key: &str) {
        let first = {
            let mut tables = self.tables.lock();
            let waiting = tables.hints.get_mut(redis_key).filter(|waiting| !waiting.is_empty());
            waiting.map(|waiting| waiting.remove(0).on_release)
        };
        if let Some(on_release) = first {
            on_release();
        }
    }

    /// How many want to be notified.
    pub(crate) fn hint_count(&self) -> usize {
        self.tables.lock().hints.values().map(Vec::len).sum()
    }
}

/// Removes a hint when it is dropped.
#[derive(Debug)]
struct Registration {
    store: MemoryStore,
    key: String,
    owner: Owner,
}

impl Drop for Registration {
    fn drop(&mut self) {
        let now = Clock::Tokio.now();
        let (gone, told) = {
            let mut tables = self.store.tables.lock();
            let Some(hints) = tables.hints.get_mut(&self.key) else { return };
            let at = hints.iter().position(|hint| hint.owner == self.owner);
            let gone = at.map(|at| hints.remove(at));
            if hints.is_empty() {
                tables.hints.remove(&self.key);
            }
            // It may have kept others out of a lock that is free, or that they could share.
            let kept_out = gone.as_ref().is_some_and(|gone| {
                let held = tables.live(&self.key, now);
                held.is_none_or(|held| gone.stays_until.is_some() && held.kind.is_shared())
            });
            (gone, if kept_out { tables.hints(&self.key, now) } else { Vec::new() })
        };
        // Outside of the mutex: what the hint refers to may end with it.
        drop(gone);
        tell(told);
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::backend::{Acquired, LockBackend};
    use crate::key::LockKey;
    use crate::kind::Kind;

    const EXPIRE: Duration = Duration::from_secs(1);

    fn claim(kind: Kind) -> Claim {
        let key = LockKey::new("", "k").unwrap();
        Claim { key, owner: Owner::of_nobody("test"), expire: EXPIRE, kind }
    }

    /// A hint of `claim`, and whether it was told.
    async fn hint(memory: &Memory, claim: &Claim) -> (HintRegistration, Arc<AtomicBool>) {
        let is_told = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&is_told);
        let on_release: OnRelease = Arc::new(move || told.store(true, Ordering::Relaxed));
        (memory.request_hint(claim, on_release, EXPIRE).await.unwrap(), is_told)
    }

    /// The readers before it go on.
    #[tokio::test(start_paused = true)]
    async fn readers_that_a_writer_kept_out_are_told_when_it_leaves() {
        for kind in [Kind::Read, Kind::Permits(NonZeroU32::MIN.saturating_add(1))] {
            let memory = Memory::new(MemoryStore::new());
            let take = async || memory.acquire(&claim(kind), EXPIRE).await.unwrap();
            assert!(matches!(take().await, Acquired::Granted { .. }));
            let (waits, _) = hint(&memory, &claim(Kind::Exclusive)).await;
            assert!(matches!(take().await, Acquired::Refused { .. }), "{kind:?}");
            let (_kept_out, is_told) = hint(&memory, &claim(kind)).await;
            drop(waits);
            assert!(is_told.load(Ordering::Relaxed), "{kind:?}");
        }
    }

    /// Nobody releases, so that nobody else tells the writer.
    #[tokio::test(start_paused = true)]
    async fn a_writer_is_told_when_the_leases_of_readers_have_ended() {
        let memory = Memory::new(MemoryStore::new());
        let take = async |kind| memory.acquire(&claim(kind), EXPIRE).await.unwrap();
        assert!(matches!(take(Kind::Read).await, Acquired::Granted { .. }));
        let (_waits, is_told) = hint(&memory, &claim(Kind::Exclusive)).await;
        tokio::time::advance(EXPIRE).await;
        assert!(!is_told.load(Ordering::Relaxed));
        assert!(
            matches!(take(Kind::Read).await, Acquired::Refused { .. }),
            "the writer comes first"
        );
        assert!(is_told.load(Ordering::Relaxed));
    }
}
