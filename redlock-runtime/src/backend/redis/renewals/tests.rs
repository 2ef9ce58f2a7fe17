use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use deadpool_redis::redis::aio::ConnectionLike;
use deadpool_redis::redis::{Arg, Cmd, RedisFuture, RedisResult};

use super::*;
use crate::backend::LockBackend;
use crate::backend::redis::clock::CLOCK;
use crate::backend::redis::connection::{InTurn, single_commands, value};
use crate::backend::redis::node_core::{NodeCore, NodeOptions};
use crate::clock::Moment;
use crate::error::NodeErrorKind;
use crate::key::LockKey;
use crate::owner::Owner;

const WITHIN: Duration = Duration::from_secs(60);
const RENEWED: &str = "*1\r\n:17";
const CROSSED: &str = "-CROSSSLOT Keys in request don't hash to the same slot";
const DENIED: &str = "-NOPERM No permissions to access a key";

/// To a server that is not asked who it is.
fn route<S: Source>(server: S) -> Route<S> {
    let core = NodeCore::new("n".to_owned(), server, NodeOptions::default());
    core.identity.info_denial.denied(Moment::NEVER);
    Route::new(core)
}

/// Of keys in several hash slots.
fn claims(kinds: &[Kind]) -> Vec<Claim> {
    let claim = |(number, kind): (usize, &Kind)| Claim {
        key: LockKey::new("lock:", &number.to_string()).unwrap(),
        owner: Owner::of_nobody("test"),
        expire: Duration::from_secs(60),
        kind: *kind,
    };
    kinds.iter().enumerate().map(claim).collect()
}

/// A server of a cluster, or a proxy before one, refuses a script for the keys of several slots.
#[tokio::test]
async fn keys_that_one_script_may_not_name_together_are_renewed_one_by_one() {
    for refused in [CROSSED, DENIED] {
        // The first answer is that of the script without keys.
        let server = InTurn::new(["+OK", refused, RENEWED, RENEWED]);
        let route = route(server.clone());
        let found = route.renew(&claims(&[Kind::Exclusive; 2]), WITHIN).await.unwrap();
        assert_eq!((found, server.left()), (vec![Some(Found::Ours); 2], 0), "{refused}");
        assert_eq!(route.core.slots_denial.was_denied(), refused == CROSSED);
    }
    // Those of the shared kinds have a call of their own.
    let server = InTurn::new(["+OK", CROSSED, CROSSED, RENEWED, RENEWED, RENEWED, RENEWED]);
    let mixed = claims(&[Kind::Exclusive, Kind::Exclusive, Kind::Read, Kind::Read]);
    let found = route(server.clone()).renew(&mixed, WITHIN).await.unwrap();
    assert_eq!((found, server.left()), (vec![Some(Found::Ours); 4], 0));
}

#[tokio::test]
async fn a_lease_whose_renewal_is_refused_does_not_end_the_others() {
    let both = claims(&[Kind::Exclusive; 2]);
    let server = InTurn::new(["+OK", DENIED, DENIED, RENEWED]);
    let found = route(server.clone()).renew(&both, WITHIN).await.unwrap();
    assert_eq!((found, server.left()), (vec![None, Some(Found::Ours)], 0));
    let fault = route(InTurn::new(["+OK", DENIED, DENIED, DENIED])).renew(&both, WITHIN).await;
    assert_eq!(fault.unwrap_err().nodes[0].kind(), NodeErrorKind::NoPermission);
}

/// A proxy before a cluster, far away. It counts the scripts that it gets.
#[derive(Clone, Default)]
struct FarProxy(Arc<AtomicUsize>);

const ROUND_TRIP: Duration = Duration::from_millis(400);

impl Source for FarProxy {
    type Connection = Self;

    async fn connect(&self) -> RedisResult<Self> {
        Ok(self.clone())
    }
}

impl ConnectionLike for FarProxy {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        self.0.fetch_add(1, Ordering::Relaxed);
        let keys = command.args_iter().nth(2);
        let is_served = matches!(keys, Some(Arg::Simple(b"0" | b"1")));
        Box::pin(async move {
            tokio::time::sleep(ROUND_TRIP).await;
            value(if is_served { RENEWED } else { CROSSED })
        })
    }

    single_commands!();
}

/// A renewal that waits for more than that would fail where one for one slot succeeds.
#[tokio::test(start_paused = true)]
async fn leases_of_several_slots_take_two_round_trips_and_then_one() {
    let proxy = FarProxy::default();
    let (route, claims) = (route(proxy.clone()), claims(&[Kind::Exclusive; 100]));
    assert!(route.core.renewals.borrow().await.is_ok());
    let renew = async |within: Duration| {
        let before = proxy.0.load(Ordering::Relaxed);
        let found = route.renew(&claims, within).await.unwrap();
        assert_eq!(found, vec![Some(Found::Ours); 100]);
        proxy.0.load(Ordering::Relaxed) - before
    };
    assert_eq!(renew(ROUND_TRIP * 5 / 2).await, 101);
    let denial = &route.core.slots_denial;
    assert!(denial.was_denied());
    denial.allowed();
    denial.denied(CLOCK.now().plus(Duration::from_secs(3600)));
    assert_eq!(renew(ROUND_TRIP * 3 / 2).await, 100);
}

/// It answers its first client, and is silent to all that come later.
#[derive(Clone, Default)]
struct SilentToOthers(Arc<AtomicUsize>);

impl Source for SilentToOthers {
    type Connection = InTurn;

    async fn connect(&self) -> RedisResult<InTurn> {
        if self.0.fetch_add(1, Ordering::Relaxed) > 0 {
            std::future::pending::<()>().await;
        }
        Ok(InTurn::new([RENEWED]))
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_over_the_only_connection_that_there_is() {
    let route = route(SilentToOthers::default());
    assert!(route.connection.borrow().await.is_ok());
    let found = route.renew(&claims(&[Kind::Exclusive]), Duration::from_secs(1)).await.unwrap();
    assert_eq!(found, vec![Some(Found::Ours)]);
}
