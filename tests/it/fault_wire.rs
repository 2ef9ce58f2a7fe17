//! Lost replies and broken connections between a client and its server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use redlock::{LeaseState, NodeErrorKind as Kind, Redlock, Released, Wait};

use crate::fault_kit::{LONG, NOISE, assert_unavailable, builder, client, lock_keys, nothing_left};
use crate::support::proxy::{Then, command};
use crate::support::{Proxy, Raw, Server, capture, eventually, ms, secs, time_passes};

struct Site {
    proxy: Proxy,
    redlock: Redlock,
    prefix: String,
    raw: Raw,
}

impl Site {
    async fn new() -> Site {
        let server = Server::shared().await;
        let proxy = Proxy::start(server);
        let (redlock, prefix) = client(&proxy.url()).await;
        // The scripts are known from here on: the next command of a call is its only one.
        drop(redlock.lock("warm").acquire().await.unwrap().release().await);
        Site { proxy, redlock, prefix, raw: server.raw() }
    }
}

/// The fencing mark that was drawn last, and its key.
async fn latest_mark(site: &Site) -> (String, String) {
    let mut marks = Vec::new();
    for key in site.raw.keys(&format!("{}*:mark:fence", site.prefix)).await {
        marks.extend(site.raw.get(&key).await.map(|mark| (mark, key)));
    }
    marks.into_iter().max().expect("a fencing token was drawn")
}

/// The key of the mark of an acquire that has landed since `before` was the latest.
async fn mark_behind(site: &Site, before: &str) -> Result<String, &'static str> {
    let (mark, key) = latest_mark(site).await;
    if mark.as_str() > before { Ok(key) } else { Err("nobody has drawn a fencing token") }
}

fn breaks() -> [Then; 3] {
    [Then::CutRequest, Then::CutReply, Then::ResetReply]
}

#[tokio::test]
async fn an_acquire_whose_reply_is_lost_is_cleaned_up() {
    let site = Site::new().await;
    let hits = site.proxy.when(command(&["EVALSHA"]), Then::LoseReply);
    let outcome = site.redlock.lock("k").wait(Wait::Never).acquire().await.map(drop);
    assert_unavailable(&outcome.unwrap_err(), Kind::NoReply);
    assert_eq!(hits.count(), 1);
    nothing_left(&site.raw, &site.prefix, NOISE).await;
    assert_eq!(site.redlock.shutdown(NOISE).await, 0);
}

/// Whatever becomes of the client behind its first command, the server frees the key by itself.
#[tokio::test]
async fn a_key_has_its_expiry_from_the_first_moment() {
    let site = Site::new().await;
    let (before, _) = latest_mark(&site).await;
    site.proxy.when(command(&["EVALSHA"]), Then::LoseReply);
    let acquire = tokio::spawn(site.redlock.lock("k").acquire());
    let key = format!("{}k", site.prefix);
    let mark = eventually(secs(20), || mark_behind(&site, &before)).await;
    for key in [&key, &mark] {
        assert_ne!(site.raw.int(&["PTTL", key]).await, -1, "{key}");
    }
    drop(acquire.await.unwrap().unwrap());
    nothing_left(&site.raw, &site.prefix, NOISE).await;
}

#[tokio::test]
async fn an_acquire_that_arrives_after_everybody_gave_up_is_followed_by_its_release() {
    let site = Site::new().await;
    let (before, _) = latest_mark(&site).await;
    // Longer than the clean-up on other connections is repeated: only the one behind it is left.
    site.proxy.when(command(&["EVALSHA"]), Then::DelayRequest(secs(6)));
    let request = site.redlock.lock("k").wait(Wait::Never);
    assert_unavailable(&request.acquire().await.map(drop).unwrap_err(), Kind::NoReply);
    let key = format!("{}k", site.prefix);
    eventually(LONG, || mark_behind(&site, &before)).await;
    eventually(secs(9), || async { site.raw.get(&key).await.is_none() }).await;
}

#[tokio::test]
async fn an_acquire_whose_reply_is_lost_is_repeated_by_a_new_owner() {
    let site = Site::new().await;
    site.proxy.when(command(&["EVALSHA"]), Then::LoseReply);
    let guard = site.redlock.lock("k").wait(LONG).acquire().await.unwrap();
    let key = format!("{}k", site.prefix);
    // Neither the clean-up behind the lost reply nor its repetitions touch the new owner.
    let stays = async {
        for _ in 0..60 {
            assert_eq!(site.raw.get(&key).await.as_deref(), Some(guard.owner()));
            time_passes(ms(50)).await;
        }
    };
    stays.await;
    assert_eq!(guard.release().await, Ok(Released::Released));
    nothing_left(&site.raw, &site.prefix, NOISE).await;
}

#[tokio::test]
async fn an_acquire_whose_connection_breaks_is_recognised_when_it_is_repeated() {
    let site = Site::new().await;
    for then in breaks() {
        let hits = site.proxy.when(command(&["EVALSHA"]), then);
        let guard = site.redlock.lock("k").wait(Wait::Never).acquire().await.unwrap();
        assert_eq!(hits.count(), 1);
        let key = format!("{}k", site.prefix);
        assert_eq!(site.raw.get(&key).await.as_deref(), Some(guard.owner()));
        // The repetition found the lock, and may have drawn a higher token than the first try.
        let (mark, _) = latest_mark(&site).await;
        let last_reserved = u64::from(guard.fencing_token()) + 3;
        assert_eq!(mark, last_reserved.to_string(), "the last tokens are those of the lock");
        assert_eq!(guard.release().await, Ok(Released::Released));
    }
}

#[tokio::test]
async fn a_renewal_whose_connection_breaks_or_reply_is_lost_is_repeated() {
    let faults = breaks().into_iter().chain([Then::LoseReply, Then::LoseRequest]);
    for then in faults {
        let site = Site::new().await;
        let guard = site.redlock.lock("k").expire(secs(6)).acquire().await.unwrap();
        let hits = site.proxy.when(command(&["EVALSHA"]), then);
        hits.fired().await;
        eventually(secs(10), || async { guard.renewals() > 0 || guard.check().is_err() }).await;
        assert_eq!((guard.check(), guard.state()), (Ok(()), LeaseState::Held));
        assert_eq!(guard.release().await, Ok(Released::Released));
    }
}

#[tokio::test]
async fn a_release_whose_connection_breaks_or_reply_is_lost_has_released() {
    let site = Site::new().await;
    for then in breaks() {
        let guard = site.redlock.lock("k").acquire().await.unwrap();
        let arrives = !matches!(then, Then::CutRequest);
        let hits = site.proxy.when(command(&["EVALSHA"]), then);
        let expected = if arrives { Released::Unknown } else { Released::Released };
        assert_eq!(guard.release().await, Ok(expected));
        assert_eq!(hits.count(), 1);
    }
    let guard = site.redlock.lock("k").acquire().await.unwrap();
    site.proxy.when(command(&["EVALSHA"]), Then::LoseReply);
    assert_unavailable(&guard.release().await.unwrap_err(), Kind::NoReply);
    // The body's result stands when only the answer to its release is lost.
    site.proxy.when_nth(2, command(&["EVALSHA"]), Then::LoseReply);
    assert_eq!(site.redlock.lock("other").run(async { 7 }).await, Ok(7));
    nothing_left(&site.raw, &site.prefix, NOISE).await;
}

/// The next owner is no thief, and the body was protected to its end.
#[tokio::test]
async fn a_hand_over_whose_reply_is_lost_is_not_told_as_a_theft() {
    let site = Site::new().await;
    let captured = capture();
    let other = Redlock::builder().url(Server::shared().await.url()).prefix(site.prefix.clone());
    let other = other.build().await.unwrap();
    let waits = |key: &str| {
        let request = other.lock(key).wait(LONG);
        tokio::spawn(async move { request.acquire().await.unwrap() })
    };
    let in_the_queue = async |key: &str| {
        let queue = format!("{{{}{key}}}:queue", site.prefix);
        eventually(LONG, || async { site.raw.int(&["LLEN", &queue]).await == 1 }).await;
    };
    for (number, then) in [Then::CutReply, Then::ResetReply].into_iter().enumerate() {
        let key = format!("guard-{number}");
        let guard = site.redlock.lock(&key).acquire().await.unwrap();
        let next = waits(&key);
        in_the_queue(&key).await;
        site.proxy.when(command(&["EVALSHA"]), then.clone());
        assert_eq!(guard.release().await, Ok(Released::Unknown));
        assert_eq!(next.await.unwrap().release().await, Ok(Released::Released));

        let key = format!("body-{number}");
        let mut next = None;
        let body = async {
            next = Some(waits(&key));
            in_the_queue(&key).await;
            site.proxy.when(command(&["EVALSHA"]), then);
        };
        site.redlock.lock(&key).run(body).await.unwrap();
        assert_eq!(next.unwrap().await.unwrap().release().await, Ok(Released::Released));
        let told = captured.about(&key);
        assert!(told.iter().all(|event| event.level > tracing::Level::WARN), "{told:?}");
    }
}

#[tokio::test]
async fn an_idle_connection_that_was_closed_costs_the_caller_no_attempt() {
    let site = Site::new().await;
    for reset in [false, true, false] {
        assert!(site.proxy.open_connections() > 0);
        // What cleans up behind the round before may connect meanwhile.
        let is_closed = || async {
            if reset {
                site.proxy.reset_all();
            } else {
                site.proxy.cut_all();
            }
            site.proxy.open_connections() == 0
        };
        eventually(secs(20), is_closed).await;
        let guard = site.redlock.lock("k").wait(Wait::Never).acquire().await.unwrap();
        assert_eq!(guard.release().await, Ok(Released::Released));
    }
}

#[tokio::test]
async fn clients_killed_by_the_server_connect_again() {
    let server = Server::start().await;
    let (redlock, _) = client(&server.url()).await;
    for _ in 0..10 {
        server.raw().cmd(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await;
        let guard = redlock.lock("k").wait(Wait::Never).acquire().await.unwrap();
        assert_eq!(guard.release().await, Ok(Released::Released));
    }
}

/// Three clients, each behind a wire that breaks at every third command or so, in ways that change.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_two_holders_whatever_breaks() {
    let server = Server::start().await;
    let (_, prefix) = builder(&server.url());
    let inside = Arc::new(AtomicBool::new(false));
    let entries = Arc::new(AtomicU32::new(0));
    let clients: Vec<_> = (0..3)
        .map(|n| {
            let (inside, entries, prefix) = (inside.clone(), entries.clone(), prefix.clone());
            let proxy = Proxy::start(&server);
            tokio::spawn(async move {
                let builder = Redlock::builder().url(proxy.url()).prefix(prefix).expire(secs(20));
                let redlock = builder.reply_timeout(ms(100)).lazy().build().await.unwrap();
                let faults = [Then::CutReply, Then::CutRequest, Then::ResetReply, Then::LoseReply];
                for round in 0..20 {
                    let then = faults[(round + n) % faults.len()].clone();
                    proxy.when_nth(round % 3 + 1, command(&["EVALSHA"]), then);
                    let guard = redlock.lock("k").wait(LONG).acquire().await.unwrap();
                    assert!(!inside.swap(true, Ordering::SeqCst), "two holders at once");
                    time_passes(ms(2)).await;
                    inside.store(false, Ordering::SeqCst);
                    entries.fetch_add(1, Ordering::SeqCst);
                    drop(guard);
                }
                redlock.shutdown(NOISE).await
            })
        })
        .collect();
    for client in clients {
        assert_eq!(client.await.unwrap(), 0);
    }
    assert_eq!(entries.load(Ordering::SeqCst), 60);
    nothing_left(&server.raw(), &prefix, NOISE).await;
    assert!(lock_keys(&server.raw(), &prefix).await.is_empty());
}
