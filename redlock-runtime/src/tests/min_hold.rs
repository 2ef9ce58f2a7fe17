//! `min_hold`: a lock that stays taken, however early its holder is done, and however it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::fake::{Fate, SECOND, fake};
use super::quorum::{nodes, on};
use super::server::Server;
use crate::backend::{Acquired, Found, LockBackend};
use crate::client::{LockRequest, Redlock};
use crate::error::LockError;
use crate::options::Wait;
use crate::state::{LostReason, Released};

pub(super) const EXPIRE: Duration = Duration::from_secs(3);
pub(super) const MIN_HOLD: Duration = Duration::from_secs(10);
/// Of a `min_hold` that has just begun.
const NEARLY: Duration = Duration::from_millis(9_900);

/// A job whose lock stays taken for longer than its lease.
pub(super) fn job(redlock: &Redlock) -> LockRequest {
    redlock.lock("k").expire(EXPIRE).wait(Wait::Never).min_hold(MIN_HOLD)
}

/// The job is refused until `min_hold` is over, and runs then.
async fn assert_refused_until(redlock: &Redlock, until: Instant) {
    while Instant::now() < until {
        assert!(
            job(redlock).try_acquire().await.unwrap().is_none(),
            "{:?}",
            until - Instant::now()
        );
        tokio::time::sleep(SECOND / 4).await;
    }
    tokio::time::sleep(SECOND / 4).await;
    drop(job(redlock).acquire().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_released_early_stays_taken() {
    let (redlock, fake) = fake();
    let (start, guard) = (Instant::now(), job(&redlock).acquire().await.unwrap());
    assert_eq!(guard.release().await, Ok(Released::Released));
    assert!(redlock.held().is_empty());
    let owner = fake.store.owner("k").unwrap();
    assert!(owner.contains(":retained:"), "{owner}");
    let error = job(&redlock).acquire().await.unwrap_err();
    assert!(error.is_busy() && error.to_string().contains("`min_hold` is not over"), "{error}");
    assert_refused_until(&redlock, start + MIN_HOLD).await;
}

#[tokio::test(start_paused = true)]
async fn a_job_that_takes_longer_frees_its_lock_at_once() {
    let (redlock, fake) = fake();
    job(&redlock).run(tokio::time::sleep(MIN_HOLD)).await.unwrap();
    assert_eq!(fake.store.owner("k"), None);
    redlock.lock("k").min_hold(Duration::ZERO).run(async {}).await.unwrap();
    assert_eq!(fake.store.owner("k"), None);
}

/// Also where renewals ask for less than what is left, and where `expire` is the longer one.
#[tokio::test(start_paused = true)]
async fn a_process_that_is_gone_keeps_its_lock() {
    for expire in [EXPIRE, MIN_HOLD * 2] {
        for dies_after in [Duration::ZERO, EXPIRE * 3 / 4, EXPIRE * 2] {
            let (redlock, fake) = fake();
            let (start, guard) =
                (Instant::now(), job(&redlock).expire(expire).acquire().await.unwrap());
            tokio::time::sleep(dies_after).await;
            // Nothing leaves this process any more.
            fake.always(Some(Fate::LostRequest));
            std::mem::forget(guard);
            while Instant::now() < start + MIN_HOLD {
                assert!(fake.store.owner("k").is_some(), "{dies_after:?}: {:?}", start.elapsed());
                tokio::time::sleep(SECOND / 4).await;
            }
            tokio::time::sleep(expire.max(MIN_HOLD) + SECOND).await;
            assert_eq!(fake.store.owner("k"), None);
        }
    }
}

/// The body is stopped, and renewals are due, by `expire`.
#[tokio::test(start_paused = true)]
async fn a_body_is_stopped_by_its_lease() {
    let (redlock, fake) = fake();
    let start = Instant::now();
    let used_up = job(&redlock).max_renew(1).run(std::future::pending::<()>()).await;
    assert!(matches!(used_up, Err(LockError::Lost { reason: LostReason::RenewalLimit, .. })));
    assert!(start.elapsed() < EXPIRE * 2, "{:?}", start.elapsed());
    assert_refused_until(&redlock, start + MIN_HOLD).await;

    tokio::time::sleep(MIN_HOLD).await;
    let (start, guard) = (Instant::now(), job(&redlock).acquire().await.unwrap());
    fake.always(Some(Fate::LostRequest));
    assert_eq!(guard.lost().await, LostReason::Unreachable);
    assert!(start.elapsed() < EXPIRE);
    fake.always(None);
    drop(guard);
    assert_refused_until(&redlock, start + MIN_HOLD).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_cancelled_or_panics_keeps_its_lock() {
    let (redlock, _) = fake();
    let start = Instant::now();
    let endless = job(&redlock).run(std::future::pending::<()>());
    assert!(tokio::time::timeout(SECOND, endless).await.is_err());
    assert_refused_until(&redlock, start + MIN_HOLD).await;

    tokio::time::sleep(MIN_HOLD).await;
    let start = Instant::now();
    let panics = tokio::spawn(job(&redlock).run(async { panic!("on purpose") }));
    assert!(panics.await.is_err());
    assert_refused_until(&redlock, start + MIN_HOLD).await;
}

/// Nothing has run under it.
#[tokio::test(start_paused = true)]
async fn a_lock_that_its_caller_never_took_is_free() {
    let (redlock, fake) = fake();
    let held = redlock.lock("k").acquire().await.unwrap();
    let mut waits = Box::pin(job(&redlock).wait(Wait::Forever).acquire());
    assert!(tokio::time::timeout(SECOND, &mut waits).await.is_err());
    held.release().await.unwrap();
    tokio::time::sleep(SECOND / 2).await;
    assert!(fake.store.owner("k").is_some(), "it was granted to the waiter");
    drop(waits);
    tokio::time::sleep(SECOND / 2).await;
    assert_eq!(fake.store.owner("k"), None);
}

/// The release is sent again until it is answered, and means the same each time.
#[tokio::test(start_paused = true)]
async fn a_release_without_an_answer_keeps_the_lock_for_no_less_and_no_longer() {
    for fate in [Fate::LostReply, Fate::LostRequest] {
        let (redlock, fake) = fake();
        let (start, guard) = (Instant::now(), job(&redlock).acquire().await.unwrap());
        fake.next_releases([fate, fate]);
        assert!(guard.release().await.unwrap_err().is_unavailable());
        assert_refused_until(&redlock, start + MIN_HOLD).await;
    }
}

/// A renewal, or the first try of an acquire, that arrives behind the release.
#[tokio::test(start_paused = true)]
async fn what_arrives_late_does_not_change_a_retained_lock() {
    let server = Server::new();
    server.repeats_acquires();
    let redlock = server.client();
    let guard = job(&redlock).acquire().await.unwrap();
    let claim = guard.lease().hold().claim.clone();
    guard.release().await.unwrap();
    let retained = server.owner("k");
    server.free(&claim);
    let renewed = server.renew(std::slice::from_ref(&claim), SECOND).await;
    assert_eq!(renewed, Ok(vec![Some(Found::Stolen)]));
    let acquired = server.acquire(&claim, SECOND).await;
    assert!(matches!(acquired, Ok(Acquired::Refused { .. })), "{acquired:?}");
    tokio::time::sleep(MIN_HOLD / 2).await;
    assert_eq!(server.owner("k"), retained, "also behind the clean-up of the first try");
    assert!(server.left("k") < MIN_HOLD / 2 + SECOND / 10);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_re_enters_changes_nothing() {
    let (redlock, fake) = fake();
    let outer = redlock.lock("k");
    outer.run(async { job(&redlock).run(async {}).await.unwrap() }).await.unwrap();
    assert_eq!(fake.store.owner("k"), None);
}

/// In the process and between processes: nobody before, everybody then, in their order.
#[tokio::test(start_paused = true)]
async fn those_who_wait_have_the_lock_when_min_hold_is_over() {
    let server = Server::new();
    let processes = [server.client(), server.client(), server.client()];
    let start = Instant::now();
    let guard = job(&processes[0]).acquire().await.unwrap();
    let order = Arc::new(AtomicU32::new(0));
    let mut waiters = Vec::new();
    for (number, redlock) in (0..).zip(&processes) {
        let (order, request) = (Arc::clone(&order), redlock.lock("k").wait(Wait::Forever));
        waiters.push(tokio::spawn(async move {
            let body = async { (order.fetch_add(1, Ordering::SeqCst), start.elapsed()) };
            assert_eq!(
                request.run(body).await.map(|(turn, at)| {
                    assert!(at >= MIN_HOLD && at < MIN_HOLD + SECOND / 5, "{number}: {at:?}");
                    turn
                }),
                Ok((number + 2) % 3),
                "{number}"
            );
        }));
        tokio::time::sleep(SECOND / 4).await;
    }
    guard.release().await.unwrap();
    for waiter in waiters {
        waiter.await.unwrap();
    }
}

/// All of them have the same terms, so that a lock could be passed on without a command.
#[tokio::test(start_paused = true)]
async fn nobody_of_the_process_has_the_lock_before() {
    let server = Server::new();
    let redlock = server.client();
    let start = Instant::now();
    let jobs = (0..3).map(|_| {
        let job = job(&redlock).wait(Wait::Forever);
        tokio::spawn(async move {
            let taken = job.run(async { start.elapsed() });
            taken.await.unwrap()
        })
    });
    let mut taken = Vec::new();
    for job in jobs.collect::<Vec<_>>() {
        taken.push(job.await.unwrap());
    }
    taken.sort_unstable();
    let gaps = taken.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect::<Vec<_>>();
    let is_fit = |gap: &Duration| (MIN_HOLD..MIN_HOLD + SECOND / 5).contains(gap);
    assert!(gaps.iter().all(is_fit), "{taken:?}");

    // Nor one without a `min_hold` behind one that has it.
    let guard = job(&redlock).wait(Wait::Forever).acquire().await.unwrap();
    let taken = Instant::now();
    let next = redlock.lock("k").expire(MIN_HOLD).wait(Wait::Forever);
    let next = tokio::spawn(next.run(async move { taken.elapsed() }));
    tokio::time::sleep(SECOND / 4).await;
    drop(guard);
    assert!(next.await.unwrap().unwrap() >= MIN_HOLD);
}

/// A lock that is handed over stands for a second; a job needs its `min_hold` before it begins.
#[tokio::test(start_paused = true)]
async fn a_lock_that_was_handed_over_is_claimed_before_the_job_begins() {
    let server = Server::new();
    let (holder, waiter) = (server.client(), server.client());
    let held = holder.lock("k").acquire().await.unwrap();
    let first = tokio::spawn(job(&waiter).wait(Wait::Forever).acquire());
    let second = tokio::spawn(job(&waiter).wait(Wait::Forever).acquire());
    // So soon that a call without a `min_hold` would not claim it.
    tokio::time::sleep(SECOND / 20).await;
    held.release().await.unwrap();
    let guard = first.await.unwrap().unwrap();
    assert!(server.left("k") > NEARLY, "{:?}", server.left("k"));

    // Of the same process, passed on or not: when the first is done and `min_hold` over.
    tokio::time::sleep(MIN_HOLD).await;
    assert!(!second.is_finished());
    guard.release().await.unwrap();
    let guard = second.await.unwrap().unwrap();
    assert!(server.left("k") > NEARLY, "{:?}", server.left("k"));
    drop(guard);
}

/// A node that does not hear of the release frees nothing when it is told again.
#[tokio::test(start_paused = true)]
async fn a_lock_on_several_nodes_stays_taken_on_all_of_them() {
    for fate in [Fate::LostReply, Fate::LostRequest] {
        let nodes = nodes(3);
        let (one, other) = (on(&nodes), on(&nodes));
        let (start, guard) = (Instant::now(), job(&one).acquire().await.unwrap());
        for node in &nodes[..2] {
            node.next_releases([fate]);
        }
        assert!(guard.release().await.is_err(), "two of three did not answer");
        while start.elapsed() < MIN_HOLD {
            let held = nodes.iter().filter(|node| node.store.owner("k").is_some()).count();
            assert_eq!(held, 3, "after {:?}", start.elapsed());
            assert!(job(&other).try_acquire().await.unwrap().is_none());
            tokio::time::sleep(SECOND / 2).await;
        }
        tokio::time::sleep(SECOND / 4).await;
        drop(job(&other).acquire().await.unwrap());
    }
}

/// Two machines whose clocks are half a minute apart, and a job that each starts once a minute.
#[tokio::test(start_paused = true)]
async fn a_job_runs_once_a_tick_though_clocks_differ() {
    const TICKS: u32 = 60;
    const TICK: Duration = Duration::from_secs(60);
    let server = Server::new();
    let (start, runs) = (Instant::now(), Arc::new(AtomicU32::new(0)));
    let machines = [Duration::ZERO, TICK / 2].map(|behind| {
        let (redlock, runs) = (server.client(), Arc::clone(&runs));
        tokio::spawn(async move {
            for tick in 0..TICKS {
                tokio::time::sleep_until(start + TICK * tick + behind).await;
                let job = redlock.lock("nightly").wait(Wait::Never).min_hold(TICK * 3 / 4);
                let Some(guard) = job.try_acquire().await.unwrap() else { continue };
                runs.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(10)).await;
                guard.release().await.unwrap();
            }
        })
    });
    for machine in machines {
        machine.await.unwrap();
    }
    assert_eq!(runs.load(Ordering::SeqCst), TICKS);
}

/// The server has forgotten that it handed the lock over: the owner may be in its queue again.
#[tokio::test(start_paused = true)]
async fn who_may_still_be_queued_leaves_the_queue_though_the_lock_stays_taken() {
    let server = Server::new();
    let held = server.client().lock("k").acquire().await.unwrap();
    let redlock = server.client();
    let waits = tokio::spawn(job(&redlock).wait(Wait::Forever).acquire());
    tokio::time::sleep(SECOND / 20).await;
    server.next("acquire", [Fate::Late(SECOND / 50)]);
    held.release().await.unwrap();
    tokio::time::sleep(SECOND / 100).await;
    // The server has lost its data.
    server.remove("k");
    server.lose_queue("k");
    let guard = waits.await.unwrap().unwrap();
    let owner = guard.owner().to_owned();
    server.take_log();
    guard.release().await.unwrap();
    assert_eq!(redlock.shutdown(SECOND).await, 0);
    assert_eq!(server.take_log(), [format!("retain {owner}"), format!("leave {owner}")]);
    assert!(server.left("k") > MIN_HOLD * 9 / 10, "it stays taken");
}

/// A lock with a `min_hold` is not passed on, and what it retains gives nothing back.
#[tokio::test(start_paused = true)]
async fn a_job_reserves_few_fencing_tokens_however_many_wait() {
    let server = Server::new();
    let held = server.client().lock("k").acquire().await.unwrap();
    let redlock = server.client();
    let waits = || tokio::spawn(job(&redlock).wait(Wait::Forever).acquire());
    let waiters = [waits(), waits(), waits()];
    tokio::time::sleep(SECOND / 20).await;
    held.release().await.unwrap();
    let mut waiters = waiters.into_iter();
    let guard = waiters.next().unwrap().await.unwrap().unwrap();
    let used = u64::from(guard.fencing_token());
    guard.release().await.unwrap();
    let reserved = server.reserved("k").unwrap_or(used);
    assert!(reserved - used < 16, "{} reserved tokens are left", reserved - used);
    waiters.for_each(|waiter| waiter.abort());
}

/// A minority that does not hear of the release hears of it later, and of its time.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_told_later_keeps_the_lock_for_no_longer() {
    let nodes = nodes(3);
    let (start, guard) = (Instant::now(), job(&on(&nodes)).acquire().await.unwrap());
    nodes[2].next_releases([Fate::LostRequest]);
    guard.release().await.unwrap();
    tokio::time::sleep_until(start + MIN_HOLD * 39 / 40).await;
    assert!(nodes[2].store.owner("k").is_some_and(|owner| owner.contains(":retained:")));
    tokio::time::sleep(SECOND / 2).await;
    assert_eq!(nodes[2].store.owner("k"), None);
}
