//! Releases that find no room on the connection of their caller, who awaits them: what they find is
//! told once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusBuilder;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::fake::{Fate, client_at, client_of, parts};
use super::server::Server;
use crate::acquire::{Order, start, start_all};
use crate::backend::{
    Abilities, Acquired, Claim, Departures, Found, LocalConnection, LockBackend, Release, Reply,
};
use crate::clock::{Clock, Moment};
use crate::engine::Parts;
use crate::fencing::FencingToken;
use crate::key::LockKey;
use crate::kind::Kind;
use crate::options::Policy;
use crate::report::Reports;
use crate::state::Released;

/// A server over a connection that has room for so many releases.
#[derive(Debug)]
struct Crowded {
    server: Arc<Server>,
    rooms: AtomicUsize,
    me: Weak<Self>,
}

impl Crowded {
    fn new(rooms: usize) -> Arc<Self> {
        let (server, rooms) = (Server::new(), AtomicUsize::new(rooms));
        Arc::new_cyclic(|me| Self { server, rooms, me: me.clone() })
    }
}

impl LockBackend for Crowded {
    fn acquire<'a>(&'a self, claim: &'a Claim, within: Duration) -> Reply<'a, Acquired> {
        self.server.acquire(claim, within)
    }

    fn renew<'a>(&'a self, claims: &'a [Claim], within: Duration) -> Reply<'a, Vec<Option<Found>>> {
        self.server.renew(claims, within)
    }

    fn release<'a>(&'a self, release: Release<'a>, within: Duration) -> Reply<'a, Found> {
        self.server.release(release, within)
    }

    fn raise<'a>(
        &'a self,
        claim: &'a Claim,
        fencing_token: FencingToken,
        within: Duration,
    ) -> Reply<'a, Found> {
        self.server.raise(claim, fencing_token, within)
    }

    fn verify(&self, within: Duration) -> Reply<'_, ()> {
        self.server.verify(within)
    }

    fn abilities(&self) -> Abilities<'_> {
        let (local_connection, departures) = (Some(self as _), Some(self as _));
        Abilities { local_connection, departures, ..self.server.abilities() }
    }
}

impl LocalConnection for Crowded {
    fn local_connection(&self) -> Option<Arc<dyn LockBackend>> {
        Some(self.me.upgrade()?)
    }
}

impl Departures for Crowded {
    fn next_departure(&self) -> Option<oneshot::Receiver<()>> {
        None
    }

    fn has_room(&self, _: bool) -> bool {
        let less = |rooms: usize| rooms.checked_sub(1);
        self.rooms.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    fn join<'a>(&'a self, _: Release<'a>, _: Duration, _: Moment) -> Option<Reply<'a, Found>> {
        None
    }
}

fn key(name: &str) -> LockKey {
    LockKey::new("", name).unwrap()
}

fn order(name: &str) -> Order {
    let (kind, policy) = (Kind::Exclusive, Policy::DEFAULT);
    Order {
        template: "k",
        key: key(name),
        kind,
        policy,
        skips_busy: false,
        shutdowns_before: 0,
        is_leader: false,
    }
}

#[test]
fn a_lost_lock_is_counted_once() {
    for (names, rooms) in [(["a"].as_slice(), 0), (&["a"], 1), (&["a", "b"], 0), (&["a", "b"], 1)] {
        let recorder = PrometheusBuilder::new().build_recorder();
        let counts = recorder.handle();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        metrics::with_local_recorder(&recorder, || {
            runtime.block_on(async {
                let crowded = Crowded::new(rooms);
                let backend = Arc::clone(&crowded) as Arc<dyn LockBackend>;
                let redlock = client_at(backend, 100, false);
                let order = order(names[0]);
                let further: Vec<LockKey> = names[1..].iter().map(|name| key(name)).collect();
                let acquiring = if further.is_empty() {
                    start(redlock.engine(), order)
                } else {
                    start_all(redlock.engine(), order, further)
                };
                let ownership = acquiring.await.unwrap();
                for name in names {
                    crowded.server.remove(name);
                }
                // Its caller learns nothing, and reports nothing more.
                let told = ownership.release_unawaited(true).unwrap().await;
                assert_eq!(told.unwrap().unwrap(), Released::Unknown);
            });
        });
        let counted = "redlock_unprotected_total{template=\"k\"} 1\n";
        assert!(counts.render().contains(counted), "{names:?} {rooms}: {}", counts.render());
    }
}

/// Its caller waits for a quarter of that, and the background has it then.
#[tokio::test]
async fn a_silent_server_does_not_keep_a_finished_body_for_its_reply_timeout() {
    const REPLY_TIMEOUT: Duration = Duration::from_secs(4);
    let crowded = Crowded::new(0);
    let redlock = client_of(Parts {
        reply_timeout: REPLY_TIMEOUT,
        is_embedded: false,
        reports: Arc::new(Reports::new(Clock::Boot)),
        ..parts(Arc::clone(&crowded) as Arc<dyn LockBackend>)
    });
    let ownership = start(redlock.engine(), order("a")).await.unwrap();
    crowded.server.next("release", [Fate::LostRequest]);
    let begun = Instant::now();
    let told = ownership.release_unawaited(true).unwrap().await;
    assert_eq!(told.unwrap().unwrap(), Released::Unknown);
    assert!(begun.elapsed() < REPLY_TIMEOUT, "{:?}", begun.elapsed());
    while crowded.server.owner("a").is_some() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
