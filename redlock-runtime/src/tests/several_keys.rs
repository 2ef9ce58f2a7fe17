//! Several keys at once: all of them or none, in one order, with one lease and one fencing token.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;

use super::fake::{Fake, Fate, SECOND, client, fake};
use super::quorum::{nodes, on};
use super::server::Server;
use crate::backend::LockBackend;
use crate::client::Redlock;
use crate::error::{AlreadyHeldReason, LockError, NodeErrorKind};
use crate::fencing::FencingToken;
use crate::lease::Lease;
use crate::options::Wait;
use crate::state::{LostReason, Released};

pub(super) const EXPIRE: Duration = Duration::from_secs(10);

/// Which of these are taken.
pub(super) fn taken<'a>(fake: &Fake, keys: &[&'a str]) -> Vec<&'a str> {
    keys.iter().copied().filter(|key| fake.store.owner(key).is_some()).collect()
}

/// Another process.
pub(super) fn another(fake: &Arc<Fake>) -> Redlock {
    client(Arc::clone(fake) as Arc<dyn LockBackend>, 100)
}

#[tokio::test(start_paused = true)]
async fn all_are_held_by_one_lease_and_let_go_of_together() {
    let (redlock, fake) = fake();
    let guard = redlock.lock_all(["b", "c", "a", "b"]).acquire().await.unwrap();
    assert_eq!(guard.keys(), ["a", "b", "c"]);
    assert_eq!((guard.key(), guard.redis_key()), ("a", "a"));
    assert_eq!(fake.store.owner("a").as_deref(), Some(guard.owner()));
    assert_eq!(taken(&fake, &["a", "b", "c"]), ["a", "b", "c"]);
    let held = redlock.held();
    assert_eq!((held.len(), held[0].key(), held[0].keys().len()), (1, "a", 3));
    for key in ["a", "b", "c"] {
        assert!(another(&fake).lock(key).try_acquire().await.unwrap().is_none(), "{key}");
    }
    assert_eq!(guard.release().await.unwrap(), Released::Released);
    assert_eq!(taken(&fake, &["a", "b", "c"]), [""; 0]);
    assert!(redlock.held().is_empty());
}

#[tokio::test(start_paused = true)]
async fn one_key_named_twice_is_one_lock() {
    let (redlock, fake) = fake();
    let guard = redlock.lock_all(["a", "a"]).acquire().await.unwrap();
    assert_eq!(guard.keys(), ["a"]);
    assert_eq!(fake.take_log().len(), 1);
    assert_eq!(redlock.lock("b").acquire().await.unwrap().keys(), ["b"]);
}

/// Whoever has a key waits for larger ones only.
#[tokio::test(start_paused = true)]
async fn keys_are_taken_in_one_order_whoever_names_them() {
    let (redlock, fake) = fake();
    fake.store.set("c", "somebody", SECOND);
    drop(redlock.lock_all(["c", "a", "b"]).acquire().await.unwrap());
    let log = fake.take_log();
    let verbs = log.iter().filter(|line| line.starts_with("acquire"));
    let mut keys: Vec<&str> = verbs.filter_map(|line| line.split(' ').nth(1)).collect();
    keys.dedup();
    assert!(keys.ends_with(&["a", "b", "c"]), "{keys:?}");
}

/// Many callers want two of three keys, in all orders.
#[tokio::test(start_paused = true)]
async fn opposite_orders_do_not_lock_each_other_out() {
    let (_redlock, fake) = fake();
    let mut callers = Vec::new();
    for number in 0..30 {
        let pair = [["a", "b"], ["b", "a"], ["b", "c"], ["c", "b"], ["c", "a"], ["a", "c"]];
        let (redlock, keys) = (another(&fake), pair[number % 6]);
        callers.push(tokio::spawn(async move {
            let request = redlock.lock_all(keys).wait(60 * SECOND);
            request.run(tokio::time::sleep(Duration::from_millis(20))).await
        }));
    }
    for caller in callers {
        caller.await.unwrap().unwrap();
    }
    assert_eq!(taken(&fake, &["a", "b", "c"]), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_busy_key_is_named_and_nothing_is_kept() {
    let (redlock, fake) = fake();
    fake.store.set("b", "somebody", 60 * SECOND);
    let start = Instant::now();
    let error = redlock.lock_all(["a", "b", "c"]).wait(5 * SECOND).acquire().await.unwrap_err();
    let LockError::Timeout { key, waited, holder, .. } = error else { panic!("{error}") };
    assert_eq!((&*key, holder.as_deref()), ("b", Some("somebody")));
    assert!(waited >= 5 * SECOND && start.elapsed() < 5 * SECOND + SECOND / 2, "{waited:?}");
    assert_eq!(redlock.shutdown(SECOND).await, 0);
    assert_eq!(taken(&fake, &["a", "b", "c"]), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn without_a_wait_each_key_is_asked_for_once() {
    let (redlock, fake) = fake();
    fake.store.set("b", "somebody", SECOND / 10);
    assert!(redlock.lock_all(["a", "b", "c"]).try_acquire().await.unwrap().is_none());
    assert_eq!(taken(&fake, &["a", "b", "c"]), ["b"]);
    assert!(fake.take_log().len() <= 4, "two questions, and what was had is released");
    tokio::time::sleep(SECOND).await;
    assert!(redlock.lock_all(["a", "b", "c"]).try_acquire().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn keys_that_are_had_are_kept_while_others_are_waited_for() {
    let (redlock, fake) = fake();
    fake.store.set("b", "somebody", 40 * SECOND);
    let request = redlock.lock_all(["a", "b"]).expire(EXPIRE).max_renew(0).wait(Wait::Forever);
    let waiting = tokio::spawn(request.acquire());
    for _ in 0..39 {
        tokio::time::sleep(SECOND).await;
        assert_eq!(taken(&fake, &["a", "b"]), ["a", "b"]);
    }
    let guard = waiting.await.unwrap().unwrap();
    // The lease of all begins when the last is had, and so do its renewals.
    assert!(guard.remaining() > EXPIRE * 9 / 10, "{guard:?}");
    assert_eq!(guard.renewals(), 0);
    assert!(guard.waited() >= 39 * SECOND);
    let start = Instant::now();
    assert_eq!(guard.lost().await, LostReason::RenewalLimit);
    assert!(start.elapsed() > EXPIRE * 9 / 10 && start.elapsed() < EXPIRE);
}

#[tokio::test(start_paused = true)]
async fn the_lease_of_all_is_renewed_as_one() {
    let (redlock, fake) = fake();
    let request = redlock.lock_all(["a", "b", "c"]).expire(EXPIRE).max_renew(2);
    let guard = request.acquire().await.unwrap();
    fake.take_batches();
    tokio::time::sleep(EXPIRE).await;
    assert_eq!(guard.renewals(), 1);
    assert_eq!(fake.take_batches().iter().map(|(_, count)| *count).collect::<Vec<_>>(), [3]);
    assert_eq!(guard.lost().await, LostReason::RenewalLimit);
    assert_eq!(guard.renewals(), 2);
}

/// 99 keys and one: a script has no more than a hundred, and no hold is divided.
#[tokio::test(start_paused = true)]
async fn many_keys_are_renewed_in_calls_of_a_hundred() {
    let (redlock, fake) = fake();
    let names = |count: usize, name: &'static str| (0..count).map(move |n| format!("{name}{n}"));
    let request = |keys: Vec<String>| redlock.lock_all(keys).expire(EXPIRE).acquire();
    let _small = request(names(60, "a").collect()).await.unwrap();
    let _other = request(names(60, "b").collect()).await.unwrap();
    let _large = request(names(256, "c").collect()).await.unwrap();
    fake.take_batches();
    tokio::time::sleep(EXPIRE * 9 / 10).await;
    let mut counts: Vec<usize> = fake.take_batches().iter().map(|(_, count)| *count).collect();
    counts.sort_unstable();
    assert_eq!(counts, [60, 60, 256]);
    assert!(redlock.held().iter().all(|held| held.renewals() == 1));
}

#[tokio::test(start_paused = true)]
async fn a_fencing_token_is_above_those_of_all_keys_and_below_all_later_ones() {
    let server = Server::new();
    let (redlock, other) = (server.client(), server.client());
    let single = async |key: &str| -> FencingToken {
        let guard = other.lock(key).acquire().await.unwrap();
        let fencing_token = guard.fencing_token();
        guard.release().await.unwrap();
        fencing_token
    };
    for _ in 0..20 {
        let before = single("a").await.max(single("b").await).max(single("c").await);
        let guard = redlock.lock_all(["a", "b", "c"]).acquire().await.unwrap();
        let own = guard.fencing_token();
        assert!(own > before, "{own} {before}");
        // What waits in the queue draws from the counter of its key.
        let waiting = tokio::spawn(other.lock("a").wait(Wait::Forever).acquire());
        tokio::time::sleep(Duration::from_millis(1)).await;
        guard.release().await.unwrap();
        assert!(waiting.await.unwrap().unwrap().fencing_token() > own);
        assert!(single("b").await > own && single("c").await > own);
        let again = redlock.lock_all(["c", "a"]).acquire().await.unwrap().fencing_token();
        assert!(again > own);
    }
}

/// The tokens of one key are ahead of the clock. Another key comes from the queue, where tokens are
/// drawn behind its counter, and a third one from its mark.
#[tokio::test(start_paused = true)]
async fn the_counters_of_all_keys_are_raised_to_the_largest_token() {
    let server = Server::new();
    let (redlock, other) = (server.client(), server.client());
    let mut last = None;
    for _ in 0..8_000 {
        let guard = other.lock("c").acquire().await.unwrap();
        last = Some(guard.fencing_token());
        guard.release().await.unwrap();
    }
    let held = other.lock("a").acquire().await.unwrap();
    let several = tokio::spawn(redlock.lock_all(["a", "b", "c"]).wait(Wait::Forever).acquire());
    tokio::time::sleep(Duration::from_millis(1)).await;
    held.release().await.unwrap();
    let guard = several.await.unwrap().unwrap();
    let own = guard.fencing_token();
    assert!(Some(own) > last, "{own} {last:?}");
    let next = tokio::spawn(other.lock("a").wait(Wait::Forever).acquire());
    tokio::time::sleep(Duration::from_millis(1)).await;
    guard.release().await.unwrap();
    let next = next.await.unwrap().unwrap();
    assert!(next.fencing_token() > own, "{} {own}", next.fencing_token());
    let next = other.lock("b").acquire().await.unwrap();
    assert!(next.fencing_token() > own, "{} {own}", next.fencing_token());
}

/// The nodes are far apart: the largest token is one of a single key.
#[tokio::test(start_paused = true)]
async fn n_nodes_agree_on_one_token_for_all_keys() {
    let nodes = nodes(3);
    let (redlock, other) = (on(&nodes), on(&nodes));
    nodes[0].store.set_last_token(1 << 52);
    let guard = redlock.lock_all(["a", "b"]).acquire().await.unwrap();
    let own = guard.fencing_token();
    guard.release().await.unwrap();
    tokio::time::sleep(5 * SECOND).await;
    nodes[0].always(Some(Fate::Refused(NodeErrorKind::Unreachable, false)));
    for key in ["a", "b"] {
        let guard = other.lock(key).acquire().await.unwrap();
        assert!(guard.fencing_token() > own, "{key}");
        guard.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn several_keys_are_re_entered_where_one_hold_has_them_all() {
    let (redlock, fake) = fake();
    let (task, store) = (redlock.clone(), fake.store.clone());
    let body = async move {
        let outer = Lease::current().unwrap();
        for keys in [vec!["b", "a"], vec!["c"], vec!["a", "b", "c"]] {
            let inner = task.lock_all(keys).acquire().await.unwrap();
            assert_eq!(
                (inner.fencing_token(), inner.keys()),
                (outer.fencing_token(), outer.keys())
            );
            inner.release().await.unwrap();
        }
        let one = task.lock("b").acquire().await.unwrap();
        assert_eq!(one.owner(), outer.owner());
        drop(one);
        assert!(store.owner("b").is_some());
        let error = task.lock_all(["c", "d"]).acquire().await.unwrap_err();
        let with = vec!["d".to_owned()];
        let reason = AlreadyHeldReason::SeveralKeys;
        assert_eq!(error, LockError::AlreadyHeld { key: "c".to_owned(), reason, with });
        assert!(error.to_string().contains("`d` was wanted with it"), "{error}");
        assert!(store.owner("d").is_none());
        drop(task.lock_all(["d", "e"]).acquire().await.unwrap());
    };
    redlock.lock_all(["a", "b", "c"]).run(body).await.unwrap();
    let nested = redlock.lock("a").run(async {
        let inner = redlock.lock("b").run(async { redlock.lock_all(["a", "b"]).acquire().await });
        inner.await.unwrap().unwrap_err()
    });
    assert!(matches!(nested.await.unwrap(), LockError::AlreadyHeld { .. }), "of two holds");
    assert_eq!(taken(&fake, &["a", "b", "c", "d", "e"]), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn no_key_and_too_many_are_told_before_anything_is_sent() {
    let (redlock, fake) = fake();
    let none: [&str; 0] = [];
    let error = redlock.lock_all(none).acquire().await.unwrap_err();
    assert!(matches!(&error, LockError::Config { .. }), "{error}");
    let many = (0..257).map(|number| format!("k{number}"));
    let error = redlock.lock_all(many).acquire().await.unwrap_err();
    assert!(matches!(&error, LockError::Config { .. }), "{error}");
    let error = redlock.lock_all(["a", "\n"]).acquire().await.unwrap_err();
    assert!(matches!(&error, LockError::InvalidKey { .. }), "{error}");
    assert_eq!(fake.take_log(), [""; 0]);
}

/// A caller that is not polled any more does not keep what others want.
#[tokio::test(start_paused = true)]
async fn keys_of_a_stalled_caller_are_taken_back() {
    let (redlock, fake) = fake();
    fake.store.set("b", "somebody", SECOND);
    let mut call = pin!(redlock.lock_all(["a", "b"]).expire(EXPIRE).wait(Wait::Forever).acquire());
    let polled = tokio::time::timeout(Duration::ZERO, call.as_mut()).await;
    assert!(polled.is_err());
    tokio::time::sleep(3 * SECOND).await;
    assert_eq!(taken(&fake, &["a", "b"]), [""; 0], "a second after they were had");
    assert_eq!(call.await.unwrap().keys(), ["a", "b"]);
}

/// Each turn of the caller's runtime takes longer than a grant waits for its caller. One more
/// attempt follows at the end of the wait, and no other.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_always_polled_late_ends_with_its_wait() {
    let keys = ["a", "b"];
    for (wait, most) in [(Wait::from(5 * SECOND), 5), (Wait::Never, 3)] {
        let (redlock, fake) = fake();
        let mut call = pin!(redlock.lock_all(keys).expire(EXPIRE).wait(wait).acquire());
        let mut turns = 0;
        let error = loop {
            turns += 1;
            assert!(turns <= most, "{wait:?}");
            match poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx))).await {
                Poll::Ready(outcome) => break outcome.unwrap_err(),
                Poll::Pending => tokio::time::sleep(2 * SECOND).await,
            }
        };
        assert!(error.is_unavailable() && !error.is_busy(), "{error}");
        assert!(error.to_string().ends_with("keeps the thread of this task busy)"), "{error}");
        assert_eq!(taken(&fake, &keys), [""; 0]);
    }
}

/// There is one more attempt then, whose answer counts.
#[tokio::test(start_paused = true)]
async fn keys_that_were_taken_back_after_the_wait_are_asked_for_once_more() {
    for is_busy in [false, true] {
        let (redlock, fake) = fake();
        fake.store.set("b", "somebody", SECOND / 2);
        let mut call = pin!(redlock.lock_all(["a", "b"]).expire(EXPIRE).wait(SECOND).acquire());
        assert!(tokio::time::timeout(Duration::ZERO, call.as_mut()).await.is_err());
        tokio::time::sleep(3 * SECOND).await;
        if is_busy {
            fake.store.set("b", "another", 9 * SECOND);
        }
        match call.await {
            Ok(guard) => assert_eq!((is_busy, guard.keys().len()), (false, 2)),
            Err(error) => assert!(is_busy && error.is_busy(), "{error}"),
        }
    }
}
