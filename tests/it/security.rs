//! The library runs as the users of docs/security.md, and as nothing less.

use redlock::{LockError, NodeErrorKind, Redlock, Released, Wait};

use crate::local_connections::MANY;
use crate::support::proxy::{Then, command};
use crate::support::{Proxy, Raw, Server, capture, eventually, ms, secs};

const DOCUMENT: &str = include_str!("../../docs/security.md");
const SCRIPTS: [&str; 3] = [
    script!("acquire.lua"),
    script!("renew.lua"),
    concat!(
        script!("quick_release.lua"),
        script!("hand_over.lua"),
        shared!("holders.lua"),
        script!("release.lua")
    ),
];
/// The words that a line of waiters needs, and a lock does not: `server_queue_denied` takes them
/// away.
const OF_LINES: [&str; 13] = [
    "~{lock:*}:queue",
    "&redlock:*",
    "+exists",
    "+setrange",
    "+lindex",
    "+llen",
    "+lpop",
    "+lrange",
    "+lrem",
    "+rpush",
    "+publish",
    "+pubsub|numsub",
    "+subscribe",
];

/// The user that stands in the document's code block of this kind, with a password.
pub fn user(block: &str) -> String {
    let (_, rest) = DOCUMENT.split_once(&format!("```{block}\n")).expect("the block is there");
    let (line, _) = rest.split_once("\n```").expect("the block ends");
    let user = line.strip_prefix("user ").expect("one user, in one line");
    assert!(!user.contains('\n'), "{user}");
    user.replace("PASSWORD", "secret")
}

/// A server that knows only this user and an administrator who needs no password.
async fn server(user: &str) -> Server {
    Server::builder().acl(user).start().await
}

fn url(server: &Server) -> String {
    server.url_for("locks", "secret")
}

/// How often a log of refused commands names what a client says about itself on connecting. Servers
/// before Redis 7.0 name the command alone.
pub(crate) fn introductions(log: &str) -> usize {
    ["\"client|set", "'\"client\"'"].iter().map(|name| log.matches(name).count()).sum()
}

/// Everything that the library does to a server: acquire, refuse, renew, release, clean up.
async fn whole_life(server: &Server) -> Result<(), LockError> {
    let redlock = Redlock::builder().url(url(server)).lazy().build().await?;
    for key in ["stock-42", "{stock}-42"] {
        let guard = redlock.lock(key).expire(secs(6)).acquire().await?;
        assert!(redlock.lock(key).try_acquire().await?.is_none());
        tokio::select! {
            () = eventually(secs(20), || async { guard.renewals() >= 1 }) => {}
            _ = guard.lost() => {}
        }
        guard.check()?;
        guard.release().await?;
    }
    Ok(())
}

#[tokio::test]
async fn the_documented_user_is_enough() {
    let captured = capture();
    let server = server(&user("acl")).await;
    whole_life(&server).await.unwrap();
    Redlock::connect(url(&server)).await.expect("and may start up");
    let refused = server.raw().cmd(&["ACL", "LOG"]).await;
    let refused: Vec<deadpool_redis::redis::Value> =
        deadpool_redis::redis::from_redis_value(refused).unwrap();
    // What a client says about itself on connecting may be refused.
    let text = format!("{refused:?}");
    assert_eq!(refused.len(), introductions(&text), "{text}");
    let warnings = captured.warnings_about(&server.addr().to_string());
    assert!(warnings.is_empty(), "{warnings:?}");
}

/// A URL with the number of a database needs one word more.
#[tokio::test]
async fn the_documented_user_of_a_database_is_enough() {
    let line = user("acl");
    let (less, enough) = (server(&line).await, server(&format!("{line} +select")).await);
    let numbered = |server: &Server| format!("{}/2", url(server));
    let error = Redlock::connect(numbered(&less)).await.unwrap_err();
    let LockError::Unavailable { nodes, .. } = &error else { panic!("{error}") };
    assert_eq!(nodes[0].kind(), NodeErrorKind::NoPermission, "{error}");
    let redlock = Redlock::connect(numbered(&enough)).await.unwrap();
    redlock.lock("stock-42").run(async {}).await.unwrap();
}

/// Readers, writers and permits of a user with the words that they need besides.
#[tokio::test]
async fn the_documented_user_of_readers_and_permits_is_enough() {
    let server = server(&user("acl-kinds")).await;
    let redlock = Redlock::connect(url(&server)).await.unwrap();
    let request = || redlock.lock("stock-42").wait(secs(20));
    let first = request().read().acquire().await.unwrap();
    let writer = tokio::spawn(request().acquire());
    let raw = server.raw();
    let queue = "{lock:stock-42}:queue";
    eventually(secs(10), || async { raw.int(&["LLEN", queue]).await == 1 }).await;
    first.release().await.unwrap();
    let reader = writer.await.unwrap().unwrap().downgrade().await.unwrap();
    reader.release().await.unwrap();
    request().permits(2).run(async {}).await.unwrap();
    let refused = format!("{:?}", raw.cmd(&["ACL", "LOG"]).await);
    assert_eq!(refused.matches("\"object\"").count(), introductions(&refused));
}

/// The restart guard and the replicas ask for what the document says, and for no more.
#[tokio::test]
async fn the_options_need_the_words_that_are_documented() {
    let captured = capture();
    let line = format!("{} +wait", user("acl"));
    let servers = [server(&line).await, server(&line).await, server(&line).await];
    let urls = servers.iter().map(url);
    let redlock = Redlock::builder().urls(urls).min_replicas(1, ms(50)).build().await.unwrap();
    let error = redlock.lock("stock-42").wait(Wait::Never).acquire().await.unwrap_err();
    assert!(error.to_string().contains("0 of 1 replicas"), "{error}");
    let redlock = Redlock::builder().urls(servers.iter().map(url)).build().await.unwrap();
    redlock.lock("stock-42").run(async {}).await.unwrap();
    for server in &servers {
        let refused = format!("{:?}", server.raw().cmd(&["ACL", "LOG"]).await);
        assert_eq!(refused.matches("\"object\"").count(), introductions(&refused));
        let mut warnings = captured.warnings_about(&server.addr().to_string());
        // These servers have no replicas.
        warnings.retain(|event| !event.message.contains("fewer replicas are connected"));
        assert!(warnings.is_empty(), "{warnings:?}");
    }

    let without = server(&user("acl")).await;
    let redlock =
        Redlock::builder().url(url(&without)).min_replicas(1, ms(50)).build().await.unwrap();
    let error = redlock.lock("stock-42").acquire().await.unwrap_err();
    let LockError::Unavailable { nodes, .. } = &error else { panic!("{error}") };
    assert_eq!(nodes[0].kind(), NodeErrorKind::NoPermission, "{error}");
    let raw = without.raw();
    eventually(secs(20), || async { raw.get("lock:stock-42").await.is_none() }).await;
}

/// With any one word less, something does not work: the line is minimal.
#[tokio::test]
async fn every_word_of_the_documented_user_is_needed() {
    let line = user("acl");
    let server = server(&line).await;
    let raw = server.raw();
    let mut tried = 0;
    let words = line.split(' ').filter(|word| word.starts_with(['+', '~', '&']));
    for word in words.filter(|word| !OF_LINES.contains(word)) {
        let less: Vec<&str> = line.split(' ').filter(|other| *other != word).collect();
        raw.cmd(&[&["ACL", "SETUSER"], &less[..1], &["reset"], &less[1..]].concat()).await;
        raw.cmd(&["SCRIPT", "FLUSH"]).await;
        raw.cmd(&["DEL", "lock:stock-42", "lock:{stock}-42"]).await;
        if word == "+info" {
            let captured = capture();
            Redlock::connect(url(&server)).await.expect("INFO is not asked for more than it tells");
            let warnings = captured.warnings_about(&server.addr().to_string());
            assert!(warnings.iter().any(|event| event.message.contains("grant +info")));
        } else {
            match whole_life(&server).await {
                Err(LockError::Unavailable { nodes, .. }) => {
                    assert_eq!(nodes[0].kind(), NodeErrorKind::NoPermission, "{word}: {nodes:?}");
                }
                Err(LockError::Lost { .. }) if word == "+pexpire" => {}
                other => panic!("not needed: {word}: {other:?}"),
            }
        }
        tried += 1;
    }
    assert_eq!(tried, 12, "two key patterns and ten commands");
}

#[tokio::test]
async fn foreign_keys_and_other_commands_are_refused() {
    for block in ["acl", "acl-strict"] {
        let server = server(&user(block)).await;
        server.raw().cmd(&["SET", "other", "1"]).await;
        let raw = Raw::new(&url(&server));
        for words in [
            &["GET", "other"][..],
            &["SET", "other", "2"],
            &["DEL", "other"],
            &["EVAL", "return redis.call('GET', 'other')", "0"],
            &["EVAL", "return redis.call('GET', KEYS[1])", "1", "other"],
            &["EVAL", "return redis.call('KEYS', '*')", "0"],
            &["KEYS", "*"],
            &["SCAN", "0"],
            &["FLUSHALL"],
            &["CONFIG", "GET", "*"],
            &["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"],
            &["SCRIPT", "LOAD", "return 1"],
            &["SCRIPT", "FLUSH"],
            &["ACL", "LIST"],
            &["MONITOR"],
            &["CLIENT", "LIST"],
            &["SUBSCRIBE", "news"],
            &["PUBLISH", "news", "x"],
            &["RENAME", "lock:a", "lock:b"],
            &["GET", "{lock:a}:other"],
            &["SHUTDOWN"],
        ] {
            let error = raw.try_cmd(words).await.expect_err("it is refused");
            let text = error.to_string();
            let refusals =
                ["NoPerm", "The user executing the script can't", "ACL failure in script"];
            assert!(
                refusals.iter().any(|refusal| text.contains(refusal)),
                "{block}: {words:?}: {text}"
            );
        }
        assert_eq!(server.raw().get("other").await.as_deref(), Some("1"));
    }
}

#[tokio::test]
async fn a_key_beside_the_prefix_is_a_typed_error() {
    let server = server(&user("acl")).await;
    let builder = Redlock::builder().url(url(&server)).prefix("other:");
    let redlock = builder.build().await.unwrap();
    let error = redlock.lock("k").acquire().await.unwrap_err();
    let LockError::Unavailable { nodes, .. } = &error else { panic!("{error:?}") };
    assert_eq!(nodes[0].kind(), NodeErrorKind::NoPermission);
    assert!(error.to_string().contains("docs/security.md"), "{error}");
}

#[tokio::test]
async fn the_strict_user_runs_the_three_scripts_once_they_are_loaded() {
    let server = server(&user("acl-strict")).await;
    let LockError::Unavailable { nodes, .. } = whole_life(&server).await.unwrap_err() else {
        panic!("not loaded, not locked");
    };
    assert_eq!(nodes[0].kind(), NodeErrorKind::NoPermission);
    for script in SCRIPTS {
        server.raw().cmd(&["SCRIPT", "LOAD", script]).await;
    }
    whole_life(&server).await.unwrap();
    let raw = Raw::new(&url(&server));
    let own = server.raw().cmd(&["SCRIPT", "LOAD", "return 1"]).await;
    let own: String = deadpool_redis::redis::from_redis_value(own).unwrap();
    for words in [&["EVAL", "return 1", "0"][..], &["EVALSHA", &own, "0"]] {
        let error = raw.try_cmd(words).await.expect_err("not one of the three");
        assert!(error.to_string().contains("NoPerm"), "{error}");
    }
}

/// Each key is released by itself then.
#[tokio::test]
async fn a_user_without_the_script_for_several_keys_releases_them() {
    let server = server(&user("acl-strict")).await;
    for script in SCRIPTS {
        server.raw().cmd(&["SCRIPT", "LOAD", script]).await;
    }
    server.raw().cmd(&["SCRIPT", "LOAD", script!("acquire_all.lua")]).await;
    let redlock = Redlock::builder().url(url(&server)).lazy().build().await.unwrap();
    // Until this runtime has a connection of its own, it does not ask for the script.
    for _ in 0..MANY {
        redlock.lock("c").run(async {}).await.unwrap();
    }
    for _ in 0..2 {
        let guard = redlock.lock_all(["a", "b"]).acquire().await.unwrap();
        assert_eq!(guard.release().await.unwrap(), Released::Released);
        assert!(server.raw().get("lock:a").await.is_none());
        assert!(server.raw().get("lock:b").await.is_none());
    }
    let refused = format!("{:?}", server.raw().cmd(&["ACL", "LOG"]).await);
    assert!(refused.contains("\"eval\""), "{refused}");
}

/// It may not send the text of a script, also where nobody could answer that a server forgot it.
#[tokio::test]
async fn the_strict_user_frees_what_an_unanswered_acquire_took() {
    let server = server(&user("acl-strict")).await;
    let proxy = Proxy::start(&server);
    for script in SCRIPTS {
        server.raw().cmd(&["SCRIPT", "LOAD", script]).await;
    }
    let url = proxy.url().replace("redis://", "redis://locks:secret@");
    let redlock = Redlock::builder().url(url).lazy().build().await.unwrap();
    redlock.lock("k").run(async {}).await.unwrap();
    proxy.when(command(&["EVALSHA"]), Then::LoseReply);
    let lost = redlock.lock("k").expire(secs(60)).wait(Wait::Never).acquire().await.map(drop);
    assert!(matches!(lost, Err(LockError::Unavailable { .. })), "{lost:?}");
    let raw = server.raw();
    eventually(secs(20), || async { raw.get("lock:k").await.is_none() }).await;
    assert_eq!(redlock.shutdown(secs(20)).await, 0);
    let refused = format!("{:?}", raw.cmd(&["ACL", "LOG"]).await);
    assert!(!refused.contains("\"eval\""), "{refused}");
}
