//! `release` where something is not as usual.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;

use fault_kit::proxy::{Then, command};
use fault_kit::{Cluster, Masters, Proxy, Server, eventually, secs, unique_prefix};

use crate::support::{SOON, ended, full_pipe, run, tool};

/// Puts something into a lock, as another program may do.
async fn hold(server: &Server, key: &str, lua_string: &str) {
    let script = format!("return redis.call('SET', KEYS[1], {lua_string}, 'PX', '600000')");
    server.raw().cmd(&["EVAL", &script, "1", &format!("lock:{key}")]).await;
}

#[tokio::test]
async fn an_owner_that_is_no_text() {
    let server = Server::shared().await;
    let (raw, key) = (server.raw(), unique_prefix());
    hold(server, &key, "'a\\255b'").await;
    let shown = run(server, &["show", &key]).await;
    assert!(shown.code == 0 && shown.stdout.contains("a\u{fffd}b"), "{shown:?}");
    let release = ["release", "--force", "-y", &key, "--owner"];
    for (owner, code) in [(&b"a\xfeb"[..], 1), ("a\u{fffd}b".as_bytes(), 1), (b"a\xffb", 0)] {
        let mut command = tool(&server.url(), &release);
        let ended = ended(command.arg(OsStr::from_bytes(owner)).spawn().unwrap()).await;
        assert_eq!(ended.code, code, "{ended:?}");
        let is_left = raw.int(&["EXISTS", &format!("lock:{key}")]).await == 1;
        assert_eq!(is_left, code == 1, "{ended:?}");
    }
    hold(server, &key, "'a\\255b'").await;
    let released = run(server, &["release", "--force", "-y", &key]).await;
    assert_eq!(released.code, 0, "{released:?}");
    assert!(released.stdout.contains("taken from a\u{fffd}b, and is free"), "{released:?}");
    assert_eq!(raw.int(&["EXISTS", &format!("lock:{key}")]).await, 0);
}

/// What stands beside a lock does not keep it from being seen and released.
#[tokio::test]
async fn a_counter_that_is_no_number() {
    let server = Server::shared().await;
    let (raw, key) = (server.raw(), unique_prefix());
    hold(server, &key, "'x'").await;
    let script = "return redis.call('SET', KEYS[1], 'a\\255b')";
    raw.cmd(&["EVAL", script, "1", &format!("{{lock:{key}}}:fence")]).await;
    let shown = run(server, &["show", &key]).await;
    assert!(shown.code == 0 && !shown.stdout.contains("fencing token"), "{shown:?}");
    let released = run(server, &["release", "--force", "-y", &key]).await;
    assert_eq!(released.code, 0, "{released:?}");
}

#[tokio::test]
async fn a_queue_that_is_no_list() {
    let server = Server::shared().await;
    let key = unique_prefix();
    hold(server, &key, "'web-3:x'").await;
    server.raw().cmd(&["SET", &format!("{{lock:{key}}}:queue"), "x"]).await;
    for args in [["show", &key], ["ls", &key]] {
        let seen = run(server, &args).await;
        assert!(seen.code == 0 && seen.stdout.contains("web-3"), "{args:?}: {seen:?}");
    }
}

/// A lock that three readers have.
async fn share(server: &Server, key: &str) {
    let script = "local now = redis.call('TIME')
        local lease_end = string.format('%.0f', (now[1] + 600) * 1000000)
        redis.call('SET', KEYS[1], '<readers>', 'PX', '600000')
        for owner in string.gmatch('abc', '.') do
            redis.call('ZADD', KEYS[2], lease_end, 'reader-' .. owner)
        end";
    let (lock, holders) = (format!("lock:{key}"), format!("{{lock:{key}}}:holders"));
    server.raw().cmd(&["EVAL", script, "2", &lock, &holders]).await;
}

/// Here the server ends while the first line waits for its reader.
#[tokio::test]
async fn an_error_after_the_first_of_several_owners() {
    let server = Server::start().await;
    share(&server, "k").await;
    let (mut reader, writer) = full_pipe();
    let mut command = tool(&server.url(), &["release", "--force", "-y", "k"]);
    let child = command.stdout(writer).spawn().unwrap();
    drop(command);
    let (raw, holders) = (server.raw(), "{lock:k}:holders");
    eventually(SOON, || async { raw.int(&["ZCARD", holders]).await == 2 }).await;
    server.kill9();
    let mut stdout = String::new();
    reader.read_to_string(&mut stdout).unwrap();
    let ended = ended(child).await;
    assert_eq!(ended.code, 69, "{ended:?}");
    let stdout = stdout.trim_start_matches('.');
    assert_eq!(stdout, "lock k was taken from reader-a; others have it still: 2\n");
    for told in [
        "it is not confirmed that lock `k` was taken from reader-b: redis://",
        "reader-c was left alone, and may have lock `k` still",
        "the holder learns of it at its next renewal",
    ] {
        assert!(ended.stderr.contains(told), "{told}: {ended:?}");
    }
}

/// `redlock release .. | head -1` takes the lock from all, too.
#[tokio::test]
async fn nobody_reads_from_whom_a_lock_was_taken() {
    let server = Server::shared().await;
    let key = unique_prefix();
    share(server, &key).await;
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = tool(&server.url(), &["release", "--force", "-y", &key]);
    let ended = ended(command.stdout(writer).spawn().unwrap()).await;
    assert_eq!(ended.code, 141, "{ended:?}");
    assert_eq!(server.raw().int(&["EXISTS", &format!("lock:{key}")]).await, 0, "{ended:?}");
}

/// The last of them may have let go while the lock was looked at.
#[tokio::test]
async fn a_group_of_which_nobody_is_left() {
    let server = Server::builder()
        .acl("blind on >secret ~lock:* -@all +get +pttl +lrange +zrange +eval")
        .start()
        .await;
    hold(&server, "k", "'<readers>'").await;
    let release = ["release", "--force", "-y", "k"];
    let released = run(&server, &release).await;
    assert_eq!(released.code, 1, "{released:?}");
    assert!(released.stderr.contains("nobody who shares it is seen"), "{released:?}");
    assert!(!released.stderr.contains("+zrange"), "{released:?}");
    let url = server.url_for("blind", "secret");
    let blind = ended(tool(&url, &release).spawn().unwrap()).await;
    assert!(blind.code == 69 && blind.stderr.contains("grant +zrange"), "{blind:?}");
}

/// Another program has taken the expiry of the lock away. The leases of those who share it are
/// still in its record.
#[tokio::test]
async fn a_group_without_an_expiry() {
    let server = Server::shared().await;
    let (raw, key) = (server.raw(), unique_prefix());
    let lock = format!("lock:{key}");
    share(server, &key).await;
    raw.cmd(&["PERSIST", &lock]).await;
    let shown = run(server, &["show", &key]).await;
    assert!(shown.code == 0 && shown.stdout.contains("reader-a"), "{shown:?}");
    assert!(shown.stdout.contains("no expiry"), "{shown:?}");
    let released = run(server, &["release", "--force", "-y", &key]).await;
    assert_eq!(released.code, 0, "{released:?}");
    assert_eq!(released.stdout.lines().count(), 3, "{released:?}");
    assert_eq!(raw.int(&["EXISTS", &lock]).await, 0, "{released:?}");
}

/// A second release would find that nobody has the lock any more.
#[tokio::test]
async fn a_release_in_a_cluster_whose_answer_is_lost() {
    let (cluster, proxies) = Cluster::start_behind_proxies(secs(30), &[]).await;
    let raw = cluster.raw();
    raw.cmd(&["SET", "lock:k", "web-3:x", "PX", "600000"]).await;
    let master = cluster.master_of("lock:k").await.port();
    let at = cluster.nodes().iter().position(|node| node.port() == master).unwrap();
    proxies[at].when(command(&["EVAL"]), Then::CutReply);
    let urls: Vec<String> = proxies.iter().map(Proxy::url).collect();
    let args = ["--cluster", "release", "--force", "-y", "k"];
    let released = ended(tool(&urls.join(","), &args).spawn().unwrap()).await;
    assert_eq!(released.code, 69, "{released:?}");
    let told = "it is not confirmed that lock `k` was taken from web-3:x";
    assert!(released.stderr.contains(told), "{released:?}");
    assert_eq!(proxies.iter().map(|proxy| proxy.count("EVAL")).sum::<usize>(), 1);
    assert_eq!(raw.get("lock:k").await, None, "it was taken away");
}

/// It hears of no renewal and of no new lock: there each lock seems free in the end.
#[tokio::test]
async fn a_replica_that_has_lost_its_master_says_nothing_of_locks() {
    let (master, key) = (Server::start().await, unique_prefix());
    let replica = Server::builder().replica_of(&master).start().await;
    let shows = async || run(&replica, &["show", &key]).await;
    hold(&master, &key, "'web-3:x'").await;
    eventually(SOON, || async { shows().await.code == 0 }).await;
    master.kill9();
    let raw = replica.raw();
    eventually(SOON, || async { raw.info("master_link_status").await == "down" }).await;
    for args in [&["show"][..], &["ls"], &["release", "--force", "--yes"]] {
        let key = (args != ["ls"]).then_some(key.as_str());
        let refused = run(&replica, &[args, key.as_slice()].concat()).await;
        assert_eq!(refused.code, 69, "{args:?}: {refused:?}");
        assert!(refused.stderr.contains("a replica that has lost its master"), "{refused:?}");
    }
}

/// Any answer but yes leaves the lock alone, and so does none.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_person_is_asked_first() {
    use crate::support::Marks;
    use crate::terminal::Terminal;

    let server = Server::shared().await;
    let (marks, key) = (Marks::new(), unique_prefix());
    hold(server, &key, "'web-3:x'").await;
    let script = "\"$0\" release --force \"$1\"; echo code $?";
    let words = ["sh", "-c", script, env!("CARGO_BIN_EXE_redlock"), &key];
    for (answer, code) in [("\n", 1), ("\x04", 1), ("no\n", 1), ("yesterday\n", 1), ("Yes\n", 0)] {
        let mut terminal = Terminal::start(server, &marks, &words);
        terminal.shows("Take the lock away? [y/N]").await;
        terminal.press(answer.as_bytes());
        terminal.shows(&format!("code {code}")).await;
        let told = if code == 1 { "was left alone" } else { "was taken from web-3:x" };
        assert!(terminal.screen().contains(told), "{answer:?}: {}", terminal.screen());
        let is_left = server.raw().get(&format!("lock:{key}")).await.is_some();
        assert_eq!(is_left, code == 1, "{answer:?}");
    }
    hold(server, &key, "'web-3:x'").await;
    let mut terminal = Terminal::start(server, &marks, &words);
    terminal.shows("Take the lock away? [y/N]").await;
    server.raw().del(&format!("lock:{key}")).await;
    terminal.press(b"y\n");
    terminal.shows("code 1").await;
    let told = format!("web-3:x had let go of lock `{key}`, which was left alone");
    assert!(terminal.screen().contains(&told), "{}", terminal.screen());
}

/// A renewal that comes while only some of the servers have released a lock takes it back there.
/// Another process may have it as well.
#[tokio::test]
async fn a_lock_that_is_held_again_before_all_have_released_it() {
    for (next, code) in [("web-3:x", 69), ("web-4:y", 0)] {
        let masters = Masters::start(3).await;
        for master in masters.iter() {
            hold(master, "k", "'web-3:x'").await;
        }
        masters[2].freeze();
        let urls = masters.urls().join(",");
        let release = tool(&urls, &["release", "--force", "-y", "k"]).spawn().unwrap();
        for master in &masters[..2] {
            let raw = master.raw();
            eventually(SOON, || async { raw.get("lock:k").await.is_none() }).await;
            hold(master, "k", &format!("'{next}'")).await;
        }
        masters[2].thaw();
        let released = ended(release).await;
        assert_eq!(released.code, code, "{next}: {released:?}");
        let is_told = released.stderr.contains("renewed it meanwhile, and has it still");
        assert_eq!(is_told, code == 69, "{next}: {released:?}");
    }
}

/// Its vote makes no majority. It is told, and so is a lock that one of the others did not have.
#[tokio::test]
async fn a_server_that_releases_nothing() {
    let masters = Masters::start(3).await;
    for master in [&masters[0], &masters[2]] {
        hold(master, "k", "'web-3:x'").await;
    }
    masters[2].raw().cmd(&["ACL", "SETUSER", "default", "-eval"]).await;
    let release = ["release", "--force", "-y", "k"];
    let released = ended(tool(&masters.urls().join(","), &release).spawn().unwrap()).await;
    assert_eq!(released.code, 0, "{released:?}");
    assert!(released.stdout.ends_with("was taken from web-3:x, and is free\n"), "{released:?}");
    let told = format!("redlock: {}: ", masters[2].url());
    assert!(released.stderr.starts_with(&told), "{released:?}");
    assert_eq!(masters[0].raw().get("lock:k").await, None);
}
