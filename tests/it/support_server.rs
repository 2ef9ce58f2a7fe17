//! The server harness does what its verbs say.

use std::panic::AssertUnwindSafe;

use deadpool_redis::redis::Value;

use crate::support::{Raw, Server, eventually, ms, secs, unique_prefix};

#[tokio::test]
async fn a_server_answers_and_is_gone_after_drop() {
    let server = Server::start().await;
    let raw = server.raw();
    assert_eq!(raw.cmd(&["PING"]).await, Value::SimpleString("PONG".into()));
    assert_eq!(raw.info("process_id").await, server.pid().to_string());
    let addr = server.addr();
    drop(server);
    tokio::net::TcpStream::connect(addr).await.expect_err("nothing listens any more");
}

#[tokio::test]
async fn a_panicking_test_leaves_no_server() {
    let server = Server::start().await;
    let addr = server.addr();
    let test = AssertUnwindSafe(move || {
        let _server = server;
        std::panic::resume_unwind(Box::new("a failed assertion"));
    });
    std::panic::catch_unwind(test).expect_err("it panicked");
    tokio::net::TcpStream::connect(addr).await.expect_err("nothing listens any more");
}

#[tokio::test]
async fn a_frozen_server_is_silent_and_executes_after_the_thaw() {
    let server = Server::start().await;
    let raw = server.raw();
    raw.cmd(&["PING"]).await;
    server.freeze();
    tokio::time::timeout(ms(100), raw.cmd(&["SET", "k", "late"])).await.expect_err("silence");
    server.thaw();
    eventually(secs(20), || async { server.raw().get("k").await == Some("late".into()) }).await;
}

#[tokio::test]
async fn a_frozen_server_can_be_dropped() {
    let server = Server::start().await;
    let addr = server.addr();
    server.freeze();
    drop(server);
    tokio::net::TcpStream::connect(addr).await.expect_err("nothing listens any more");
}

#[tokio::test]
async fn restarts_keep_or_lose_the_data_and_the_port() {
    let server = Server::start().await;
    let raw = server.raw();
    raw.cmd(&["SET", "k", "v"]).await;
    let first = raw.info("run_id").await;
    server.restart_keeping_data().await;
    assert_eq!(raw.get("k").await, Some("v".into()));
    assert_ne!(raw.info("run_id").await, first, "it is another process");
    server.restart_empty().await;
    assert_eq!(raw.get("k").await, None);
}

#[tokio::test]
async fn append_only_survives_a_crash() {
    let server = Server::builder().append_only("always").start().await;
    server.raw().cmd(&["SET", "k", "v"]).await;
    server.kill9();
    server.start_again().await;
    assert_eq!(server.raw().get("k").await, Some("v".into()));
}

#[tokio::test]
async fn passwords_acl_users_and_settings_arrive() {
    let server = Server::builder()
        .requirepass("hush")
        .acl("lockuser on >secret ~lock:* +@all")
        .maxmemory_policy("allkeys-lru")
        .arg("--maxclients")
        .arg("123")
        .start()
        .await;
    let stranger = Raw::new(&server.url()).try_cmd(&["PING"]).await;
    assert_eq!(stranger.expect_err("no password").code(), Some("NOAUTH"));
    let user = Raw::new(&server.url_for("lockuser", "secret"));
    user.cmd(&["SET", "lock:a", "1"]).await;
    let foreign = user.try_cmd(&["SET", "other", "1"]).await;
    assert_eq!(foreign.expect_err("another prefix").code(), Some("NOPERM"));
    assert_eq!(server.raw().info("maxmemory_policy").await, "allkeys-lru");
    assert_eq!(server.raw().info("maxclients").await, "123");
}

#[tokio::test]
async fn an_acl_file_can_be_reloaded() {
    let server = Server::builder().aclfile(&["default on nopass ~* &* +@all"]).start().await;
    server.raw().cmd(&["ACL", "SETUSER", "late", "on", ">pw", "~*", "+@all"]).await;
    server.raw().cmd(&["ACL", "SAVE"]).await;
    server.restart_empty().await;
    Raw::new(&server.url_for("late", "pw")).cmd(&["PING"]).await;
}

#[tokio::test]
async fn a_wrong_setting_is_told_with_the_servers_own_words() {
    let start = tokio::spawn(Server::builder().config("no-such-setting 1").start());
    let panic = start.await.expect_err("it cannot start").into_panic();
    let text = panic.downcast_ref::<String>().expect("a message");
    assert!(text.contains("no-such-setting"), "{text}");
}

#[tokio::test]
async fn a_replica_follows_its_master() {
    let master = Server::start().await;
    let replica = Server::builder().replica_of(&master).start().await;
    master.raw().cmd(&["SET", "k", "v"]).await;
    let seen = replica.raw();
    eventually(secs(10), || async { seen.get("k").await }).await;
}

#[tokio::test]
async fn the_shared_server_is_one_and_prefixes_are_not() {
    let (one, two) = tokio::join!(Server::shared(), Server::shared());
    assert_eq!(one.pid(), two.pid());
    assert_ne!(unique_prefix(), unique_prefix());
}

#[tokio::test]
async fn the_raw_helper_sees_keys_owners_and_expiries() {
    let raw = Server::shared().await.raw();
    let prefix = unique_prefix();
    let key = format!("{prefix}stock-1");
    assert_eq!(raw.pttl(&key).await, None);
    assert!(raw.set_foreign_lock(&key, "someone", secs(30)).await);
    assert!(!raw.set_foreign_lock(&key, "another", secs(30)).await);
    assert_eq!(raw.get(&key).await.as_deref(), Some("someone"));
    assert!(raw.pttl(&key).await.unwrap() > secs(25));
    assert_eq!(raw.keys(&format!("{prefix}*")).await, [key.as_str()]);
    assert!(raw.del(&key).await);
    assert_eq!(raw.keys(&format!("{prefix}*")).await, [""; 0]);
}

#[tokio::test]
async fn eventually_says_what_it_last_saw() {
    let poll = tokio::spawn(eventually(ms(20), || async { Err::<(), _>("three keys left") }));
    let panic = poll.await.expect_err("the condition never holds").into_panic();
    let text = panic.downcast_ref::<String>().expect("a message");
    assert!(text.contains("three keys left") && text.contains("support_server.rs"), "{text}");
}
