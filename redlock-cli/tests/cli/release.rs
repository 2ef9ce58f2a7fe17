//! `release` where something is not as usual.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use fault_kit::{Server, unique_prefix};

use crate::support::{ended, run, tool};

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
