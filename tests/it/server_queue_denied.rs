//! Where no queue can be: a release works all the same, and a caller that would join is told so.

use std::time::Instant;

use redlock::Redlock;

use crate::security::user;
use crate::server_queue::{HEAD, Lock, NOBODY, lock};
use crate::server_queue_calls::calls;
use crate::support::{Proxy, Raw, Server, eventually, lines_of, secs};

#[tokio::test]
async fn a_line_of_another_type_is_left_alone() {
    let lock = lock().await;
    lock.join_on("holder", NOBODY).await.unwrap();
    lock.raw.cmd(&["SET", &lock.queue, "mine"]).await;
    let error = lock.join_on("a", NOBODY).await.unwrap_err();
    assert!(error.contains("WRONGTYPE"), "{error}");
    assert_eq!(lock.release("holder").await, "1");
    assert_eq!(lock.holder().await, None);
    assert_eq!(lock.raw.get(&lock.queue).await.as_deref(), Some("mine"));
}

#[tokio::test]
async fn a_counter_that_is_no_number_does_not_hold_a_release_up() {
    let lock = lock().await;
    lock.join_on("holder", NOBODY).await.unwrap();
    lock.join_on("a", NOBODY).await.unwrap();
    for odd in [&["SET", &lock.fence, "many"][..], &["LPUSH", &lock.fence, "1"]] {
        lock.raw.del(&lock.fence).await;
        lock.raw.cmd(odd).await;
        lock.raw.cmd(&["SET", &lock.key, "holder"]).await;
        assert_eq!(lock.release("holder").await, "1");
        assert_eq!((lock.holder().await, lock.waiting().await), (None, 1));
    }
}

/// It takes an entry out, and puts an owner in the place of another one.
#[tokio::test]
async fn without_memory_a_lock_goes_to_the_next_in_the_queue() {
    let release_all = [script!("quick_release_all.lua"), HEAD, script!("release_all.lua")].concat();
    let server = Server::start().await;
    let lock = Lock::new(server.raw());
    for owner in ["holder", "a", "b"] {
        lock.join_on(owner, NOBODY).await.unwrap();
    }
    lock.raw.cmd(&["CONFIG", "SET", "maxmemory", "1"]).await;
    assert_eq!(lock.release("holder").await, "2");
    assert_eq!((lock.holder().await.as_deref(), lock.waiting().await), (Some("a"), 1));
    let used = lock.counter().await - 7;
    let reserved = lock.counter().await.to_string();
    assert_eq!(lock.rotate_of("a", used, &reserved, "c").await.unwrap()[0], "2");
    assert_eq!((lock.holder().await.as_deref(), lock.waiting().await), (Some("b"), 1));
    assert!(lock.join_on("d", NOBODY).await.unwrap_err().contains("OOM"));
    assert_eq!(lock.run(&release_all, &["b"]).await.unwrap(), ["2"]);
    assert_eq!((lock.holder().await.as_deref(), lock.waiting().await), (Some("c"), 0));
    assert_eq!(lock.release("c").await, "1");
    assert_eq!(lock.holder().await, None);
}

/// A reader that was told late claims by an acquire what it was handed.
#[tokio::test]
async fn without_memory_a_reader_claims_what_it_has_and_no_other_one_enters() {
    let text = [shared!("quick_acquire.lua"), HEAD, shared!("join.lua"), shared!("acquire.lua")];
    let text = text.concat();
    let server = Server::start().await;
    let lock = Lock::new(server.raw());
    let holders = format!("{{{}}}:holders", lock.key);
    let acquire = async |owner: &str| {
        let keys = ["5", &lock.key, &lock.mark, &lock.fence, &lock.queue, &holders];
        let words = [&["EVAL", &text][..], &keys, &[owner, "10000", "20000", "r"]].concat();
        lock.raw.try_cmd(&words).await.map(lines_of).map_err(|error| error.to_string())
    };
    assert_eq!(acquire("a").await.unwrap()[0], "1");
    for writers in 0..=1 {
        assert_eq!(lock.waiting().await, writers);
        lock.raw.cmd(&["CONFIG", "SET", "maxmemory", "1"]).await;
        assert_eq!(acquire("a").await.unwrap()[0], "1");
        assert!(writers == 1 || acquire("b").await.unwrap_err().contains("OOM"));
        lock.raw.cmd(&["CONFIG", "SET", "maxmemory", "0"]).await;
        lock.join_on("writer", NOBODY).await.unwrap();
    }
}

/// Each of the words that a queue needs and a lock does not.
#[tokio::test]
async fn a_user_without_the_words_of_a_line_releases_and_is_told() {
    let line = user("acl");
    let server = Server::builder().acl(&line).start().await;
    for (word, joins) in [
        ("+lindex", true),
        ("+rpush", false),
        ("+publish", true),
        ("+pubsub|numsub", true),
        ("+lpop", true),
        ("+lrem", true),
        ("&redlock:*", true),
    ] {
        let less: Vec<&str> = line.split(' ').filter(|other| *other != word).collect();
        server.raw().cmd(&[&["ACL", "SETUSER"], &less[..1], &["reset"], &less[1..]].concat()).await;
        let lock = Lock::called("lock:k", Raw::new(&server.url_for("locks", "secret")));
        lock.raw.cmd(&["DEL", &lock.queue]).await;
        lock.raw.cmd(&["SET", &lock.key, "holder"]).await;
        let joined = lock.join_on("a", "redlock:somebody").await;
        assert_eq!(joined.is_ok(), joins, "{word}: {joined:?}");
        assert_eq!(lock.release("holder").await, "1", "{word}");
        assert_eq!(lock.holder().await, None, "{word}");
    }
}

/// Nobody could end a script that finds the same entry again and again: it has written.
#[tokio::test]
async fn who_may_not_read_a_queue_releases_before_one_who_would_share_the_lock() {
    let line = user("acl-kinds");
    let server = Server::builder().acl(&line).start().await;
    let raw = server.raw();
    for word in ["+lrange", "+llen", "+lindex", "+zremrangebyscore", "+zcount"] {
        let less: Vec<&str> = line.split(' ').filter(|other| *other != word).collect();
        raw.cmd(&[&["ACL", "SETUSER"], &less[..1], &["reset"], &less[1..]].concat()).await;
        let lock = Lock::called("lock:k", Raw::new(&server.url_for("locks", "secret")));
        for tokens in ["r", "p2"] {
            raw.cmd(&["DEL", &lock.queue]).await;
            raw.cmd(&["SET", &lock.key, "holder"]).await;
            for channel in ["-", "redlock:nobody"] {
                let entry = format!("10000 70000 {tokens} {channel} reader:{}", "0".repeat(24));
                raw.cmd(&["RPUSH", &lock.queue, &entry]).await;
            }
            let released = lock.release("holder").await;
            assert!(["1", "2"].contains(&&*released), "{word} {tokens}: {released}");
            assert_ne!(raw.get(&lock.key).await.as_deref(), Some("holder"), "{word} {tokens}");
        }
    }
}

/// Servers say differently that a script ran a command that its user may not run.
fn is_denied(error: &str) -> bool {
    ["can't run this command", "ACL failure in script"].iter().any(|words| error.contains(words))
}

/// It would join again and again, and be handed the lock for each of its entries.
#[tokio::test]
async fn who_may_not_search_a_queue_is_told_when_it_looks() {
    let line = user("acl");
    let server = Server::builder().acl(&line).start().await;
    let raw = server.raw();
    for word in ["+llen", "+lrange"] {
        let less: Vec<&str> = line.split(' ').filter(|other| *other != word).collect();
        raw.cmd(&[&["ACL", "SETUSER"], &less[..1], &["reset"], &less[1..]].concat()).await;
        let lock = Lock::called("lock:k", Raw::new(&server.url_for("locks", "secret")));
        raw.cmd(&["DEL", &lock.queue]).await;
        for holder in [&["SET", &lock.key, "holder"][..], &["DEL", &lock.key]] {
            raw.cmd(&["SET", &lock.key, "holder"]).await;
            lock.join_on("a", NOBODY).await.unwrap();
            raw.cmd(holder).await;
            let looked = lock.join_on("a", "").await.unwrap_err();
            assert!(is_denied(&looked), "{word}: {looked}");
        }
    }
}

/// A renewal says who has a lock only if it has seen that.
#[tokio::test]
async fn who_may_not_read_a_lock_is_not_told_that_it_is_lost() {
    let line = user("acl-kinds");
    let less: Vec<&str> = line.split(' ').filter(|word| *word != "+get").collect();
    let server = Server::builder().acl(&less.join(" ")).start().await;
    let lock = Lock::called("lock:k", Raw::new(&server.url_for("locks", "secret")));
    lock.raw.cmd(&["SET", &lock.key, "holder"]).await;
    for renew in [script!("renew.lua"), shared!("renew.lua")] {
        let renewed = lock.run(renew, &["holder", "10000", "<readers>"]).await.unwrap_err();
        assert!(is_denied(&renewed), "{renewed}");
    }
}

/// A user from before there were lines: the library releases without them, and asks for them now
/// and then.
#[tokio::test]
async fn a_user_who_may_not_touch_lines_has_locks_all_the_same() {
    let line = user("acl").replace(" ~{lock:*}:queue", "");
    let server = Server::builder().acl(&line).start().await;
    let proxy = Proxy::start(&server);
    let url = format!("redis://locks:secret@{}", proxy.addr());
    let redlock = Redlock::builder().url(url).lazy().build().await.unwrap();
    for _ in 0..3 {
        redlock.lock("stock-42").expire(secs(10)).run(async {}).await.unwrap();
        assert!(server.raw().get("lock:stock-42").await.is_none());
    }
    proxy.forget();
    redlock.lock("stock-42").run(async {}).await.unwrap();
    let log = proxy.command_log();
    assert!(log == ["EVALSHA"; 2] || log == ["EVALSHA"; 3], "{log:?}");
}

/// A permission that was missing, and is granted while a caller waits.
#[tokio::test]
async fn a_user_who_is_allowed_to_queue_again_queues_again() {
    let line = user("acl");
    let denied: Vec<&str> = line.split(' ').filter(|word| *word != "+rpush").collect();
    let server = Server::builder().acl(&denied.join(" ")).start().await;
    let redlock = Redlock::connect(server.url_for("locks", "secret")).await.unwrap();
    let lock = Lock::called("lock:k", server.raw());
    lock.raw.cmd(&["SET", &lock.key, "web-1-1:holder", "PX", "600000"]).await;
    let waiting = tokio::spawn(redlock.lock("k").wait(secs(300)).run(async {}));
    let is_refused = || async {
        lines_of(lock.raw.cmd(&["ACL", "LOG"]).await).iter().any(|line| line == "rpush")
    };
    eventually(secs(60), is_refused).await;
    lock.raw.cmd(&["ACL", "SETUSER", "locks", "+rpush"]).await;
    eventually(secs(60), || async { lock.waiting().await == 1 }).await;
    waiting.abort();
}

/// Their subscription is refused for good while they wait. Those who were told would look after a
/// second, two, three and four.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_not_told_any_more_looks_at_once() {
    const WAITERS: usize = 4;
    let server = Server::builder().acl(&user("acl")).start().await;
    let build = async || Redlock::connect(server.url_for("locks", "secret")).await.unwrap();
    let guard = build().await.lock("k").expire(secs(60)).acquire().await.unwrap();
    let lock = Lock::called("lock:k", server.raw());
    let mut waiting = Vec::new();
    for _ in 0..WAITERS {
        waiting.push(tokio::spawn(build().await.lock("k").wait(secs(50)).run(async {})));
    }
    eventually(secs(20), || async { lock.waiting().await == 4 }).await;
    lock.raw.cmd(&["CONFIG", "RESETSTAT"]).await;
    lock.raw.cmd(&["ACL", "SETUSER", "locks", "resetchannels"]).await;
    let freed = Instant::now();
    guard.release().await.unwrap();
    for waiter in waiting {
        waiter.await.unwrap().unwrap();
    }
    let (waited, asked) = (freed.elapsed(), calls(&lock, "evalsha").await);
    assert!(waited < secs(3), "{waited:?}");
    assert!(asked < 1000, "{asked} questions in {waited:?}");
}

/// A server that failed over may have forgotten that it took them out.
#[tokio::test]
async fn an_owner_that_has_had_the_lock_is_not_handed_it_again() {
    let lock = lock().await;
    lock.join_on("holder", NOBODY).await.unwrap();
    for owner in ["a", "b"] {
        lock.join_on(owner, NOBODY).await.unwrap();
    }
    lock.raw.cmd(&["SET", &lock.key, "a", "PX", "10000"]).await;
    assert_eq!(lock.release("a").await, "2");
    assert_eq!((lock.holder().await.as_deref(), lock.waiting().await), (Some("b"), 0));

    lock.join_on("c", NOBODY).await.unwrap();
    lock.raw.cmd(&["SET", &lock.key, "c", "PX", "10000"]).await;
    assert_eq!(lock.join_on("c", "").await.unwrap()[0], "1", "it looks, and has it");
    assert_eq!((lock.holder().await.as_deref(), lock.waiting().await), (Some("c"), 0));
}

#[tokio::test]
async fn an_entry_that_nobody_can_be_handed_a_lock_for_is_taken_out() {
    let lock = lock().await;
    for odd in [
        "",
        "10000 3610000 8 -",
        "10000 0 8 - somebody",
        "10000 99999999999999999999999 8 - somebody",
        "99999999999999999999 3610000 8 - somebody",
        "10000 3610000 0 - somebody",
        "10000 3610000 99999999999999999 - somebody",
        "-1 3610000 8 - somebody",
    ] {
        lock.raw.cmd(&["SET", &lock.key, "holder", "PX", "10000"]).await;
        lock.raw.cmd(&["RPUSH", &lock.queue, odd]).await;
        lock.join_on("next", NOBODY).await.unwrap();
        assert_eq!(lock.release("holder").await, "2", "{odd:?}");
        let found = (lock.holder().await, lock.waiting().await);
        assert_eq!(found, (Some("next".to_owned()), 0), "{odd:?}");
        assert_eq!(lock.release("next").await, "1");
    }
}

/// It stands before those who get no signals either, and are not gone.
#[tokio::test]
async fn a_hint_that_cannot_be_signalled_keeps_nobody_out() {
    let lock = lock().await;
    lock.raw.cmd(&["SET", &lock.key, "holder", "PX", "10000"]).await;
    lock.raw.cmd(&["RPUSH", &lock.queue, "0 0 0 - hint"]).await;
    lock.join_on("next", "-").await.unwrap();
    assert_eq!(lock.release("holder").await, "2");
    assert_eq!((lock.holder().await.as_deref(), lock.waiting().await), (Some("next"), 0));
}

/// Another program has put it there.
#[tokio::test]
async fn who_looks_for_an_odd_entry_is_not_signalled() {
    let lock = lock().await;
    lock.join_on("holder", NOBODY).await.unwrap();
    lock.raw.cmd(&["RPUSH", &lock.queue, "junk me"]).await;
    let arguments = ["me", "10000", "20000", "8", "", "", "drop"];
    let text = [HEAD, script!("enqueue.lua")].concat();
    let looked = lock.run(&text, &arguments).await.unwrap();
    assert_eq!((&*looked[0], &*looked[5]), ("0", "0"));
}
