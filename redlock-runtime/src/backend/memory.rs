//! The embedded backend: locks in the memory of this process, on a clock that tests can pause.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use self::lease_clock::LeaseClock;
use self::tables::{Holder, Record, Tables};
use super::claim::{Claim, Release};
use super::downgrade::{Downgrade, Downgraded};
use super::lock_backend::{Abilities, LockBackend};
use super::outcome::Reply;
use super::outcome::{Acquired, Fault, Found};
use super::release_hints::OnRelease;
use crate::clock::Clock;
use crate::error::{NodeError, NodeErrorKind};
use crate::fencing::FencingToken;
use crate::kind::Kind;
use crate::mutex::Mutex;

mod health_check;
mod hints;
mod lease_clock;
mod several;
mod tables;

/// The locks of the `memory` backend. Clients that share a store exclude each other, like processes
/// on one Redis; the store can also simulate faults for tests.
///
/// Leases are counted on the clock of the runtime that acquires them. A key that is held on one
/// clock and wanted on another one, where tests have paused one of the two, is an error of the kind
/// [`OtherClock`](crate::NodeErrorKind::OtherClock), because the two clocks cannot be compared.
/// Tests with paused clocks that run side by side need stores of their own.
///
/// ```
/// use redlock::{MemoryStore, Redlock, Wait};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), redlock::LockError> {
/// let store = MemoryStore::new();
/// let web = Redlock::builder().memory_store(store.clone()).build().await?;
/// let job = Redlock::builder().memory_store(store.clone()).build().await?;
///
/// let held = web.lock("nightly").acquire().await?;
/// assert!(job.lock("nightly").try_acquire().await?.is_none());
///
/// store.remove("lock:nightly"); // as if the server had lost its data
/// assert!(job.lock("nightly").try_acquire().await?.is_some());
/// # drop(held);
/// # Ok(()) }
/// ```
#[derive(Clone, Default)]
pub struct MemoryStore {
    tables: Arc<Mutex<Tables>>,
}

impl MemoryStore {
    /// An empty store.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), redlock::LockError> {
    /// let store = redlock::MemoryStore::new();
    /// let redlock = redlock::Redlock::builder().memory_store(store.clone()).build().await?;
    /// let guard = redlock.lock("nightly").acquire().await?;
    /// assert!(store.owner("lock:nightly").is_some());
    /// # drop(guard);
    /// # Ok(()) }
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// The owner value in a key (prefix included), if its lease still runs: of several readers, or
    /// holders of permits, the first.
    ///
    /// ```
    /// assert_eq!(redlock::MemoryStore::new().owner("lock:nightly"), None);
    /// ```
    pub fn owner(&self, redis_key: &str) -> Option<String> {
        let mut tables = self.tables.lock();
        let record = tables.live(redis_key, Clock::Tokio.now())?;
        record.holders.first().map(|holder| holder.owner.clone())
    }

    /// Removes a key (prefix included), as a server that lost its data would.
    ///
    /// ```
    /// redlock::MemoryStore::new().remove("lock:nightly");
    /// ```
    pub fn remove(&self, redis_key: &str) {
        self.tables.lock().locks.remove(redis_key);
    }

    /// Gives a key (prefix included) to another owner, as if a second holder had acquired it.
    ///
    /// ```
    /// use std::time::Duration;
    /// let store = redlock::MemoryStore::new();
    /// store.set("lock:nightly", "somebody", Duration::from_secs(30));
    /// assert_eq!(store.owner("lock:nightly").as_deref(), Some("somebody"));
    /// ```
    pub fn set(&self, redis_key: &str, owner: &str, expire: Duration) {
        let ends = Clock::Tokio.now().plus(expire);
        let mut tables = self.tables.lock();
        let fencing_token = tables.next_token();
        let holder = Holder { owner: owner.to_owned(), fencing_token, ends };
        tables.locks.insert(redis_key.to_owned(), Record::of(Kind::Exclusive, holder));
    }

    /// Forgets all locks.
    #[cfg(any(test, feature = "test-util"))]
    pub(crate) fn clear(&self) {
        self.tables.lock().locks.clear();
    }

    /// As if the clock of this node had been ahead.
    #[cfg(test)]
    pub(crate) fn set_last_token(&self, last: u64) {
        self.tables.lock().last_token = last;
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("locks", &self.tables.lock().locks.len()).finish()
    }
}

/// Tells waiters of a release. Outside of the mutex: this wakes tasks.
fn tell(told: Vec<OnRelease>) {
    for on_release in told {
        on_release();
    }
}

fn other_clock() -> Fault {
    let message = "the lease in this store is counted on another clock, which may be paused";
    let node = NodeError::new("memory", NodeErrorKind::OtherClock, message);
    Fault { nodes: vec![node], is_unknown: false, is_final: true }
}

/// The backend over a [`MemoryStore`]. It answers at once.
#[derive(Debug)]
pub(crate) struct Memory {
    store: MemoryStore,
    made: SystemTime,
}

impl Memory {
    pub(crate) fn new(store: MemoryStore) -> Self {
        Self { store, made: SystemTime::now() }
    }

    fn take(&self, claim: &Claim) -> Result<Acquired, Fault> {
        let (now, here) = (Clock::Tokio.now(), LeaseClock::here());
        let mut tables = self.store.tables.lock();
        let key = claim.key.redis_key();
        if tables.is_held_elsewhere(key, &here, now) {
            return Err(other_clock());
        }
        let (kind, ends) = (claim.kind, now.plus(claim.expire));
        let (is_kept_out, fencing_token) = (tables.is_kept_out(claim, now), tables.next_token());
        let holder = || Holder { owner: claim.owner.as_str().to_owned(), fencing_token, ends };
        let Some(record) = tables.live(key, now) else {
            if is_kept_out {
                // Nobody notifies of leases that have ended by themselves.
                let told = tables.hints(key, now);
                drop(tables);
                tell(told);
                return Ok(Acquired::refused(None, None));
            }
            tables.locks.insert(key.to_owned(), Record::of(kind, holder()));
            tables.sweep(&here, now);
            return Ok(Acquired::granted(fencing_token));
        };
        let is_like = record.kind.is_like(kind);
        if let Some(ours) = record.of_owner(claim).filter(|_| is_like) {
            ours.ends = ends;
            let fencing_token = ours.fencing_token;
            return Ok(Acquired::granted(fencing_token));
        }
        if record.has_room(kind) && !is_kept_out {
            record.holders.push(holder());
            return Ok(Acquired::granted(fencing_token));
        }
        let free_in = Some(record.ends(kind).since(now));
        Ok(Acquired::refused(record.shown(), free_in))
    }

    fn extend(&self, claim: &Claim) -> Found {
        let now = Clock::Tokio.now();
        match self.store.tables.lock().ours(claim, now) {
            Ok(holder) => {
                holder.ends = now.plus(claim.expire);
                Found::Ours
            }
            Err(found) => found,
        }
    }

    fn lift(&self, claim: &Claim, fencing_token: FencingToken) -> Found {
        let mut tables = self.store.tables.lock();
        if let Err(found) = tables.ours(claim, Clock::Tokio.now()) {
            return found;
        }
        tables.last_token = tables.last_token.max(fencing_token.into());
        Found::Ours
    }

    fn free(&self, claim: &Claim) -> Found {
        let now = Clock::Tokio.now();
        let told = {
            let mut tables = self.store.tables.lock();
            if let Err(found) = tables.ours(claim, now) {
                return found;
            }
            let key = claim.key.redis_key();
            if let Some(record) = tables.locks.get_mut(key) {
                record.holders.retain(|holder| holder.owner != claim.owner.as_str());
                if record.holders.is_empty() {
                    tables.locks.remove(key);
                }
            }
            tables.hints(key, now)
        };
        tell(told);
        Found::Ours
    }

    /// Lets go of a lock that stays taken until `left` is over.
    fn retain(&self, claim: &Claim, left: Duration) -> Found {
        let (now, retained) = (Clock::Tokio.now(), claim.owner.retained());
        let mut tables = self.store.tables.lock();
        let Some(record) = tables.live(claim.key.redis_key(), now) else { return Found::Gone };
        let [holder] = record.holders.as_mut_slice() else { return Found::Stolen };
        if holder.owner == claim.owner.as_str() {
            (holder.owner, holder.ends) = (retained, now.plus(left));
        } else if holder.owner != retained {
            return Found::Stolen;
        }
        Found::Ours
    }

    /// The exclusive lock of `held` becomes that of a first reader.
    fn turn(&self, held: &Claim, next: &Claim) -> Downgraded {
        let now = Clock::Tokio.now();
        let (fencing_token, told) = {
            let mut tables = self.store.tables.lock();
            let fencing_token = tables.next_token();
            if let Err(found) = tables.ours(held, now) {
                return Downgraded::Lost(found);
            }
            let (owner, ends) = (next.owner.as_str().to_owned(), now.plus(next.expire));
            let reader = Record::of(Kind::Read, Holder { owner, fencing_token, ends });
            let key = next.key.redis_key();
            tables.locks.insert(key.to_owned(), reader);
            (fencing_token, tables.hints(key, now))
        };
        tell(told);
        Downgraded::Granted(fencing_token)
    }
}

impl LockBackend for Memory {
    fn acquire<'a>(&'a self, claim: &'a Claim, _: Duration) -> Reply<'a, Acquired> {
        let answer = self.take(claim);
        Box::pin(async move { answer })
    }

    fn renew<'a>(&'a self, claims: &'a [Claim], _: Duration) -> Reply<'a, Vec<Option<Found>>> {
        let answers = claims.iter().map(|claim| Some(self.extend(claim))).collect();
        Box::pin(async move { Ok(answers) })
    }

    fn release<'a>(&'a self, release: Release<'a>, _: Duration) -> Reply<'a, Found> {
        let answer = match release.retain {
            Some(left) => self.retain(release.claim, left),
            None => self.free(release.claim),
        };
        Box::pin(async move { Ok(answer) })
    }

    fn raise<'a>(
        &'a self,
        claim: &'a Claim,
        fencing_token: FencingToken,
        _: Duration,
    ) -> Reply<'a, Found> {
        let answer = self.lift(claim, fencing_token);
        Box::pin(async move { Ok(answer) })
    }

    fn verify(&self, _: Duration) -> Reply<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn abilities(&self) -> Abilities<'_> {
        Abilities {
            release_hints: Some(self),
            acquire_all: Some(self),
            downgrade: Some(self),
            health: Some(self),
            has_permits: true,
            is_synchronous: true,
            ..Abilities::default()
        }
    }
}

impl Downgrade for Memory {
    fn downgrade<'a>(
        &'a self,
        held: &'a Claim,
        next: &'a Claim,
        _: Duration,
    ) -> Reply<'a, Downgraded> {
        let answer = self.turn(held, next);
        Box::pin(async move { Ok(answer) })
    }
}

#[cfg(test)]
mod tests {
    use super::tables::{FIRST_SWEEP, micros_since_epoch};
    use super::*;
    use crate::key::LockKey;
    use crate::owner::Owner;

    const EXPIRE: Duration = Duration::from_secs(10);

    fn take(memory: &Memory, key: &str) -> u64 {
        let key = LockKey::new("", key).unwrap();
        let claim =
            Claim { key, owner: Owner::of_nobody("test"), expire: EXPIRE, kind: Kind::Exclusive };
        match memory.take(&claim) {
            Ok(Acquired::Granted { fencing_tokens, .. }) => fencing_tokens.first.into(),
            refused => panic!("{refused:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_is_over_in_the_moment_in_which_it_ends() {
        let store = MemoryStore::new();
        let memory = Memory::new(store.clone());
        take(&memory, "k");
        tokio::time::advance(EXPIRE.saturating_sub(Duration::from_nanos(1))).await;
        assert!(store.owner("k").is_some());
        tokio::time::advance(Duration::from_nanos(1)).await;
        assert_eq!(store.owner("k"), None);
    }

    /// The store needs no saved counter: a new store continues above the old one.
    #[tokio::test(start_paused = true)]
    async fn fencing_tokens_begin_at_the_time() {
        let before = micros_since_epoch();
        let first = take(&Memory::new(MemoryStore::new()), "k");
        assert!(first >= before && first <= micros_since_epoch(), "{before} {first}");
        assert!(before > 1_700_000_000_000_000);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_over_is_swept_out_each_time_the_store_has_doubled() {
        let store = MemoryStore::new();
        let memory = Memory::new(store.clone());
        let size = || store.tables.lock().locks.len();
        let fill = |name: &str, count: usize| {
            for number in 0..count {
                take(&memory, &format!("{name}-{number}"));
            }
        };
        fill("a", FIRST_SWEEP - 1);
        tokio::time::advance(EXPIRE / 2).await;
        fill("b", 1);
        assert_eq!(size(), FIRST_SWEEP, "swept, and all of them run");
        tokio::time::advance(EXPIRE).await;
        fill("c", FIRST_SWEEP - 1);
        assert_eq!(size(), 2 * FIRST_SWEEP - 1, "too few to look");
        fill("d", 1);
        assert_eq!(size(), FIRST_SWEEP);
    }
}
