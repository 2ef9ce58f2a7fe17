//! The embedded backend: locks in the memory of this process, on a clock that tests can pause.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::runtime;

use super::acquire_all::{AcquireAll, AllAcquired};
use super::claim::{Claim, Release};
use super::lock_backend::{Abilities, LockBackend};
use super::outcome::Reply;
use super::outcome::{Acquired, Fault, Found};
use crate::clock::{Clock, Moment, paused_runtime};
use crate::error::{NodeError, NodeErrorKind};
use crate::fencing::FencingToken;

/// Expired entries are swept each time the map has doubled since the last sweep.
const FIRST_SWEEP: usize = 1024;

/// The locks of the `memory` backend. Clients that share a store exclude each other, like processes
/// on one Redis; the store can also simulate faults for tests.
///
/// Leases are counted on the clock of the runtime that acquires them. A key that was acquired on a
/// paused clock and is wanted on another one is an error of the kind
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

    /// The owner value in a key (prefix included), if its lease still runs.
    ///
    /// ```
    /// assert_eq!(redlock::MemoryStore::new().owner("lock:nightly"), None);
    /// ```
    pub fn owner(&self, redis_key: &str) -> Option<String> {
        self.tables().live(redis_key, Clock::Tokio.now()).map(|record| record.owner.clone())
    }

    /// Removes a key (prefix included), as a server that lost its data would.
    ///
    /// ```
    /// redlock::MemoryStore::new().remove("lock:nightly");
    /// ```
    pub fn remove(&self, redis_key: &str) {
        self.tables().locks.remove(redis_key);
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
        let mut tables = self.tables();
        let fencing_token = tables.next_token();
        let record = Record { owner: owner.to_owned(), fencing_token, ends, clock: clock_here() };
        tables.locks.insert(redis_key.to_owned(), record);
    }

    /// As if the clock of this node had been ahead.
    #[cfg(test)]
    pub(crate) fn set_last_token(&self, last: u64) {
        self.tables().last_token = last;
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("locks", &self.tables().locks.len()).finish()
    }
}

#[derive(Default)]
struct Tables {
    locks: HashMap<String, Record>,
    /// The last fencing token over all locks.
    last_token: u64,
    next_sweep: usize,
}

struct Record {
    owner: String,
    fencing_token: FencingToken,
    ends: Moment,
    /// The runtime on whose paused clock the lease is counted; `None`: real time.
    clock: Option<runtime::Id>,
}

impl Tables {
    fn live(&mut self, redis_key: &str, now: Moment) -> Option<&mut Record> {
        let clock = clock_here();
        // A lease that is counted on another clock counts as live: its end cannot be told here.
        let is_live = |record: &&mut Record| record.clock != clock || now < record.ends;
        self.locks.get_mut(redis_key).filter(is_live)
    }

    /// The record of a lock that its owner still holds, or what was found instead.
    fn ours(&mut self, claim: &Claim, now: Moment) -> Result<&mut Record, Found> {
        match self.live(claim.key.redis_key(), now) {
            None => Err(Found::Gone),
            Some(record) if record.owner != claim.owner.as_str() => Err(Found::Stolen),
            Some(record) => Ok(record),
        }
    }

    fn next_token(&mut self) -> FencingToken {
        self.last_token = (self.last_token + 1).max(micros_since_epoch());
        let next = FencingToken::new(self.last_token);
        next.unwrap_or_else(|| unreachable!("the clock shows the year 2255"))
    }

    fn sweep(&mut self, now: Moment, clock: Option<runtime::Id>) {
        if self.locks.len() < self.next_sweep.max(FIRST_SWEEP) {
            return;
        }
        self.locks.retain(|_, record| record.clock != clock || now < record.ends);
        self.next_sweep = 2 * self.locks.len();
    }
}

fn clock_here() -> Option<runtime::Id> {
    paused_runtime().map(|runtime| runtime.id())
}

fn other_clock() -> Fault {
    let message = "the lease in this store is counted on another clock, which may be paused";
    let node = NodeError::new("memory", NodeErrorKind::OtherClock, message);
    Fault { nodes: vec![node], is_unknown: false, is_final: true }
}

fn micros_since_epoch() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(elapsed.as_micros()).unwrap_or(0).min(FencingToken::LIMIT - 1)
}

/// The backend over a [`MemoryStore`]. It answers at once.
#[derive(Debug)]
pub(crate) struct Memory {
    store: MemoryStore,
}

impl Memory {
    pub(crate) fn new(store: MemoryStore) -> Self {
        Self { store }
    }

    fn take(&self, claim: &Claim) -> Result<Acquired, Fault> {
        let (now, clock) = (Clock::Tokio.now(), clock_here());
        let mut tables = self.store.tables();
        let key = claim.key.redis_key();
        if tables.locks.get(key).is_some_and(|record| record.clock != clock) {
            return Err(other_clock());
        }
        let ends = now.plus(claim.expire);
        if let Some(record) = tables.live(key, now) {
            if record.owner != claim.owner.as_str() {
                let (holder, free_in) = (record.owner.clone(), Some(record.ends.since(now)));
                let refused =
                    Acquired::Refused { holder, free_in, was_cut: false, is_split: false };
                return Ok(refused);
            }
            record.ends = ends;
            return Ok(Acquired::Granted { fencing_token: record.fencing_token, was_cut: false });
        }
        let fencing_token = tables.next_token();
        let record = Record { owner: claim.owner.as_str().to_owned(), fencing_token, ends, clock };
        tables.locks.insert(key.to_owned(), record);
        tables.sweep(now, clock);
        Ok(Acquired::Granted { fencing_token, was_cut: false })
    }

    /// All of them, or none.
    fn take_all(&self, claims: &[Claim]) -> Result<AllAcquired, Fault> {
        let (now, clock) = (Clock::Tokio.now(), clock_here());
        let mut tables = self.store.tables();
        for (place, claim) in claims.iter().enumerate() {
            let key = claim.key.redis_key();
            if tables.locks.get(key).is_some_and(|record| record.clock != clock) {
                return Err(other_clock());
            }
            if let Some(record) = tables.live(key, now)
                && record.owner != claim.owner.as_str()
            {
                let (holder, free_in) = (record.owner.clone(), Some(record.ends.since(now)));
                return Ok(AllAcquired::Refused { place, holder, free_in, was_cut: false });
            }
        }
        let fencing_token = tables.next_token();
        for claim in claims {
            let (owner, ends) = (claim.owner.as_str().to_owned(), now.plus(claim.expire));
            let record = Record { owner, fencing_token, ends, clock };
            tables.locks.insert(claim.key.redis_key().to_owned(), record);
        }
        tables.sweep(now, clock);
        Ok(AllAcquired::Granted { fencing_token, was_cut: false })
    }

    fn extend(&self, claim: &Claim) -> Found {
        let now = Clock::Tokio.now();
        match self.store.tables().ours(claim, now) {
            Ok(record) => {
                record.ends = now.plus(claim.expire);
                Found::Ours
            }
            Err(found) => found,
        }
    }

    fn lift(&self, claim: &Claim, fencing_token: FencingToken) -> Found {
        let mut tables = self.store.tables();
        if let Err(found) = tables.ours(claim, Clock::Tokio.now()) {
            return found;
        }
        tables.last_token = tables.last_token.max(fencing_token.into());
        Found::Ours
    }

    fn free(&self, claim: &Claim) -> Found {
        let mut tables = self.store.tables();
        if let Err(found) = tables.ours(claim, Clock::Tokio.now()) {
            return found;
        }
        tables.locks.remove(claim.key.redis_key());
        Found::Ours
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
        let answer = self.free(release.claim);
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
        Abilities { is_synchronous: true, acquire_all: Some(self), ..Abilities::default() }
    }
}

impl AcquireAll for Memory {
    fn reaches(&self, _: &[Claim]) -> bool {
        true
    }

    fn acquire_all<'a>(&'a self, claims: &'a [Claim], _: Duration) -> Reply<'a, AllAcquired> {
        let answer = self.take_all(claims);
        Box::pin(async move { answer })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::LockKey;
    use crate::owner::Owner;

    const EXPIRE: Duration = Duration::from_secs(10);

    fn take(memory: &Memory, key: &str) -> u64 {
        let key = LockKey::new("", key).unwrap();
        let claim = Claim { key, owner: Owner::fresh("test"), expire: EXPIRE };
        match memory.take(&claim) {
            Ok(Acquired::Granted { fencing_token, .. }) => fencing_token.into(),
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
        let size = || store.tables().locks.len();
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
