//! Five masters that are killed, frozen and brought back.

use redlock::{LockError, LockGuard, LostReason, Redlock, Wait};

use crate::support::{Masters, Proxy, Server, eventually, ms, secs, time_passes, unique_prefix};

async fn on(masters: &[Server]) -> Redlock {
    let urls = masters.iter().map(Server::url);
    Redlock::builder().urls(urls).prefix(unique_prefix()).build().await.expect("all are up")
}

/// How many of the masters that answer hold the lock, under whichever name of its owner.
async fn held(masters: &[Server], guard: &LockGuard) -> usize {
    let names = &guard.owner()[..guard.owner().len() - 6];
    let mut held = 0;
    for master in masters {
        let owner = master.raw().get(guard.lease().redis_key()).await;
        held += usize::from(owner.is_some_and(|owner| owner.starts_with(names)));
    }
    held
}

#[tokio::test]
async fn two_of_five_may_be_killed_and_three_may_not() {
    let masters = Masters::start(5).await;
    let redlock = on(&masters).await;
    let guard = redlock.lock("kept").expire(secs(6)).acquire().await.unwrap();
    masters[0].kill9();
    masters[1].kill9();
    // Acquire, renew and release go on.
    for _ in 0..20 {
        redlock.lock("k").expire(secs(3)).run(async {}).await.unwrap();
    }
    eventually(secs(20), || async { guard.renewals() >= 2 }).await;
    guard.check().unwrap();

    masters[2].kill9();
    let error = redlock.lock("k").wait(secs(1)).acquire().await.unwrap_err();
    let LockError::Unavailable { nodes, .. } = error else { panic!("{error}") };
    let failed: Vec<String> = nodes.iter().map(|node| node.node().to_owned()).collect();
    let killed: Vec<String> =
        masters[..3].iter().map(|master| format!("redis://{}", master.addr())).collect();
    assert_eq!(failed, killed);
    assert_eq!(guard.lost().await, LostReason::Unreachable);
    drop(guard);

    // Back again: they vote when what they forgot is over, and the client is still the same.
    for master in &masters[..3] {
        master.start_again().await;
    }
    let guard = redlock.lock("again").expire(secs(3)).wait(secs(60)).acquire().await.unwrap();
    eventually(secs(20), || async { held(&masters, &guard).await >= 3 }).await;
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_frozen_minority_is_not_waited_for() {
    let masters = Masters::start(5).await;
    let redlock = on(&masters).await;
    redlock.lock("k").run(async {}).await.unwrap();
    masters[3].freeze();
    masters[4].freeze();
    // Each lease is far shorter than the time two frozen nodes would cost every call.
    for _ in 0..50 {
        let request = redlock.lock("k").expire(secs(5)).wait(Wait::AtMost(secs(10)));
        request.run(async {}).await.unwrap();
    }
    masters[3].thaw();
    masters[4].thaw();
    // What the frozen ones took late is gone from them in the end.
    for master in masters.iter() {
        eventually(secs(20), || async {
            let keys = master.raw().keys("*").await;
            keys.iter().all(|key| key.ends_with(":fence"))
        })
        .await;
    }
}

/// It did not answer when the lock was taken; what it took late was cleaned up.
#[tokio::test]
async fn a_node_that_was_frozen_at_the_acquire_counts_later() {
    let masters = Masters::start(3).await;
    let redlock = on(&masters).await;
    masters[2].freeze();
    let guard = redlock.lock("k").expire(secs(6)).acquire().await.unwrap();
    masters[2].thaw();
    eventually(secs(30), || async { held(&masters, &guard).await == 3 }).await;
    let renewals = guard.renewals();
    eventually(secs(30), || async { guard.renewals() > renewals }).await;
    masters[1].kill9();
    let renewals = guard.renewals();
    eventually(secs(30), || async { guard.renewals() > renewals + 1 }).await;
    guard.check().unwrap();
}

/// Waits for so many more renewals.
async fn renewed(guard: &LockGuard, times: u32) {
    let until = guard.renewals() + times;
    eventually(secs(60), || async { guard.renewals() >= until }).await;
}

/// The unanswered acquire and its clean-up arrive when the network is whole again, long after the
/// lease that was asked for would have ended.
#[tokio::test]
async fn a_node_that_was_out_of_reach_for_longer_than_the_lease_counts_later() {
    let masters = Masters::start(3).await;
    let away = Proxy::start(&masters[2]);
    let urls = [masters[0].url(), masters[1].url(), away.url()];
    let redlock = Redlock::builder().urls(urls).prefix(unique_prefix()).build().await.unwrap();
    away.black_hole();
    let guard = redlock.lock("k").expire(secs(2)).acquire().await.unwrap();
    renewed(&guard, 4).await;
    away.pass();
    renewed(&guard, 2).await;
    eventually(secs(60), || async { held(&masters, &guard).await == 3 }).await;
    masters[0].kill9();
    renewed(&guard, 2).await;
}

/// Its connection is reset while the acquire is under way: nobody learns whether the clean-up
/// behind it arrives.
#[tokio::test]
async fn a_node_whose_connection_broke_at_the_acquire_counts_later() {
    let masters = Masters::start(3).await;
    let away = Proxy::start(&masters[2]);
    let urls = [masters[0].url(), masters[1].url(), away.url()];
    let redlock = Redlock::builder().urls(urls).prefix(unique_prefix()).build().await.unwrap();
    redlock.lock("before").run(async {}).await.unwrap();
    away.black_hole();
    let guard = redlock.lock("k").expire(secs(3)).acquire().await.unwrap();
    // The acquire is given up after 150 ms.
    time_passes(ms(400)).await;
    away.reset_all();
    away.pass();
    eventually(secs(60), || async { held(&masters, &guard).await == 3 }).await;
    renewed(&guard, 2).await;
    masters[0].kill9();
    renewed(&guard, 3).await;
    guard.check().unwrap();
    let key = guard.lease().redis_key().to_owned();
    guard.release().await.unwrap();
    eventually(secs(15), || async { masters[2].raw().get(&key).await.is_none() }).await;
}

/// The clean-up is refused as a whole where the user may not use the queue of a lock; then it is
/// sent for the lock alone.
#[tokio::test]
async fn a_node_whose_user_has_no_queue_counts_after_a_clean_up() {
    let masters = Masters::start(3).await;
    let prefix = unique_prefix();
    let (locks, counters) = (format!("~{prefix}*"), format!("~{{{prefix}*}}:fence"));
    for master in masters.iter() {
        let user = ["ACL", "SETUSER", "app", "on", ">secret", &locks, &counters, "&*", "+@all"];
        master.raw().cmd(&user).await;
    }
    let away = Proxy::start(&masters[2]);
    let addresses = [masters[0].addr(), masters[1].addr(), away.addr()];
    let urls = addresses.map(|address| format!("redis://app:secret@{address}"));
    let redlock = Redlock::builder().urls(urls).prefix(&prefix).build().await.unwrap();
    away.black_hole();
    let guard = redlock.lock("k").expire(secs(2)).acquire().await.unwrap();
    renewed(&guard, 1).await;
    away.pass();
    renewed(&guard, 2).await;
    masters[0].kill9();
    renewed(&guard, 2).await;
}

#[tokio::test]
async fn a_node_that_lost_its_data_is_won_back_by_a_renewal() {
    let masters = Masters::start(5).await;
    let redlock = on(&masters).await;
    let guard = redlock.lock("k").expire(secs(6)).acquire().await.unwrap();
    masters[0].restart_empty().await;
    eventually(secs(20), || async { held(&masters, &guard).await == 5 }).await;
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_quorum_of_less_than_a_majority_is_refused() {
    let urls = ["redis://127.0.0.1:1", "redis://127.0.0.1:2", "redis://127.0.0.1:3"];
    for quorum in [0, 1, 4] {
        let error = Redlock::builder().urls(urls).quorum(quorum).lazy().build().await.unwrap_err();
        assert!(error.to_string().contains("it must be 2 to 3"), "{error}");
    }
    assert!(Redlock::builder().urls(urls).quorum(3).lazy().build().await.is_ok());
}
