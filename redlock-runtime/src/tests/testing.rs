//! The test kit itself: what it makes the library see.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use tokio::time::Instant;

use super::fake::SECOND;
use crate::blocking::block_on;
use crate::client::{Redlock, RedlockBuilder};
use crate::error::{LockError, NodeErrorKind};
use crate::options::Wait;
use crate::state::{LeaseState, LostReason, Released};
use crate::testing::{Command, FaultyStore, assert_held, assert_not_held};

const MOMENT: Duration = Duration::from_millis(1);

/// The message of the panic.
fn panics(what: impl FnOnce()) -> String {
    let panic: Box<dyn Any + Send> = catch_unwind(AssertUnwindSafe(what)).unwrap_err();
    panic.downcast_ref::<String>().unwrap().clone()
}

/// Makes one attempt.
async fn attempt(redlock: &Redlock) -> Result<(), NodeErrorKind> {
    match redlock.lock("k").wait(Wait::Never).acquire().await {
        Ok(guard) => {
            drop(guard);
            Ok(())
        }
        Err(LockError::Unavailable { nodes, .. }) => Err(nodes[0].kind()),
        Err(error) => panic!("{error}"),
    }
}

/// As on a real server: a writer that waits keeps out readers that come later.
#[tokio::test(start_paused = true)]
async fn a_writer_has_its_turn_among_readers_that_never_pause() {
    let store = FaultyStore::new();
    let [here, there] = [store.client().await.unwrap(), store.client().await.unwrap()];
    for number in 0..3 {
        let here = here.clone();
        tokio::spawn(async move {
            tokio::time::sleep(number * SECOND / 3).await;
            loop {
                let reader = here.lock("k").read().wait(Wait::Forever).acquire().await.unwrap();
                tokio::time::sleep(SECOND).await;
                reader.release().await.unwrap();
            }
        });
    }
    tokio::time::sleep(5 * SECOND).await;
    let writer = there.lock("k").wait(10 * SECOND).acquire().await.expect("it has its turn");
    writer.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_store_has_permits_and_meets_its_faults_with_them() {
    let store = FaultyStore::new();
    let redlock = store.client().await.unwrap();
    let permit = || redlock.lock("k").permits(2).wait(Wait::Never).acquire();
    let (first, second) = (permit().await.unwrap(), permit().await.unwrap());
    assert!(permit().await.is_err_and(|error| error.is_busy()));
    drop((first, second));
    store.down();
    assert!(permit().await.is_err_and(|error| error.is_unavailable()));
}

#[tokio::test(start_paused = true)]
async fn faults_of_a_kind_come_first_then_those_of_any_then_the_standing_ones() {
    use NodeErrorKind::{Busy, Loading, NoReplicas, OutOfMemory, ReadOnly, Unreachable};
    let store = FaultyStore::new();
    let redlock = store.client().await.unwrap();
    store.every(Command::Any).refuse(Busy);
    store.every(Command::Acquire).refuse(Loading);
    store.next(Command::Any).refuse(ReadOnly);
    store.next(Command::Acquire).refuse(OutOfMemory);
    store.next(Command::Acquire).refuse(NoReplicas);
    store.next(Command::Renew).refuse(Busy);
    for kind in [OutOfMemory, NoReplicas, ReadOnly, Loading, Loading] {
        assert_eq!(attempt(&redlock).await, Err(kind));
    }
    store.next(Command::Acquire).refuse(OutOfMemory);
    store.down();
    assert_eq!(attempt(&redlock).await, Err(Unreachable));
    store.up();
    assert_eq!(attempt(&redlock).await, Err(OutOfMemory), "still planned");
    assert_eq!(attempt(&redlock).await, Err(Loading));
    store.heal();
    assert_eq!(attempt(&redlock).await, Ok(()));
    store.down();
    store.heal();
    assert_eq!(attempt(&redlock).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn an_outcome_is_unknown_exactly_where_no_sensible_reply_came() {
    for (kind, is_unknown) in [
        (NodeErrorKind::NoReply, true),
        (NodeErrorKind::Protocol, true),
        (NodeErrorKind::Refused, true),
        (NodeErrorKind::Unreachable, false),
        (NodeErrorKind::Loading, false),
    ] {
        let store = FaultyStore::new();
        let redlock = store.client().await.unwrap();
        store.next(Command::Acquire).refuse(kind);
        store.take_log();
        assert_eq!(attempt(&redlock).await, Err(kind));
        tokio::time::sleep(5 * SECOND).await;
        let is_cleaned_up = store.take_log().iter().any(|line| line.starts_with("release k "));
        assert_eq!(is_cleaned_up, is_unknown, "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_is_not_built_on_what_does_not_answer() {
    let store = FaultyStore::new();
    store.down();
    assert!(store.client().await.unwrap_err().is_unavailable());
    assert!(Redlock::builder().faulty_store(&store).lazy().build().await.is_ok());
    store.up();
    store.every(Command::Any).lose_reply();
    let began = Instant::now();
    let error = store.client().await.unwrap_err();
    assert!(error.to_string().contains("no reply within 1000 ms"), "{error}");
    assert_eq!(began.elapsed(), SECOND);
    store.heal();
    assert!(store.client().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn who_waits_has_the_lock_in_the_moment_in_which_another_process_releases_it() {
    let store = FaultyStore::new();
    let (one, two) = (store.client().await.unwrap(), store.client().await.unwrap());
    let guard = one.lock("k").acquire().await.unwrap();
    let waiting = tokio::spawn(two.lock("k").wait(60 * SECOND).acquire());
    tokio::time::sleep(20 * SECOND).await;
    guard.release().await.unwrap();
    let released = Instant::now();
    drop(waiting.await.unwrap().unwrap());
    assert_eq!(released.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_majority_of_masters_is_enough_and_no_less() {
    let masters: [FaultyStore; 5] = FaultyStore::masters();
    let redlock = Redlock::builder().faulty_stores(&masters).build().await.unwrap();
    let guard = redlock.lock("k").acquire().await.unwrap();
    for down in &masters[..2] {
        down.down();
    }
    tokio::time::sleep(60 * SECOND).await;
    assert_eq!(guard.state(), LeaseState::Held);
    masters[2].every(Command::Renew).lose_reply();
    let lost = tokio::time::timeout(60 * SECOND, guard.lost()).await;
    assert_eq!(lost, Ok(LostReason::Unreachable));
    drop(guard);
    masters[2].down();
    let error = redlock.lock("k").acquire().await.unwrap_err();
    let LockError::Unavailable { nodes, .. } = &error else { panic!("{error}") };
    let names: Vec<_> = nodes.iter().map(crate::error::NodeError::node).collect();
    assert_eq!(names, ["redis://test-1", "redis://test-2", "redis://test-3"]);
    assert!(Redlock::builder().faulty_stores(&masters).build().await.is_err());
}

/// By the restart guard, which is on where there are several.
#[tokio::test(start_paused = true)]
async fn a_master_that_came_back_empty_has_no_vote_until_its_leases_are_over() {
    for is_guarded in [true, false] {
        let [a, b, c] = FaultyStore::masters();
        let builder = Redlock::builder().faulty_stores([&a, &b, &c]).expire(10 * SECOND);
        let builder = if is_guarded { builder } else { builder.restart_guard(false) };
        let (one, two) = (builder.clone().build().await.unwrap(), builder.build().await.unwrap());
        let guard = one.lock("k").acquire().await.unwrap();
        tokio::time::sleep(MOMENT).await;
        c.expire("lock:k");
        b.restart();
        // Two of three have nothing of the lock that is held.
        let twice = two.lock("k").wait(Wait::Never).acquire().await;
        assert!(guard.check().is_ok());
        assert_eq!(twice.is_ok(), !is_guarded, "{twice:?}");
        drop((guard, twice));
        a.down();
        tokio::time::sleep(11 * SECOND).await;
        assert_eq!(attempt(&two).await, Ok(()));
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_done_to_a_lock_is_what_its_release_finds() {
    let store = FaultyStore::new();
    let redlock = store.client().await.unwrap();
    let take = || redlock.lock("k").acquire();
    assert_eq!(take().await.unwrap().release().await, Ok(Released::Released));
    let guard = take().await.unwrap();
    store.expire("lock:k");
    assert_eq!(guard.release().await, Ok(Released::Expired));
    let guard = take().await.unwrap();
    store.steal("lock:k");
    assert_eq!(guard.release().await, Ok(Released::Stolen));
    let error = redlock.lock("k").wait(20 * SECOND).acquire().await.unwrap_err();
    assert!(error.to_string().contains("held by thief:"), "{error}");
    assert!(redlock.lock("k").wait(11 * SECOND).acquire().await.is_ok(), "after its 30 s");
}

#[test]
fn a_key_that_nobody_holds_is_neither_stolen_nor_expired() {
    let store = FaultyStore::new();
    store.set("lock:k", "somebody", SECOND);
    for meddle in [FaultyStore::steal, FaultyStore::expire] {
        let message = panics(|| meddle(&store, "k"));
        assert!(message.contains("nobody holds `k`") && message.contains("prefix"), "{message}");
        meddle(&store, "lock:k");
    }
}

#[tokio::test]
async fn options_that_cannot_work_are_typed_errors() {
    let [a, b] = FaultyStore::masters();
    let fails = async |builder: RedlockBuilder, part: &str| {
        let error = builder.build().await.unwrap_err();
        assert!(matches!(error, LockError::Config { .. }), "{error}");
        assert!(error.to_string().contains(part), "{error}");
    };
    let one = || Redlock::builder().faulty_store(&a);
    fails(one().faulty_store(&b), "faulty_stores").await;
    fails(one().url("redis://127.0.0.1:1"), "stands alone").await;
    fails(one().memory(), "stands alone").await;
    fails(one().min_replicas(1, SECOND / 2), "min_replicas").await;
    fails(Redlock::builder().faulty_stores([]), "no server is named").await;
    fails(Redlock::builder().faulty_stores([&a, &b]).quorum(1), "quorum").await;
}

#[tokio::test]
async fn held_is_what_this_client_has_now() {
    let store = FaultyStore::new();
    let (redlock, other) = (store.client().await.unwrap(), store.client().await.unwrap());
    let guard = redlock.lock("k").acquire().await.unwrap();
    assert_held!(redlock, "k");
    assert_held!(&redlock, String::from("k"),);
    assert_not_held!(other, "k");
    let inside = redlock.scope(async {
        assert_held!("k");
        assert_not_held!("lock:j");
    });
    inside.await;
    let message = panics(|| assert_held!(redlock, "j"));
    assert_eq!(message, "the lock `j` is not held; this client holds [\"k\"]");
    assert_eq!(panics(|| assert_not_held!(redlock, "k")), "the lock `k` is held");
    // The name in Redis: it would never be held.
    let message = panics(|| assert_not_held!(redlock, "lock:k"));
    assert!(message.contains("`lock:k` is what the lock `k` is called in Redis"), "{message}");
    let message = panics(|| assert_held!(redlock, "lock:k"));
    assert!(message.contains("is called in Redis; leave out the prefix"), "{message}");
    let message = panics(|| assert_held!("k"));
    assert!(message.contains("no client to ask: redlock is not initialized"), "{message}");
    drop(guard);
    assert_not_held!(redlock, "k");
    assert_not_held!(redlock, "lock:k");
}

#[tokio::test]
async fn a_key_is_not_taken_for_the_name_of_another_one_in_redis() {
    let redlock = FaultyStore::new().client().await.unwrap();
    let _guard = redlock.lock_all(["a", "lock:b"]).acquire().await.unwrap();
    assert_held!(redlock, "lock:b");
    assert_not_held!(redlock, "b");
    assert!(panics(|| assert_not_held!(redlock, "lock:a")).contains("in Redis"));
    assert!(panics(|| assert_not_held!(redlock, "lock:lock:b")).contains("in Redis"));
}

/// Several threads, and no clock that is paused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_take_their_time_on_a_real_clock() {
    let [a, b, c] = FaultyStore::masters();
    let single = FaultyStore::new();
    let short = SECOND / 5;
    let on = |builder: RedlockBuilder| builder.reply_timeout(short).build();
    let quorum = on(Redlock::builder().faulty_stores([&a, &b, &c])).await.unwrap();
    let alone = on(Redlock::builder().faulty_store(&single)).await.unwrap();
    for store in [&a, &b, &single] {
        store.next(Command::Acquire).lose_reply();
    }
    for redlock in [quorum, alone] {
        let began = std::time::Instant::now();
        let lock = tokio::spawn(redlock.lock("k").wait(60 * SECOND).acquire());
        let guard = lock.await.unwrap().unwrap();
        assert!(began.elapsed() >= short, "{:?}", began.elapsed());
        assert_eq!(guard.release().await, Ok(Released::Released));
    }
}

/// The life of a lock, with faults that take time.
async fn life_of_a_lock(stores: &[FaultyStore]) {
    let builder = Redlock::builder().reply_timeout(50 * MOMENT);
    let builder = match stores {
        [store] => builder.faulty_store(store),
        stores => builder.faulty_stores(stores),
    };
    let redlock = builder.build().await.unwrap();
    let guard = redlock.lock("k").acquire().await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Released::Released);
    for store in stores {
        store.next(Command::Acquire).delay(MOMENT);
        store.next(Command::Release).delay(MOMENT);
    }
    drop(redlock.lock("k").acquire().await.unwrap());
    for store in stores {
        store.next(Command::Acquire).lose_reply();
    }
    assert_eq!(attempt(&redlock).await, Err(NodeErrorKind::NoReply));
    drop(redlock.lock_all(["k", "l"]).wait(60 * SECOND).acquire().await.unwrap());
    let held = redlock.lock("k").wait(60 * SECOND).acquire().await.unwrap();
    let reader = held.downgrade().await.unwrap();
    for store in stores {
        store.next(Command::Release).lose_reply();
    }
    drop(reader);
    assert_eq!(redlock.lock("k").wait(60 * SECOND).run(async { 17 }).await.unwrap(), 17);
    assert_eq!(redlock.shutdown(60 * SECOND).await, 0);
}

#[test]
fn callers_without_a_runtime_or_without_its_timers_meet_the_same_faults() {
    for count in [1, 3] {
        let stores = &FaultyStore::masters::<3>()[..count];
        block_on(life_of_a_lock(stores));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(life_of_a_lock(stores));
        let redlock = block_on(stores[0].client()).unwrap();
        stores[0].next(Command::Acquire).delay(MOMENT);
        redlock.lock("b").acquire_blocking().unwrap().release_blocking().unwrap();
    }
}
