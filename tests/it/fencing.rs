//! Fencing marks and counters: what fencing tokens come behind, and what that leaves in Redis.

use redlock::{LockError, NodeErrorKind, Redlock};

use crate::server_queue::{Lock, NOBODY, lock, number};
use crate::support::{Raw, Server, lines_of, secs};

/// The last number that may be a fencing token.
const LAST: u64 = (1 << 53) - 1;
/// So far ahead of the clock are reserved fencing tokens at most, in microseconds.
const LEAD: u64 = 10_000;
/// So many would run far ahead of the clock.
const RESERVE: &str = "1000000000";
/// So long does a mark last behind its time, in seconds.
const MARK_LIFE: u64 = 48 * 3600;

/// `TIME`, in microseconds.
async fn time(raw: &Raw) -> u64 {
    let text = "local t = redis.call('TIME') return string.format('%.0f', t[1] * 1000000 + t[2])";
    number(&lines_of(raw.cmd(&["EVAL", text, "0"]).await)[0])
}

/// What stands in a key, and how long it lasts there, in seconds.
async fn mark(lock: &Lock) -> (u64, u64) {
    let life = lock.raw.pttl(&lock.mark).await.expect("there is a mark");
    (number(&lock.raw.get(&lock.mark).await.unwrap()), life.as_secs())
}

/// As processes do whose only caller is cancelled while it is handed the lock.
async fn waiters_leave(lock: &Lock, count: u32) {
    lock.join_for("waiter-0", RESERVE, NOBODY).await.unwrap();
    for n in 1..=count {
        lock.join_for(&format!("waiter-{n}"), RESERVE, NOBODY).await.unwrap();
        assert_eq!(lock.let_go(&format!("waiter-{}", n - 1), "", "leave").await, "2");
    }
}

#[tokio::test]
async fn reserves_that_nobody_used_do_not_add_up() {
    let lock = lock().await;
    for _ in 0..3 {
        waiters_leave(&lock, 60).await;
        let now = time(&lock.raw).await;
        // One more where it was ahead already: far less than one in a microsecond.
        assert!(lock.counter().await <= now + LEAD + 180, "{} at {now}", lock.counter().await);
        assert_eq!(lock.release("waiter-60").await, "1");
    }
}

#[tokio::test]
async fn fencing_tokens_grow_though_the_counter_alone_is_lost() {
    for (way, lost) in [("acquire", true), ("acquire", false), ("join", true)] {
        let lock = lock().await.unbounded();
        waiters_leave(&lock, 9).await;
        let last = lock.counter().await;
        assert_eq!(lock.release("waiter-9").await, "1");
        if lost {
            assert!(lock.raw.del(&lock.fence).await);
        }
        let next = match way {
            "acquire" => lock.acquire("next").await,
            _ => number(&lock.join_on("next", NOBODY).await.unwrap()[1]),
        };
        assert!(next > last, "{way}, lost: {lost}: {next} after {last}");
        // What was drawn without the counter is not forgotten by it.
        lock.release("next").await;
        let again = number(&lock.join_on("again", NOBODY).await.unwrap()[1]);
        assert!(again > next, "{way}, lost: {lost}: {again} after {next}");
    }
}

/// The mark follows the clock, and lasts until the clock has left it behind for long.
#[tokio::test]
async fn a_clock_that_steps_back_is_covered_by_the_mark_alone() {
    let lock = lock().await;
    let token = lock.acquire("a").await;
    let (marked, life) = mark(&lock).await;
    assert_eq!(marked, token + 3, "its holder may use these, too");
    assert!(life <= MARK_LIFE && life > MARK_LIFE - 60, "{life}");
    assert_eq!(lock.raw.get(&lock.fence).await, None, "an acquire leaves no counter");
    lock.release("a").await;
    // Three days: as if the clock had been ahead.
    let ahead = token + 3 * 24 * 3_600_000_000;
    lock.raw.cmd(&["SET", &lock.mark, &ahead.to_string()]).await;
    assert_eq!(lock.acquire("b").await, ahead + 1);
    assert!(mark(&lock).await.1 > 3 * 24 * 3600 + MARK_LIFE - 60);
    lock.release("b").await;
    let joined = lock.join_on("c", NOBODY).await.unwrap();
    assert_eq!([number(&joined[1]), number(&joined[2])], [ahead + 2, ahead + 2], "no reserve");
    assert_eq!(mark(&lock).await.0, ahead + 2);
    assert!(mark(&lock).await.1 > 3 * 24 * 3600 + MARK_LIFE - 60);
    lock.release("c").await;
    // Another lock of the slot.
    let other = Lock { mark: lock.mark.clone(), ..crate::server_queue::lock().await };
    assert_eq!(other.acquire("d").await, ahead + 3);
}

/// Others may have drawn with `acquire.lua`, which does not keep the counter.
#[tokio::test]
async fn a_counter_does_not_outlive_a_higher_fencing_token() {
    let lock = lock().await.unbounded();
    waiters_leave(&lock, 2).await;
    assert_eq!(lock.release("waiter-2").await, "1");
    let token = lock.acquire("a").await;
    assert_eq!(lock.raw.get(&lock.fence).await, None);
    lock.join_on("b", NOBODY).await.unwrap();
    assert_eq!(lock.release("a").await, "2");
    assert!(lock.counter().await - 7 > token);
    let life = lock.raw.pttl(&lock.fence).await.unwrap();
    assert!(life <= secs(20) && life > secs(10), "{life:?}");
}

/// The last fencing token is granted once. Behind it, and behind what is no number, there is none:
/// acquires and joins say so, and a release frees the lock and hands it to nobody.
#[tokio::test]
async fn no_fencing_token_is_granted_twice_at_the_end_of_all_numbers() {
    for is_mark in [true, false] {
        let lock = lock().await;
        lock.acquire("first").await;
        lock.release("first").await;
        let key = if is_mark { lock.mark.clone() } else { lock.fence.clone() };
        lock.raw.cmd(&["SET", &key, &(LAST - 1).to_string()]).await;
        let joined = lock.join_for("a", "8192", NOBODY).await.unwrap();
        assert_eq!([number(&joined[1]), number(&joined[2])], [LAST, LAST]);
        lock.join_on("waits", NOBODY).await.unwrap();
        if !is_mark {
            lock.raw.cmd(&["SET", &lock.mark, "7"]).await;
        }
        for odd in ["9007199254740991", "9007199254740992", "1e300", "inf", "nan", "many", ""] {
            lock.raw.cmd(&["SET", &key, odd]).await;
            lock.raw.cmd(&["SET", &lock.key, "a"]).await;
            let error = lock.rotate_of("a", LAST - 1, "", "a2").await;
            assert!(error.is_err_and(|error| error.contains(&key)), "{odd}");
            assert_eq!(lock.release("a").await, "1", "{odd}");
            assert_eq!((lock.holder().await, lock.waiting().await), (None, 1), "{odd}");
            let errors =
                [lock.join_on("waits", "").await.map(drop), lock.try_acquire("b").await.map(drop)];
            for error in errors {
                let error = error.unwrap_err();
                assert!(error.contains("FENCE") && error.contains(&key), "{odd}: {error}");
            }
            assert_eq!((lock.holder().await, lock.waiting().await), (None, 1), "{odd}");
        }
    }
}

#[tokio::test]
async fn a_mark_at_the_end_of_all_numbers_is_an_error_that_names_it() {
    let server = Server::start().await;
    let redlock = Redlock::connect(server.url()).await.unwrap();
    redlock.lock("k").run(async {}).await.unwrap();
    let [key] = &server.raw().keys("*").await[..] else { panic!("one mark") };
    server.raw().cmd(&["SET", key, &LAST.to_string()]).await;
    let error = redlock.lock("k").acquire().await.map(drop).unwrap_err();
    let LockError::Unavailable { nodes, .. } = &error else { panic!("{error}") };
    assert_eq!(nodes[0].kind(), NodeErrorKind::Refused);
    assert!(error.to_string().contains(key.as_str()), "{error}");
}

/// One mark for all locks of a hash slot.
#[tokio::test]
async fn locks_leave_nothing_but_the_mark_of_their_slot() {
    let server = Server::start().await;
    let redlock = Redlock::connect(server.url()).await.unwrap();
    let orders = (0..1_000).map(|order| {
        let lock = redlock.lock(format!("{{shop}}-{order}"));
        tokio::spawn(async move { lock.run(async {}).await })
    });
    for order in orders.collect::<Vec<_>>() {
        order.await.unwrap().unwrap();
    }
    let keys = server.raw().keys("*").await;
    assert!(matches!(&keys[..], [mark] if mark.ends_with(":mark:fence")), "{keys:?}");
}
