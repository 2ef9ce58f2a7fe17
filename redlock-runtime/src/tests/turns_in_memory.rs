//! Locks of several kinds in memory, where no server keeps a queue: neither kind starves.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::client::{LockRequest, Redlock};
use crate::kind::Kind;
use crate::testing::FaultyStore;

const BODY: Duration = Duration::from_secs(1);
const PATIENT: Duration = Duration::from_secs(1000);
/// What is under way when somebody comes, and the turns of a few who came before.
const FEW: u32 = 6;

fn request(redlock: &Redlock, kind: Kind) -> LockRequest {
    let request = redlock.lock("k").wait(PATIENT);
    match kind {
        Kind::Exclusive => request,
        Kind::Read => request.read(),
        Kind::Permits(count) => request.permits(count.get()),
    }
}

/// How many turns `busy` callers of one kind have, who never pause, before one of another kind has
/// the lock.
async fn turns_before(redlock: &Redlock, busy: usize, taken_by: Kind, wanted: Kind) -> u32 {
    let turns = Arc::new(AtomicU32::new(0));
    let mut callers = JoinSet::new();
    for _ in 0..busy {
        let (redlock, turns) = (redlock.clone(), Arc::clone(&turns));
        callers.spawn(async move {
            loop {
                request(&redlock, taken_by).run(sleep(BODY)).await.unwrap();
                turns.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    sleep(BODY / 10).await;
    let before = turns.load(Ordering::Relaxed);
    request(redlock, wanted).run(async {}).await.unwrap();
    turns.load(Ordering::Relaxed) - before
}

/// Both ways round, with one caller that comes back at once, and with some.
#[tokio::test(start_paused = true)]
async fn no_kind_starves_behind_callers_of_another_kind_that_never_pause() {
    let one = Kind::Permits(NonZeroU32::MIN);
    let pairs = [(Kind::Exclusive, Kind::Read), (one, Kind::Read), (Kind::Exclusive, one)];
    for (taken_by, wanted) in pairs.into_iter().flat_map(|(a, b)| [(a, b), (b, a)]) {
        for busy in [1, 2, 4] {
            let redlock = FaultyStore::new().client().await.unwrap();
            let turns = turns_before(&redlock, busy, taken_by, wanted).await;
            let most = FEW * u32::try_from(busy).unwrap();
            assert!(turns <= most, "{turns} of {busy} with {taken_by:?} before {wanted:?}");
        }
    }
}

/// Nor behind calls that want the key together with another one.
#[tokio::test(start_paused = true)]
async fn no_reader_starves_behind_calls_for_several_keys() {
    let redlock = Redlock::builder().memory().build().await.unwrap();
    let turns = Arc::new(AtomicU32::new(0));
    let (caller, counted) = (redlock.clone(), Arc::clone(&turns));
    let busy = async move {
        loop {
            let both = caller.lock_all(["k", "m"]).wait(PATIENT);
            both.run(sleep(BODY)).await.unwrap();
            counted.fetch_add(1, Ordering::Relaxed);
        }
    };
    let reader = async {
        sleep(BODY / 10).await;
        request(&redlock, Kind::Read).run(async {}).await.unwrap();
    };
    tokio::select! {
        () = busy => {}
        () = reader => {}
    }
    assert!(turns.load(Ordering::Relaxed) <= FEW, "{turns:?}");
}

/// A waiter of another kind that gives up keeps nobody out of a lock that is free.
#[tokio::test(start_paused = true)]
async fn who_gives_up_lets_the_others_in_at_once() {
    let redlock = FaultyStore::new().client().await.unwrap();
    let held = request(&redlock, Kind::Exclusive).acquire().await.unwrap();
    let given_up = request(&redlock, Kind::Read).wait(BODY).acquire().await;
    assert!(given_up.unwrap_err().is_busy());
    held.release().await.unwrap();
    let next = redlock.lock("k").try_acquire().await.unwrap();
    assert!(next.is_some(), "nobody waits");
}
