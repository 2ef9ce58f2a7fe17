//! Clients on a faulty node, and what the unit tests do to such a node beside the users' tests.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::backend::{Cause, Command, LockBackend, MemorySince};
pub(super) use crate::backend::{Fate, FaultyNode as Fake, meet};
use crate::client::Redlock;
use crate::clock::{Clock, Moment};
use crate::engine::{Engine, Parts};
use crate::options::Policy;
use crate::report::Reports;

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(super) const MINUTE: Duration = Duration::from_secs(60);

/// A client on a fake, and the fake.
pub(crate) fn fake() -> (Redlock, Arc<Fake>) {
    fake_with(100)
}

pub(super) fn fake_with(max_waiters: usize) -> (Redlock, Arc<Fake>) {
    let fake = Fake::new("fake");
    (client(Arc::clone(&fake) as Arc<dyn LockBackend>, max_waiters), fake)
}

/// A client on a backend.
pub(super) fn client(backend: Arc<dyn LockBackend>, max_waiters: usize) -> Redlock {
    client_at(backend, max_waiters, true)
}

/// The same, embedded in the runtime of its callers or served by the background thread.
pub(crate) fn client_at(
    backend: Arc<dyn LockBackend>,
    max_waiters: usize,
    is_embedded: bool,
) -> Redlock {
    client_of(Parts { max_waiters, is_embedded, ..parts(backend) })
}

/// Those of an embedded client.
pub(crate) fn parts(backend: Arc<dyn LockBackend>) -> Parts {
    Parts {
        backend,
        client_name: "fake".to_owned(),
        reply_timeout: SECOND,
        outage_wait: None,
        max_waiters: 100,
        is_embedded: true,
        reports: Arc::new(Reports::new(Clock::Tokio)),
    }
}

/// A client on a fake that gives up after so long an outage, and the fake.
pub(super) fn fake_giving_up(outage_wait: Duration) -> (Redlock, Arc<Fake>) {
    let fake = Fake::new("fake");
    (client_giving_up(Arc::clone(&fake) as Arc<dyn LockBackend>, outage_wait), fake)
}

/// A client on a backend that gives up after so long an outage.
pub(super) fn client_giving_up(backend: Arc<dyn LockBackend>, outage_wait: Duration) -> Redlock {
    client_of(Parts { outage_wait: Some(outage_wait), ..parts(backend) })
}

pub(super) fn client_of(parts: Parts) -> Redlock {
    Redlock::new(Engine::new(parts).unwrap(), String::new(), Policy::DEFAULT)
}

impl Fake {
    /// Every command meets this fate from now on, unless it has one of its own.
    pub(super) fn always(&self, fate: Option<Fate>) {
        self.state().script.every(Command::Any, fate);
    }

    pub(super) fn next_acquires(&self, fates: impl IntoIterator<Item = Fate>) {
        self.state().script.next(Command::Acquire, fates);
    }

    pub(super) fn next_raises(&self, fates: impl IntoIterator<Item = Fate>) {
        self.state().script.next(Command::Raise, fates);
    }

    pub(super) fn next_renews(&self, fates: impl IntoIterator<Item = Fate>) {
        self.state().script.next(Command::Renew, fates);
    }

    pub(super) fn next_releases(&self, fates: impl IntoIterator<Item = Fate>) {
        self.state().script.next(Command::Release, fates);
    }

    /// The connections of its clean-ups end before their answers come.
    pub(super) fn loses_clean_ups(&self) {
        self.state().unanswered = Some(HashSet::new());
    }

    /// It tells of releases from now on.
    pub(super) fn gives_notice(&self) {
        self.state().gives_hints = true;
    }

    /// How many want to be told of something.
    pub(super) fn awaited(&self) -> usize {
        self.store.hint_count()
    }

    /// Since when it remembers its leases.
    pub(super) fn recalls(&self, memory_since: MemorySince) {
        self.state().memory_since = Some(memory_since);
    }

    /// Its clock jumped.
    pub(super) fn doubted(&self, since: Moment, cause: Cause) {
        let mut state = self.state();
        state.memory_since = state.memory_since.take().map(|known| known.doubted(since, cause));
    }

    /// Its clock against that of the clients; `None`: its answers do not tell.
    pub(super) fn clock_offset(&self, micros: impl Into<Option<i64>>) {
        self.state().clock_offset = micros.into();
    }

    /// Its clock may be so much less.
    pub(super) fn clock_width(&self, micros: i64) {
        self.state().clock_width = micros;
    }

    /// To a new client, it has not answered yet.
    pub(super) fn tells_nothing(&self) {
        self.state().has_answered = false;
    }

    /// What stands on it for other clients.
    pub(super) fn founders(&self) -> Option<String> {
        self.state().founders.clone()
    }

    /// What the clients have left on it; it is gone then.
    pub(super) fn take_founders(&self) -> Option<String> {
        self.state().founders.take()
    }

    /// When renewals came, and how many in one call; forgets them.
    pub(super) fn take_batches(&self) -> Vec<(Instant, usize)> {
        std::mem::take(&mut self.state().batches)
    }
}
