//! Real servers that refuse, misbehave or are set up wrongly.

use redlock::{LockError, LostReason, NodeErrorKind as Kind, Redlock, Released, Wait};

use crate::fault_kit::{
    LONG, NOISE, assert_unavailable, builder, client, node_error, nothing_left,
};
use crate::support::{Masters, Proxy, Server, capture, eventually, ms, secs, unique_prefix};

/// The least that a user who locks needs.
const MINIMAL: &str = "-@all +eval +evalsha +script|load +set +get +mget +del +pexpire +pttl +time \
                       +ping +info";

#[tokio::test]
async fn a_wrong_password_and_none_fail_at_startup_without_showing_one() {
    let server = Server::builder().requirepass("s3cret-right").start().await;
    let wrong = format!("redis://:s3cret-wrong@{}", server.addr());
    let refused = "refused this user or password";
    for (url, advice) in [
        (wrong, refused),
        (server.url(), "redis://user:password@host"),
        (format!("{}/2", server.url()), "redis://user:password@host"),
        (server.url_for("nobody", "s3cret-wrong"), refused),
    ] {
        let error = Redlock::connect(url).await.unwrap_err();
        assert_unavailable(&error, Kind::Authentication);
        assert!(node_error(&error).node().starts_with(&server.url()));
        let text = format!("{error} {error:?}");
        assert!(!text.contains("s3cret"), "{text}");
        assert!(text.contains(advice), "{text}");
    }
    let (redlock, _) = client(&server.url_with_password()).await;
    assert_eq!(redlock.lock("k").run(async { 1 }).await, Ok(1));
}

#[tokio::test]
async fn a_lazy_client_reports_the_wrong_password_at_its_first_lock_and_does_not_retry() {
    let server = Server::builder().requirepass("right").start().await;
    let proxy = Proxy::start(&server);
    let url = proxy.url().replace("right", "wrong");
    let redlock = Redlock::builder().url(url).lazy().build().await.unwrap();
    let error = redlock.lock("k").wait(LONG).acquire().await.map(drop).unwrap_err();
    assert_unavailable(&error, Kind::Authentication);
    assert_eq!(proxy.connections(), 1);
}

#[tokio::test]
async fn an_acl_user_needs_little_and_is_told_what_is_missing() {
    let server = Server::builder()
        .acl(&format!("little on >pw resetkeys ~lock:* ~{{lock:*}}:fence {MINIMAL}"))
        .acl("noscripts on >pw ~* +@all -eval -evalsha")
        .acl("nokeys on >pw resetkeys ~other:* +@all")
        .acl("noinfo on >pw ~* +@all -info")
        .start()
        .await;
    let connect = |user: &str| Redlock::connect(server.url_for(user, "pw"));
    let little = connect("little").await.unwrap();
    let guard = little.lock("k").expire(secs(6)).acquire().await.unwrap();
    eventually(secs(15), || async { guard.renewals() > 0 }).await;
    assert_eq!(guard.release().await, Ok(Released::Released));
    for user in ["noscripts", "nokeys"] {
        let request = connect(user).await.unwrap().lock("k").wait(LONG);
        let error = request.acquire().await.map(drop).unwrap_err();
        assert_unavailable(&error, Kind::NoPermission);
        assert!(error.to_string().contains("docs/security.md"), "{error}");
    }
    let without = Server::builder().config("rename-command INFO \"\"").start().await;
    for (server, url) in [(&server, server.url_for("noinfo", "pw")), (&without, without.url())] {
        let events = capture();
        let redlock = Redlock::connect(url).await.unwrap();
        assert_eq!(redlock.lock("k").run(async { 1 }).await, Ok(1));
        let warnings = events.warnings_about(&server.addr().to_string());
        assert!(warnings.iter().any(|event| event.message.contains("+info")), "{warnings:?}");
    }
}

#[tokio::test]
async fn a_key_of_another_type_is_an_error_and_left_alone() {
    let server = Server::shared().await;
    let (redlock, prefix) = client(&server.url()).await;
    let key = format!("{prefix}k");
    server.raw().cmd(&["RPUSH", &key, "precious"]).await;
    let error = redlock.lock("k").wait(LONG).acquire().await.map(drop).unwrap_err();
    assert_unavailable(&error, Kind::WrongType);
    assert!(error.to_string().contains("`prefix`"), "{error}");
    assert_eq!(server.raw().int(&["LLEN", &key]).await, 1);
    // A lock that is replaced while it is held.
    let guard = redlock.lock("held").expire(secs(3)).acquire().await.unwrap();
    let held = format!("{prefix}held");
    server.raw().del(&held).await;
    server.raw().cmd(&["RPUSH", &held, "precious"]).await;
    assert_eq!(guard.lost().await, LostReason::Stolen);
    drop(guard);
    redlock.shutdown(NOISE).await;
    assert_eq!(server.raw().int(&["LLEN", &held]).await, 1);
}

#[tokio::test]
async fn out_of_memory_refuses_new_locks_at_once_and_keeps_old_ones() {
    let server = Server::builder().config("maxmemory-policy noeviction").start().await;
    let (redlock, prefix) = client(&server.url()).await;
    let guard = redlock.lock("held").expire(secs(6)).acquire().await.unwrap();
    let reader = redlock.lock("read").read().expire(secs(6)).acquire().await.unwrap();
    let permit = redlock.lock("pool").permits(2).expire(secs(6)).acquire().await.unwrap();
    let job = redlock.lock("job").min_hold(secs(2)).expire(secs(60)).acquire().await.unwrap();
    server.raw().cmd(&["CONFIG", "SET", "maxmemory", "1"]).await;
    assert_eq!(job.release().await, Ok(Released::Released));
    let left = server.raw().int(&["PTTL", &format!("{prefix}job")]).await;
    assert!(left <= 2_000, "it stays for {left} ms, not for a whole lease");
    let error = redlock.lock("new").wait(LONG).acquire().await.map(drop).unwrap_err();
    assert_unavailable(&error, Kind::OutOfMemory);
    assert!(error.to_string().contains("`maxmemory`"), "{error}");
    for guard in [guard, reader, permit] {
        eventually(secs(15), || async { guard.renewals() > 0 }).await;
        assert_eq!(guard.release().await, Ok(Released::Released));
    }
    nothing_left(&server.raw(), &prefix, secs(3)).await;
}

/// Those who wait stand in the queue already.
#[tokio::test]
async fn out_of_memory_hands_locks_to_those_who_wait() {
    let server = Server::builder().config("maxmemory-policy noeviction").start().await;
    let (redlock, prefix) = client(&server.url()).await;
    let other = Redlock::builder().url(server.url()).prefix(&*prefix).build().await.unwrap();
    let held = redlock.lock("held").acquire().await.unwrap();
    let shared = redlock.lock("shared").acquire().await.unwrap();
    let writer = redlock.lock("written").acquire().await.unwrap();
    let several = redlock.lock_all(["one", "two"]).acquire().await.unwrap();
    let last = redlock.lock("last").acquire().await.unwrap();
    let all = ["first", "last"];
    let waiters = [
        tokio::spawn(other.lock_all(all).expire(secs(6)).wait(LONG).acquire()),
        tokio::spawn(other.lock("held").expire(secs(6)).wait(LONG).acquire()),
        tokio::spawn(other.lock("shared").read().expire(secs(6)).wait(LONG).acquire()),
        tokio::spawn(other.lock("two").expire(secs(6)).wait(LONG).acquire()),
    ];
    for key in ["last", "held", "shared", "two"] {
        let queue = format!("{{{prefix}{key}}}:queue");
        eventually(secs(15), || async { server.raw().int(&["LLEN", &queue]).await == 1 }).await;
    }
    server.raw().cmd(&["CONFIG", "SET", "maxmemory", "1"]).await;
    for guard in [last, held, shared] {
        assert_eq!(guard.release().await, Ok(Released::Released));
    }
    assert_eq!(several.release().await, Ok(Released::Released));
    let reader = writer.downgrade().await.unwrap();
    for waiter in waiters {
        let guard = waiter.await.unwrap().unwrap();
        // Longer than the claim window: it has a lease of its own.
        eventually(secs(15), || async { guard.renewals() > 0 }).await;
        assert_eq!(guard.release().await, Ok(Released::Released));
    }
    assert_eq!(reader.release().await, Ok(Released::Released));
    nothing_left(&server.raw(), &prefix, secs(3)).await;
}

#[tokio::test]
async fn out_of_memory_keeps_no_writer_of_several_masters_from_reading_on() {
    let masters = Masters::start(3).await;
    let urls: Vec<String> = masters.iter().map(Server::url).collect();
    let builder = Redlock::builder().urls(urls).prefix(unique_prefix());
    let redlock = builder.build().await.unwrap();
    let writer = redlock.lock("k").acquire().await.unwrap();
    for master in masters.iter() {
        master.raw().cmd(&["CONFIG", "SET", "maxmemory", "1"]).await;
    }
    let reader = writer.downgrade().await.unwrap();
    reader.check().unwrap();
    assert_eq!(reader.release().await, Ok(Released::Released));
}

/// A login with RESP3 is a command that may have been taken away, and the server repeats what it
/// does not know.
#[tokio::test]
async fn a_login_that_the_server_does_not_know_shows_no_password() {
    let server = Server::builder().config("rename-command HELLO \"\"").start().await;
    let url = server.url().replace("redis://", "redis://user:hunter2@") + "?protocol=resp3";
    let error = Redlock::connect(url.as_str()).await.unwrap_err();
    let first: &dyn std::error::Error = &error;
    let sources = std::iter::successors(Some(first), |error| error.source());
    let shown: Vec<String> = sources.map(|error| format!("{error} {error:?}")).collect();
    let shown = shown.join(" ");
    assert!(shown.contains("HELLO") && !shown.contains("hunter2"), "{shown}");
}

#[tokio::test]
async fn missing_replicas_stop_everything_until_they_are_back() {
    let server = Server::start().await;
    let (redlock, prefix) = client(&server.url()).await;
    let short = redlock.lock("short").expire(secs(1)).acquire().await.unwrap();
    let long = redlock.lock("long").acquire().await.unwrap();
    let need = |n| {
        let raw = server.raw();
        async move { raw.cmd(&["CONFIG", "SET", "min-replicas-to-write", n]).await }
    };
    need("1").await;
    let script = ["EVAL", "return redis.call('SET', 'probe', '', 'PX', 1)", "0"];
    if server.raw().try_cmd(&script).await.is_ok() {
        // A server from before 7.0 may not apply it to scripts.
        short.release().await.unwrap();
        let guard = redlock.lock("new").wait(ms(300)).acquire().await.unwrap();
        assert_eq!(guard.release().await, Ok(Released::Released));
        return;
    }
    let error = redlock.lock("new").wait(ms(300)).acquire().await.map(drop).unwrap_err();
    assert_unavailable(&error, Kind::NoReplicas);
    assert!(error.to_string().contains("min-replicas-to-write"), "{error}");
    assert_eq!(short.lost().await, LostReason::Unreachable);
    assert_unavailable(&long.release().await.unwrap_err(), Kind::NoReplicas);
    let waiting = tokio::spawn(redlock.lock("new").wait(LONG).acquire());
    need("0").await;
    let guard = waiting.await.unwrap().unwrap();
    assert_eq!(guard.release().await, Ok(Released::Released));
    drop(short);
    nothing_left(&server.raw(), &prefix, NOISE).await;
}

/// They are renewed by one call.
#[tokio::test]
async fn a_key_that_is_forbidden_now_costs_its_neighbours_nothing() {
    let server = Server::builder().acl("app on >pw ~lock:* ~{lock:*}:fence &* +@all").start().await;
    let redlock = Redlock::connect(server.url_for("app", "pw")).await.unwrap();
    let expire = secs(3);
    let mut guards = Vec::new();
    for n in 0..6 {
        guards.push(redlock.lock(format!("n{n}")).expire(expire).acquire().await.unwrap());
    }
    let rights = ["ACL", "SETUSER", "app", "resetkeys", "~lock:n[0-4]*", "~{lock:n[0-4]*}:fence"];
    server.raw().cmd(&rights).await;
    let forbidden = guards.pop().unwrap();
    assert_eq!(forbidden.lost().await, LostReason::Unreachable);
    for guard in &guards {
        assert!(guard.check().is_ok() && guard.renewals() > 0, "{}", guard.key());
    }
}

#[tokio::test]
async fn a_replica_is_refused_at_startup() {
    let master = Server::start().await;
    let replica = Server::builder().replica_of(&master).start().await;
    eventually(secs(10), || async { replica.raw().info("role").await == "slave" }).await;
    let error = Redlock::connect(replica.url()).await.unwrap_err();
    assert_unavailable(&error, Kind::ReadOnly);
    assert!(error.to_string().contains("connect to the master"), "{error}");
}

#[tokio::test]
async fn a_master_that_becomes_a_replica_is_left_and_found_again() {
    let (server, other) = (Server::start().await, Server::start().await);
    let proxy = Proxy::start(&server);
    let (redlock, _) = client(&proxy.url()).await;
    drop(redlock.lock("k").acquire().await.unwrap());
    let port = other.port().to_string();
    server.raw().cmd(&["REPLICAOF", "127.0.0.1", &port]).await;
    let before = proxy.connections();
    let error = redlock.lock("new").wait(ms(300)).acquire().await.map(drop).unwrap_err();
    assert_unavailable(&error, Kind::ReadOnly);
    assert!(proxy.connections() > before, "the connection was used again");
    let waiting = tokio::spawn(redlock.lock("new").wait(LONG).acquire());
    server.raw().cmd(&["REPLICAOF", "NO", "ONE"]).await;
    assert_eq!(waiting.await.unwrap().unwrap().release().await, Ok(Released::Released));
}

#[tokio::test]
async fn a_server_that_is_loading_is_waited_for() {
    let server =
        Server::builder().config("key-load-delay 20000").config("rdbcompression no").start().await;
    let (redlock, _) = client(&server.url()).await;
    // While it loads, it answers once for each 2 MB.
    let value = "x".repeat(1 << 16);
    for n in 0..200 {
        server.raw().cmd(&["SET", &format!("data-{n}"), &value]).await;
    }
    let probe = eventually(NOISE, || async {
        let outcome = redlock.lock("probe").wait(Wait::Never).acquire().await;
        outcome.is_err_and(|error| node_error(&error).kind() == Kind::Loading)
    });
    let acquire = async {
        probe.await;
        redlock.lock("k").wait(LONG).acquire().await
    };
    let ((), guard) = tokio::join!(server.restart_keeping_data(), acquire);
    assert_eq!(guard.unwrap().release().await, Ok(Released::Released));
}

#[tokio::test]
async fn a_server_without_room_for_connections_is_waited_for() {
    let server = Server::start().await;
    let (builder, _) = builder(&server.url());
    let redlock = builder.lazy().build().await.unwrap();
    let raw = server.raw();
    raw.cmd(&["CONFIG", "SET", "maxclients", "1"]).await;
    let error = redlock.lock("k").wait(ms(300)).acquire().await.map(drop).unwrap_err();
    assert_unavailable(&error, Kind::TooManyClients);
    assert!(error.to_string().contains("raise `maxclients`"), "{error}");
    let waiting = tokio::spawn(redlock.lock("k").wait(LONG).acquire());
    raw.cmd(&["CONFIG", "SET", "maxclients", "100"]).await;
    assert_eq!(waiting.await.unwrap().unwrap().release().await, Ok(Released::Released));
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named_with_what_to_do() {
    let url = "redis://127.0.0.1:1";
    let error = Redlock::connect(url).await.unwrap_err();
    assert_unavailable(&error, Kind::Unreachable);
    let text = error.to_string();
    assert!(text.contains(url) && text.contains("redis-server"), "{text}");
    let redlock = Redlock::builder().url(url).lazy().build().await.unwrap();
    for wait in [Wait::Never, ms(200).into()] {
        let error = redlock.lock("k").wait(wait).acquire().await.map(drop).unwrap_err();
        assert_unavailable(&error, Kind::Unreachable);
        assert_eq!(error.key(), Some("k"));
    }
}

#[tokio::test]
async fn a_url_that_cannot_work_says_what_to_write() {
    for (url, advice) in [
        ("localhost:6379", "redis://"),
        ("http://localhost", "begins with `redis://`"),
        ("redis://localhost:port", "redis://user:password@host:6379/0"),
        ("", "redis://"),
        ("redis://localhost?db=2", "redis://host:6379/2"),
    ] {
        let error = Redlock::connect(url).await.unwrap_err();
        let is_config = matches!(error, LockError::Config { .. });
        assert!(is_config && error.to_string().contains(advice), "{url}: {error}");
    }
}

#[tokio::test]
async fn a_policy_that_evicts_locks_is_a_warning_with_the_fix() {
    let events = capture();
    for (policy, warns) in [
        ("allkeys-lru", true),
        ("volatile-ttl", true),
        ("volatile-random", true),
        ("noeviction", false),
    ] {
        let server = Server::builder().maxmemory_policy(policy).start().await;
        Redlock::connect(server.url()).await.unwrap();
        let warnings = events.warnings_about(&server.addr().to_string());
        assert_eq!(warnings.len(), usize::from(warns), "{policy}: {warnings:?}");
        for warning in warnings {
            assert_eq!(warning.field("policy"), Some(policy));
            assert!(warning.message.contains("maxmemory-policy noeviction"), "{warning}");
        }
    }
}

/// INFO names the program and the configuration file of the server.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_server_whose_files_have_names_of_any_bytes_is_used() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;

    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join(OsStr::from_bytes(b"redis-\xff"));
    let real = format!("/proc/{}/exe", Server::shared().await.pid());
    symlink(std::fs::read_link(real).unwrap(), &program).unwrap();
    let server = Server::builder().program(program).start().await;
    let (plain, _) = builder(&server.url());
    for builder in [plain.clone(), plain.restart_guard(true)] {
        let redlock = builder.build().await.unwrap();
        let request = redlock.lock("k").expire(secs(1)).wait(secs(20));
        request.acquire().await.unwrap().release().await.unwrap();
    }
}
