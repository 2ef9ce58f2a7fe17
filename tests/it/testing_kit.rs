//! The faults of `redlock::testing` are those of a real server: what a client makes of each is the
//! same on both.

use redlock::testing::{Command, FaultyStore};
use redlock::{LockError, NodeErrorKind as Kind, Redlock, Released, Wait};

use crate::fault_kit::{NOISE, builder, client, each};
use crate::support::proxy::{Hits, Then, command, contains};
use crate::support::scripted::{self as says, Reply, Scripted};
use crate::support::{Raw, Server, eventually, ms, secs};

const SCRIPTS: &[&str] = &["EVALSHA", "EVAL"];

/// Where a client has its locks, and where faults are done to it.
enum Site {
    Kit(FaultyStore),
    Server(Box<(Scripted, Raw)>),
}

/// A fault, for one command or for all.
#[derive(Clone, Copy)]
enum Fault {
    LostReply,
    LostRequest,
    Delay(u64),
    Refused(Kind, Reply),
}

/// What became of a call, in words that do not depend on where it was.
type Outcome = String;

impl Site {
    async fn pair() -> Vec<(Site, Redlock, String)> {
        let store = FaultyStore::new();
        let (options, prefix) = builder("redis://unused");
        drop(options);
        let kit = Redlock::builder().faulty_store(&store).prefix(prefix.clone());
        let kit = kit.expire(secs(60)).reply_timeout(ms(700)).build().await.unwrap();
        let server = Server::shared().await;
        let scripted = Scripted::start(server);
        let (redlock, own) = client(&scripted.url()).await;
        vec![
            (Site::Kit(store), kit, format!("{prefix}k")),
            (Site::Server(Box::new((scripted, server.raw()))), redlock, format!("{own}k")),
        ]
    }

    /// For the command that comes next, which is one of this kind.
    fn next(&self, kind: Command, fault: Fault) {
        match self {
            Site::Kit(store) => fault.plan(store.next(kind)),
            Site::Server(server) => {
                let scripted = &server.0;
                scripted.proxy.when(command(SCRIPTS), fault.then());
            }
        }
    }

    /// From now on.
    fn every(&self, kind: Command, fault: Fault) {
        match self {
            Site::Kit(store) => fault.plan(store.every(kind)),
            Site::Server(server) => {
                let scripted = &server.0;
                scripted.proxy.always(command(SCRIPTS), fault.then());
            }
        }
    }

    fn down(&self) {
        match self {
            Site::Kit(store) => store.down(),
            Site::Server(server) => {
                let scripted = &server.0;
                scripted.proxy.refuse();
                scripted.proxy.cut_all();
            }
        }
    }

    async fn steal(&self, key: &str) {
        match self {
            Site::Kit(store) => store.steal(key),
            Site::Server(server) => drop(server.1.cmd(&["SET", key, "thief:1"]).await),
        }
    }

    async fn expire(&self, key: &str) {
        match self {
            Site::Kit(store) => store.expire(key),
            Site::Server(server) => assert!(server.1.del(key).await),
        }
    }

    /// Counts acquires from now on, which meet this fault. Those that a server gets are told from
    /// clean-ups by their lease of 60 s.
    fn count_acquires(&self, fault: Fault) -> Option<Hits> {
        match self {
            Site::Kit(store) => {
                store.take_log();
                None
            }
            Site::Server(server) => {
                let scripted = &server.0;
                Some(scripted.proxy.always(contains("$5\r\n60000\r\n"), fault.then()))
            }
        }
    }

    /// How many acquires came since they are counted.
    fn acquires(&self, counted: Option<Hits>) -> usize {
        match self {
            Site::Kit(store) => {
                store.take_log().iter().filter(|line| line.starts_with("acquire ")).count()
            }
            Site::Server(_) => counted.map_or(0, |hits| hits.count()),
        }
    }

    async fn owner(&self, key: &str) -> Option<String> {
        match self {
            Site::Kit(store) => store.owner(key),
            Site::Server(server) => server.1.get(key).await,
        }
    }
}

impl Fault {
    fn plan(self, planned: redlock::testing::PlannedFault<'_>) {
        match self {
            Fault::LostReply => planned.lose_reply(),
            Fault::LostRequest => planned.lose_request(),
            Fault::Delay(millis) => planned.delay(ms(millis)),
            Fault::Refused(kind, _) => planned.refuse(kind),
        }
    }

    fn then(self) -> Then {
        match self {
            Fault::LostReply => Then::LoseReply,
            Fault::LostRequest => Then::LoseRequest,
            Fault::Delay(millis) => Then::DelayReply(ms(millis)),
            Fault::Refused(_, reply) => reply.into(),
        }
    }
}

fn told(error: &LockError) -> Outcome {
    match error {
        LockError::Unavailable { nodes, .. } => {
            let kinds: Vec<_> = nodes.iter().map(redlock::NodeError::kind).collect();
            format!("unavailable: {kinds:?}, again after {:?}", error.retry_after())
        }
        LockError::Lost { reason, renewals, .. } => format!("lost: {reason:?}, {renewals}"),
        LockError::Timeout { holder, .. } => {
            format!("busy: {:?}", holder.as_deref().and_then(|holder| holder.split(':').next()))
        }
        other => format!("{other}"),
    }
}

fn released(answer: &Result<Released, LockError>) -> Outcome {
    answer.as_ref().map_or_else(told, |released| format!("{released:?}"))
}

/// Waits until nothing is left of the lock, and says so.
async fn cleaned_up(site: &Site, key: &str) {
    eventually(NOISE, || async { site.owner(key).await.is_none() }).await;
}

fn faults() -> Vec<(&'static str, Fault)> {
    let refused = |kind, reply: Reply| (reply.name, Fault::Refused(kind, reply));
    vec![
        ("lost reply", Fault::LostReply),
        ("lost request", Fault::LostRequest),
        ("slow", Fault::Delay(200)),
        ("too slow", Fault::Delay(3_000)),
        refused(Kind::Loading, says::LOADING),
        refused(Kind::Busy, says::BUSY),
        refused(Kind::OutOfMemory, says::OOM),
        refused(Kind::CannotPersist, says::MISCONF),
        refused(Kind::NoReplicas, says::NOREPLICAS),
        refused(Kind::ReadOnly, says::READONLY),
        refused(Kind::Authentication, says::NOAUTH),
        refused(Kind::NoPermission, says::NOPERM),
        refused(Kind::WrongType, says::WRONGTYPE),
        refused(Kind::Refused, says::PLAIN_ERR),
        refused(Kind::Protocol, says::WRONG_SHAPE),
    ]
}

#[tokio::test]
async fn an_acquire_ends_as_on_a_server() {
    each(faults(), |fault| async move {
        let mut outcomes = Vec::new();
        for (site, redlock, key) in Site::pair().await {
            site.next(Command::Acquire, fault);
            let acquired = redlock.lock("k").wait(Wait::Never).acquire().await;
            outcomes.push(acquired.as_ref().map_or_else(told, |_| "granted".to_owned()));
            drop(acquired);
            cleaned_up(&site, &key).await;
            assert!(redlock.lock("k").acquire().await.is_ok(), "the next one is not harmed");
        }
        assert_eq!(outcomes[0], outcomes[1]);
    })
    .await;
}

/// Until its wait is over, unless nothing but a person can help.
#[tokio::test]
async fn an_acquire_is_tried_again_as_on_a_server() {
    each(faults(), |fault| async move {
        let mut outcomes = Vec::new();
        for (site, redlock, _) in Site::pair().await {
            let counted = site.count_acquires(fault);
            site.every(Command::Any, fault);
            let request = redlock.lock("k").expire(secs(60)).wait(ms(1500));
            let acquired = request.acquire().await;
            let outcome = acquired.as_ref().map_or_else(told, |_| "granted".to_owned());
            outcomes.push((outcome, site.acquires(counted) > 1));
        }
        assert_eq!(outcomes[0], outcomes[1]);
        let is_final = matches!(fault, Fault::Refused(kind, _) if is_for_a_person(kind));
        let is_granted = matches!(fault, Fault::Delay(200));
        assert_eq!(outcomes[0].1, !is_final && !is_granted, "tried again");
    })
    .await;
}

fn is_for_a_person(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::OutOfMemory
            | Kind::Authentication
            | Kind::NoPermission
            | Kind::WrongType
            | Kind::Refused
    )
}

#[tokio::test]
async fn a_release_ends_as_on_a_server() {
    each(faults(), |fault| async move {
        let mut outcomes = Vec::new();
        for (site, redlock, _) in Site::pair().await {
            let guard = redlock.lock("k").acquire().await.unwrap();
            site.next(Command::Release, fault);
            outcomes.push(released(&guard.release().await));
        }
        assert_eq!(outcomes[0], outcomes[1]);
    })
    .await;
}

#[tokio::test]
async fn a_lease_that_is_not_renewed_ends_as_on_a_server() {
    each(faults(), |fault| async move {
        let mut outcomes = Vec::new();
        for (site, redlock, _) in Site::pair().await {
            let guard = redlock.lock("k").expire(secs(6)).acquire().await.unwrap();
            site.every(Command::Renew, fault);
            let body = guard.protect(crate::support::time_passes(secs(6)));
            outcomes.push(body.await.map_or_else(|error| told(&error), |()| "kept".to_owned()));
        }
        assert_eq!(outcomes[0], outcomes[1]);
    })
    .await;
}

#[tokio::test]
async fn a_server_that_is_down_is_unreachable_on_both() {
    let mut outcomes = Vec::new();
    for (site, redlock, _) in Site::pair().await {
        site.down();
        outcomes.push(told(&redlock.lock("k").wait(ms(1500)).acquire().await.unwrap_err()));
    }
    assert_eq!(outcomes[0], outcomes[1]);
}

#[tokio::test]
async fn a_lock_that_was_meddled_with_is_lost_as_on_a_server() {
    each([("stolen", true), ("expired", false)], |is_stolen| async move {
        let mut outcomes = Vec::new();
        for (site, redlock, key) in Site::pair().await {
            let meddle = async || {
                if is_stolen { site.steal(&key).await } else { site.expire(&key).await }
            };
            let guard = redlock.lock("k").acquire().await.unwrap();
            meddle().await;
            outcomes.push(released(&guard.release().await));
            if is_stolen {
                outcomes
                    .push(told(&redlock.lock("k").wait(Wait::Never).acquire().await.unwrap_err()));
                site.expire(&key).await;
            }
            let guard = redlock.lock("k").expire(secs(6)).acquire().await.unwrap();
            meddle().await;
            outcomes.push(format!("{:?}", guard.lost().await));
            outcomes.push(told(&guard.check().unwrap_err()));
        }
        let (kit, server) = outcomes.split_at(outcomes.len() / 2);
        assert_eq!(kit, server);
    })
    .await;
}

#[tokio::test]
async fn a_server_that_came_back_without_its_data_says_so_as_a_server_does() {
    let (server, store) = (Server::start().await, FaultyStore::new());
    let (redlock, _) = client(&server.url()).await;
    let mut outcomes = Vec::new();
    for (is_kit, redlock) in [(true, store.client().await.unwrap()), (false, redlock)] {
        let restart = async || if is_kit { store.restart() } else { server.restart_empty().await };
        let guard = redlock.lock("k").expire(secs(60)).acquire().await.unwrap();
        let renewed = redlock.lock("renewed").expire(secs(6)).acquire().await.unwrap();
        restart().await;
        outcomes.push(released(&guard.release().await));
        outcomes.push(format!("{:?}", renewed.lost().await));
        let next = redlock.lock("k").wait(Wait::Never).acquire().await;
        outcomes.push(next.as_ref().map_or_else(told, |_| "granted".to_owned()));
    }
    let (kit, server) = outcomes.split_at(outcomes.len() / 2);
    assert_eq!(kit, server);
}
