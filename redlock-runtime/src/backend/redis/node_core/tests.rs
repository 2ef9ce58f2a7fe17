use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{OnceLock, Weak};
use std::time::Duration;

use deadpool_redis::redis::aio::ConnectionLike;
use deadpool_redis::redis::{Cmd, RedisFuture, RedisResult, Value};

use super::*;
use crate::backend::redis::connection::{Scripted, bulk, single_commands};
use crate::backend::redis::route::Route;
use crate::backend::{FifoQueue, Found, LockBackend, ReleaseAll, TokensUsed};
use crate::fencing::FencingToken;
use crate::key::LockKey;
use crate::kind::Kind;
use crate::mutex::Mutex;
use crate::owner::Owner;

fn claim() -> Claim {
    Claim {
        key: LockKey::new("lock:", "k").unwrap(),
        owner: Owner::of_nobody("test"),
        expire: Duration::from_secs(60),
        kind: Kind::Exclusive,
    }
}

/// Is the clean-up of an acquire on its way after these answers to it?
async fn is_pending<const N: usize>(answers: [&str; N]) -> bool {
    let core =
        Arc::new(NodeCore::new("n".to_owned(), Scripted::new(answers), NodeOptions::default()));
    let connection = SharedConnection::new(Arc::clone(&core.source));
    let (claim, loan) = (claim(), connection.borrow().await.unwrap());
    core.undo(None, loan, &claim, false);
    assert!(core.pending_undos.is_pending(&claim.owner, || None));
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    core.pending_undos.is_pending(&claim.owner, || None)
}

#[tokio::test(start_paused = true)]
async fn a_clean_up_that_is_answered_is_on_its_way_no_more() {
    assert!(!is_pending([":0"]).await);
    // The server has become a replica, or the user may not release.
    assert!(!is_pending(["-READONLY You can't write against a read only replica."]).await);
    // The server has refused it, and says why.
    for refusal in [
        "-BUSY Redis is busy running a script.",
        "-MISCONF Errors writing to the AOF file",
        "-NOREPLICAS Not enough good replicas to write.",
        "-OOM command not allowed when used memory > 'maxmemory'.",
        "-WRONGTYPE Operation against a key holding the wrong kind of value",
    ] {
        assert!(!is_pending([refusal]).await, "{refusal}");
    }
    // Without the queue of the lock, which the user may not use, it is sent once more.
    let denied = "-NOPERM No permissions to access a key";
    assert!(!is_pending([denied, ":1"]).await);
    // Others may have said this in the place of the server, which may still run the script.
    assert!(is_pending(["-ERR upstream failure"]).await);
}

/// Its server answers after so long.
#[derive(Clone)]
struct Slow(Duration);

impl Source for Slow {
    type Connection = Self;

    async fn connect(&self) -> RedisResult<Self> {
        Ok(self.clone())
    }
}

impl ConnectionLike for Slow {
    fn req_packed_command<'a>(&'a mut self, _: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(async {
            tokio::time::sleep(self.0).await;
            Ok(Value::Int(0))
        })
    }

    single_commands!();
}

/// The lease that was asked for would have ended long ago.
#[tokio::test(start_paused = true)]
async fn a_clean_up_is_on_its_way_until_it_is_answered_however_late() {
    let source = Slow(Duration::from_secs(100));
    let core = Arc::new(NodeCore::new("n".to_owned(), source, NodeOptions::default()));
    let connection = SharedConnection::new(Arc::clone(&core.source));
    let (claim, loan) = (claim(), connection.borrow().await.unwrap());
    core.undo(None, loan, &claim, false);
    for (seconds, is_pending) in [(99, true), (2, false)] {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        assert_eq!(core.pending_undos.is_pending(&claim.owner, || None), is_pending);
    }
}

/// None of its connections answers.
#[derive(Default)]
struct Mute {
    made: Mutex<Vec<Weak<()>>>,
}

#[derive(Clone)]
struct Unanswered(#[expect(dead_code, reason = "it shows whether it is open")] Arc<()>);

impl Source for Mute {
    type Connection = Unanswered;

    async fn connect(&self) -> RedisResult<Unanswered> {
        let connection = Arc::default();
        self.made.lock().push(Arc::downgrade(&connection));
        Ok(Unanswered(connection))
    }
}

impl ConnectionLike for Unanswered {
    fn req_packed_command<'a>(&'a mut self, _: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(std::future::pending())
    }

    single_commands!();
}

/// As one does whose writes are paused. The owners may still not acquire again.
#[tokio::test(start_paused = true)]
async fn a_server_that_answers_no_script_has_few_connections_open() {
    let core = Arc::new(NodeCore::new("n".to_owned(), Mute::default(), NodeOptions::default()));
    let connection = SharedConnection::new(Arc::clone(&core.source));
    let mut owners = Vec::new();
    for _ in 0..40 {
        for _ in 0..5 {
            let (claim, loan) = (claim(), connection.borrow().await.unwrap());
            core.undo(None, loan, &claim, false);
            owners.push(claim.owner);
        }
        tokio::time::sleep(Duration::from_millis(1_100)).await;
    }
    let made = core.source.inner.made.lock();
    let open: Vec<bool> = made.iter().map(|weak| weak.strong_count() > 0).collect();
    assert_eq!(open.len(), 40, "each of them was given up");
    assert!(open[32..].iter().all(|is_open| *is_open), "the latest ones are kept");
    assert!(!open[..32].contains(&true), "{open:?}");
    assert!(owners.iter().all(|owner| core.pending_undos.is_pending(owner, || None)));
}

/// A node of this group whose server says that it is this process, and its connection.
async fn of_group(
    siblings: &Siblings,
    run_id: &str,
) -> (Route<Scripted>, SharedConnection<Scripted>) {
    let info = bulk(&format!("run_id:{run_id}\r\nrole:master"));
    let options = NodeOptions {
        founders_key: Some("founders".into()),
        siblings: siblings.clone(),
        ..NodeOptions::default()
    };
    let core = NodeCore::new(run_id.to_owned(), Scripted::new([&*info, "$-1"]), options);
    let connection = SharedConnection::new(Arc::clone(&core.source));
    drop(connection.borrow().await.unwrap());
    (Route::new(core), connection)
}

/// What would be taken away is the vote of that node.
#[tokio::test(start_paused = true)]
async fn nothing_is_undone_on_the_server_of_another_node() {
    for (other, is_undone) in [("a", false), ("b", true)] {
        let (siblings, claim) = (Siblings::default(), claim());
        let _other = of_group(&siblings, other).await;
        let (Route { core, .. }, connection) = of_group(&siblings, "a").await;
        core.undo(None, connection.borrow().await.unwrap(), &claim, false);
        assert_eq!(core.pending_undos.is_pending(&claim.owner, || None), is_undone, "{other}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_meets_the_server_of_a_clean_up_on_its_way_is_not_asked() {
    let (siblings, claim) = (Siblings::default(), claim());
    let (Route { core, .. }, connection) = of_group(&siblings, "a").await;
    core.undo(None, connection.borrow().await.unwrap(), &claim, false);
    let (later, _) = of_group(&siblings, "a").await;
    let acquired = later.acquire_within(&claim, Duration::from_secs(1)).await;
    let fault = acquired.unwrap_err();
    assert!(fault.nodes[0].kind() == NodeErrorKind::Refused && !fault.is_unknown, "{fault:?}");
}

/// While it connects, it turns out that a clean-up is on its way to the process that it meets.
struct Late {
    undo: Arc<OnceLock<(PendingUndos, Owner)>>,
}

impl Source for Late {
    type Connection = Scripted;

    async fn connect(&self) -> RedisResult<Scripted> {
        let (undos, owner) = self.undo.get().unwrap();
        undos.sent(owner, None);
        Ok(Scripted::new([&bulk("1795000000000000 17")]))
    }
}

#[tokio::test]
async fn what_a_clean_up_on_its_way_would_take_away_is_not_granted() {
    let undo = Arc::<OnceLock<_>>::default();
    let core =
        NodeCore::new("n".to_owned(), Late { undo: Arc::clone(&undo) }, NodeOptions::default());
    let claim = claim();
    undo.set((core.pending_undos.clone(), claim.owner.clone())).unwrap_or_default();
    let fault = Route::new(core).acquire(&claim, Duration::from_secs(60)).await.unwrap_err();
    assert!(fault.is_unknown && !fault.is_final);
    assert_eq!(fault.nodes[0].kind(), NodeErrorKind::Refused);
}

/// All of its servers say that a lease is gone. While it is slow, a connect takes longer than a
/// second.
struct Gone {
    is_slow: Arc<AtomicBool>,
}

impl Source for Gone {
    type Connection = Scripted;

    async fn connect(&self) -> RedisResult<Scripted> {
        if self.is_slow.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(1_500)).await;
        }
        Ok(Scripted::new(["*3\r\n:17\r\n:1\r\n:0"; 4]))
    }
}

/// It may lead to the master before a failover, as a connection in use may.
#[tokio::test(start_paused = true)]
async fn a_connect_that_began_before_the_latest_connection_proves_no_loss() {
    let (claims, is_slow) = ([claim()], Arc::new(AtomicBool::new(false)));
    let gone = Gone { is_slow: Arc::clone(&is_slow) };
    let route = Route::new(NodeCore::new("n".to_owned(), gone, NodeOptions::default()));
    let renew = async |seconds| route.renew(&claims, Duration::from_secs(seconds)).await;
    assert!(route.core.renewals.borrow().await.is_ok());
    let calls = route.connection.borrow().await.unwrap();
    is_slow.store(true, Ordering::Relaxed);
    assert_eq!(renew(1).await.unwrap(), [None], "no other connection has said so yet");
    // A failover: callers connect anew, while that connect is under way.
    is_slow.store(false, Ordering::Relaxed);
    route.connection.discard(&calls);
    assert!(route.connection.borrow().await.is_ok());
    assert_eq!(renew(60).await.unwrap(), [None]);
    assert_eq!(renew(60).await.unwrap(), [Some(Found::Gone)], "over one that began later");
}

/// A queue that is older than it was may still have its entry.
#[tokio::test(start_paused = true)]
async fn what_is_handed_to_an_owner_that_was_served_is_given_back() {
    let route = |answers| {
        Route::new(NodeCore::new("n".to_owned(), Scripted::new(answers), NodeOptions::default()))
    };
    let within = Duration::from_secs(60);
    let is_given_back = |route: &Route<Scripted>, claim: &Claim| {
        let owner = claim.owner.as_str();
        let message = format!("41 48 500 {} {owner}{}", owner.len(), claim.key.redis_key());
        route.core.registry.dispatch(message.as_bytes()).is_some()
    };
    for was_queued in [false, true] {
        let (route, claim) = (route([":1"]), claim());
        assert!(!is_given_back(&route, &claim), "it may hold the lock");
        let release = Release { was_queued, ..Release::of(&claim) };
        assert_eq!(route.release(release, within).await, Ok(Found::Ours));
        assert_eq!(is_given_back(&route, &claim), was_queued);
    }
    let one_released = bulk("1");
    let (route_all, claim_of_all) = (route([&one_released]), claim());
    let releases = [Release { was_queued: true, ..Release::of(&claim_of_all) }];
    assert_eq!(route_all.release_all(&releases, within).await, [Ok(Found::Ours)]);
    assert!(is_given_back(&route_all, &claim_of_all));
    let kept = "*4\r\n:1\r\n$2\r\n41\r\n$2\r\n48\r\n:1795000000000000";
    let passed = "*6\r\n:2\r\n:1000\r\n$5\r\nother\r\n:1795000000000000\r\n:0\r\n:1";
    for (answer, is_over) in [(kept, false), (passed, true)] {
        let (route, held, next) = (route([answer]), claim(), claim());
        let last = FencingToken::new(17).unwrap();
        let tokens = TokensUsed { used: last, reserved: last };
        assert!(route.rotate(&held, tokens, &next, 8, within).await.is_ok());
        assert_eq!(is_given_back(&route, &held), is_over);
    }
}

/// Stands for many servers, or for one.
struct Many<const LEADS_TO_ONE: bool>;

impl<const LEADS_TO_ONE: bool> Source for Many<LEADS_TO_ONE> {
    type Connection = Scripted;

    const LEADS_TO_ONE: bool = LEADS_TO_ONE;

    async fn connect(&self) -> RedisResult<Scripted> {
        Ok(Scripted::default())
    }
}

/// Each master of a cluster has a clock of its own, and no vote that its clock could cost it.
#[tokio::test]
async fn clocks_of_several_servers_are_not_taken_for_one_that_jumps() {
    const SECOND: i64 = 1_000_000;
    let is_watched = |core: &ServerIdentity| core.clock_offset().is_some();
    let core = NodeCore::new("n".to_owned(), Many::<false>, NodeOptions::default());
    for micros in [500 * SECOND, 560 * SECOND, 500 * SECOND] {
        core.heard_time(micros, CLOCK.now());
    }
    assert!(!is_watched(&core.identity));
    let one = NodeCore::new("n".to_owned(), Many::<true>, NodeOptions::default());
    one.heard_time(500 * SECOND, CLOCK.now());
    assert!(is_watched(&one.identity));
}

#[test]
fn a_connection_has_the_name_of_its_client_as_far_as_redis_takes_it() {
    for (client, shown) in [("web-3", "web-3"), ("web 3", "web_3"), ("Büro\u{a0}7", "B_ro_7")] {
        assert_eq!(*connection_name(client), *format!("redlock:{shown}"));
    }
}
