//! `ls`, `show`, `watch`, `top` and `release`.

use std::io::Write;
use std::net::TcpListener;

use fault_kit::{Server, eventually, unique_prefix, within};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::ChildStdout;

use crate::support::{Marks, SOON, ended, run, start, tool};

const HOLD: &str = "echo $REDLOCK_OWNER >first; until [ -e go ]; do sleep 0.02; done";
const NEXT: &str = "echo $REDLOCK_OWNER >second; until [ -e go ]; do sleep 0.02; done";

pub fn json(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

#[tokio::test]
async fn ls_lists_locks_and_nothing_else() {
    let server = Server::start().await;
    let marks = Marks::new();
    let empty = run(&server, &["ls"]).await;
    assert_eq!((empty.code, empty.stdout.as_str()), (0, ""));
    let mut holders = Vec::new();
    for (key, mark) in [("stock-42", "a"), ("{stock}-42", "b"), ("nightly", "c")] {
        let script = format!("echo on >{mark}; until [ -e go ]; do sleep 0.02; done");
        holders.push(start(&server, &marks, &["-k", key, "sh", "-c", &script]));
        marks.there(mark).await;
    }
    let waiting = start(&server, &marks, &["-w", "forever", "-k", "{stock}-42", "true"]);
    let raw = server.raw();
    eventually(SOON, || async { raw.int(&["LLEN", "lock:{stock}-42::queue"]).await == 1 }).await;
    // What stands beside locks.
    raw.cmd(&["SET", "lock:nodes:fence", "x"]).await;
    raw.cmd(&["RPUSH", "lock:mailbox:0123456789abcdef0123456789abcdef", "x"]).await;
    raw.cmd(&["RPUSH", "lock:a-list", "x"]).await;
    raw.cmd(&["SET", "other", "x"]).await;

    let table = run(&server, &["ls"]).await;
    let lines: Vec<&str> = table.stdout.lines().collect();
    assert_eq!(lines.len(), 4, "{}", table.stdout);
    assert!(lines[0].starts_with("KEY") && lines[0].contains("WAITING"), "{}", table.stdout);
    for (line, key) in lines[1..].iter().zip(["nightly", "stock-42", "{stock}-42"]) {
        assert!(line.starts_with(&format!("{key} ")), "{}", table.stdout);
    }
    assert!(!table.stdout.contains('\x1b'), "colours are for terminals");
    let json_lines = run(&server, &["ls", "*stock*", "--json"]).await;
    let locks: Vec<Value> = json_lines.stdout.lines().map(json).collect();
    assert_eq!(locks.len(), 2, "{json_lines:?}");
    let tagged = locks.iter().find(|lock| lock["key"] == "{stock}-42").unwrap();
    assert_eq!(tagged["redis_key"], "lock:{stock}-42");
    assert_eq!(tagged["waiting"], 1);
    assert_eq!(tagged["is_held"], true);
    assert!(tagged["left_ms"].as_u64().unwrap() <= 30_000);
    raw.cmd(&["SET", "lock:dump", &"x".repeat(100_000)]).await;
    let dump = run(&server, &["ls", "dump", "--json"]).await;
    let owner = json(&dump.stdout)["owner"].as_str().unwrap().len();
    assert_eq!((owner, dump.stdout.len() < 20_000), (4096, true));
    let other = run(&server, &["ls", "--prefix", "shop:"]).await;
    assert_eq!((other.code, other.stdout.as_str()), (0, ""));

    marks.make("go");
    for child in holders.into_iter().chain([waiting]) {
        assert_eq!(ended(child).await.code, 0);
    }
}

/// More of them than one step finds.
#[tokio::test]
async fn ls_lists_thousands_of_locks() {
    let server = Server::start().await;
    let script = "for n = 1, 2000 do redis.call('SET', KEYS[1] .. n, 'web-3:x', 'PX', 60000) end";
    server.raw().cmd(&["EVAL", script, "1", "lock:"]).await;
    let listed = run(&server, &["ls", "--json"]).await;
    assert_eq!((listed.code, listed.stdout.lines().count()), (0, 2_000));
}

#[tokio::test]
async fn a_prefix_is_no_pattern() {
    let server = Server::shared().await;
    let prefix = format!("{}[a]*:", unique_prefix());
    server.raw().cmd(&["SET", &format!("{prefix}k"), "web-3:x", "PX", "60000"]).await;
    let listed = run(server, &["--prefix", &prefix, "ls", "--json"]).await;
    assert_eq!(json(&listed.stdout)["key"], "k", "{listed:?}");
}

/// It may be handed the lock while its entry is still in the queue.
#[tokio::test]
async fn who_has_the_lock_does_not_wait_for_it() {
    let server = Server::shared().await;
    let (raw, key) = (server.raw(), unique_prefix());
    raw.cmd(&["SET", &format!("lock:{key}"), "web-3:x", "PX", "60000"]).await;
    for owner in ["web-3:x", "web-4:y"] {
        let entry = format!("1000 2000 1 - {owner}");
        raw.cmd(&["RPUSH", &format!("{{lock:{key}}}:queue"), &entry]).await;
    }
    let shown = json(&run(server, &["show", &key, "--json"]).await.stdout);
    let queue = shown["queue"].as_array().unwrap();
    assert_eq!((queue.len(), &queue[0]["owner"]), (1, &"web-4:y".into()), "{shown}");
}

#[tokio::test]
async fn show_names_the_holder_and_those_who_wait_in_their_order() {
    let server = Server::shared().await;
    let (marks, key) = (Marks::new(), unique_prefix());
    let free = run(server, &["show", &key]).await;
    assert_eq!(free.code, 1);
    assert!(free.stdout.contains("free"), "{free:?}");
    let holder = start(server, &marks, &["-k", &key, "sh", "-c", HOLD]);
    let owner = marks.there("first").await;
    let mut waiting = Vec::new();
    let (raw, queue) = (server.raw(), format!("{{lock:{key}}}:queue"));
    for (name, place) in [("alice", 1), ("bob", 2)] {
        let args = ["--client-name", name, "-w", "forever", "-k", &key, "true"];
        waiting.push(start(server, &marks, &args));
        eventually(SOON, || async { raw.int(&["LLEN", &queue]).await == place }).await;
    }
    let shown = run(server, &["show", &key, "--json"]).await;
    assert_eq!(shown.code, 0);
    let lock = json(&shown.stdout);
    assert_eq!(lock["owner"], owner.as_str());
    assert_eq!([&lock["queue"][0]["client"], &lock["queue"][1]["client"]], ["alice", "bob"]);
    assert!(lock["last_fencing_token"].as_u64().unwrap() > 0);
    let text = run(server, &["show", &key]).await.stdout;
    assert!(text.contains(&owner) && text.contains("2  bob:"), "{text}");
    marks.make("go");
    for child in waiting.into_iter().chain([holder]) {
        assert_eq!(ended(child).await.code, 0);
    }
}

#[tokio::test]
async fn release_hands_the_lock_to_the_next_and_the_holder_loses_it() {
    let server = Server::shared().await;
    let (marks, key) = (Marks::new(), unique_prefix());
    let args = ["--expire", "12s", "-k", &key, "sh", "-c", HOLD];
    let holder = start(server, &marks, &args);
    let owner = marks.there("first").await;
    let next = start(server, &marks, &["-w", "forever", "-k", &key, "sh", "-c", NEXT]);
    let (raw, queue) = (server.raw(), format!("{{lock:{key}}}:queue"));
    eventually(SOON, || async { raw.int(&["LLEN", &queue]).await == 1 }).await;

    let unforced = run(server, &["release", &key]).await;
    assert_eq!(unforced.code, 64);
    assert!(unforced.stderr.contains("--force"), "{unforced:?}");
    let unasked = run(server, &["release", "--force", &key]).await;
    assert_eq!(unasked.code, 64);
    assert!(unasked.stderr.contains("--yes") && unasked.stderr.contains(&owner), "{unasked:?}");
    let other = ["release", "--force", "--yes", "--owner", "somebody", &key];
    let other = run(server, &other).await;
    assert_eq!(other.code, 1, "{other:?}");
    assert_eq!(raw.get(&format!("lock:{key}")).await, Some(owner.clone()));

    let released = run(server, &["release", "--force", "--yes", &key]).await;
    assert_eq!(released.code, 0, "{released:?}");
    assert!(released.stdout.contains("given to the next"), "{released:?}");
    let second = marks.there("second").await;
    assert_ne!(second, owner);
    assert_eq!(ended(holder).await.code, 76);
    marks.make("go");
    assert_eq!(ended(next).await.code, 0);
    let free = run(server, &["release", "--force", "--yes", &key]).await;
    assert_eq!(free.code, 1);
    assert!(free.stdout.contains("is free"), "{free:?}");
}

/// What has happened, and who has the lock.
pub async fn next_event(lines: &mut Lines<BufReader<ChildStdout>>) -> (String, Value) {
    let line = within(SOON, lines.next_line()).await.unwrap().unwrap();
    let event = json(&line);
    let mut name = event["event"].as_str().unwrap().to_owned();
    if name == "waiting" {
        name = format!("waiting: {}", event["waiting"]);
    }
    (name, event["owner"].clone())
}

#[tokio::test]
async fn watch_tells_each_change() {
    let server = Server::shared().await;
    let (marks, key) = (Marks::new(), unique_prefix());
    let args = ["watch", &key, "--json", "--interval", "20ms"];
    let mut watch = tool(&server.url(), &args).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut next = async |name: &str, owner: &Value| {
        assert_eq!(next_event(&mut lines).await, (name.to_owned(), owner.clone()));
    };
    next("free", &Value::Null).await;
    let holder = start(server, &marks, &["-k", &key, "sh", "-c", HOLD]);
    let first = Value::from(marks.there("first").await);
    next("taken", &first).await;
    let script = NEXT.replace("-e go", "-e on");
    let waiting = start(server, &marks, &["-w", "forever", "-k", &key, "sh", "-c", &script]);
    next("waiting: 1", &first).await;
    marks.make("go");
    let second = Value::from(marks.there("second").await);
    next("handed over", &second).await;
    // From here on the watch knows the whole lease of the second holder, not only the time in which
    // it had to claim it.
    let (raw, queue) = (server.raw(), format!("{{lock:{key}}}:queue"));
    raw.cmd(&["RPUSH", &queue, "1000 2000 1 - a:b"]).await;
    next("waiting: 1", &second).await;
    raw.cmd(&["DEL", &queue]).await;
    next("waiting: 0", &second).await;
    marks.make("on");
    next("released", &second).await;
    assert_eq!(ended(holder).await.code + ended(waiting).await.code, 0);
    let foreign = Value::from("x");
    assert!(raw.set_foreign_lock(&format!("lock:{key}"), "x", fault_kit::secs(8)).await);
    next("taken", &foreign).await;
    next("expired", &foreign).await;
    watch.kill().await.unwrap();
}

/// As in `redlock watch stock-42 | head -1`, while nothing happens to the lock.
#[tokio::test]
async fn watch_ends_when_its_reader_has_gone() {
    let server = Server::shared().await;
    let mut watch = tool(&server.url(), &["watch", &unique_prefix()]).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let line = within(SOON, lines.next_line()).await.unwrap().unwrap();
    assert!(line.contains("free"), "{line}");
    drop(lines);
    let ended = ended(watch).await;
    assert_eq!((ended.code, ended.stderr.as_str()), (141, ""));
}

/// An outage is told once, and its end.
#[tokio::test]
async fn watch_goes_on_after_an_outage() {
    let server = Server::start().await;
    let args = ["watch", "k", "--json", "--interval", "20ms"];
    let mut watch = tool(&server.url(), &args).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut stderr = BufReader::new(watch.stderr.take().unwrap()).lines();
    let mut said = async || within(SOON, stderr.next_line()).await.unwrap().unwrap();
    assert_eq!(next_event(&mut lines).await.0, "free");
    server.kill9();
    let outage = said().await;
    assert!(outage.contains(&server.url()), "{outage}");
    server.start_again().await;
    let end = said().await;
    assert!(end.contains("the servers answer again, after"), "{end}");
    assert!(server.raw().set_foreign_lock("lock:k", "web-3:x", SOON).await);
    assert_eq!(next_event(&mut lines).await, ("taken".to_owned(), "web-3:x".into()));
    watch.kill().await.unwrap();
}

/// As it stands in Redis, from which it was copied.
#[tokio::test]
async fn a_key_with_its_prefix_is_taken_as_it_is_with_advice() {
    let server = Server::shared().await;
    let (raw, key) = (server.raw(), unique_prefix());
    let copied = format!("lock:{key}");
    assert!(raw.set_foreign_lock(&copied, "web-3:x", SOON * 10).await);
    for (args, code) in [
        (&["show", &copied][..], 1),
        (&["release", "--force", "-y", &copied], 1),
        (&["ls", &copied], 0),
        (&["run", "-k", &copied, "true"], 0),
    ] {
        let ended = run(server, args).await;
        assert_eq!(ended.code, code, "{args:?}: {ended:?}");
        assert!(ended.stderr.ends_with(&format!("write `{key}`\n")), "{args:?}: {ended:?}");
    }
    assert_eq!(raw.get(&copied).await.as_deref(), Some("web-3:x"));
    let bare = run(server, &["show", &key]).await;
    assert_eq!((bare.code, bare.stderr.as_str()), (0, ""));
    // A lock can be called so.
    assert!(raw.set_foreign_lock(&format!("lock:{copied}"), "web-3:x", SOON * 10).await);
    let held = run(server, &["show", &copied]).await;
    assert_eq!((held.code, held.stderr.as_str()), (0, ""));
}

#[tokio::test]
async fn a_key_without_an_expiry_has_no_end() {
    let server = Server::shared().await;
    let key = unique_prefix();
    server.raw().cmd(&["SET", &format!("lock:{key}"), "me"]).await;
    let shown = run(server, &["show", &key]).await;
    let told = "time left      no end; this is no lock of redlock, and stays until it is deleted";
    assert!(shown.code == 0 && shown.stdout.contains(told), "{shown:?}");
}

#[tokio::test]
async fn top_wants_a_terminal() {
    let server = Server::shared().await;
    let top = run(server, &["top"]).await;
    assert_eq!(top.code, 64);
    assert!(top.stderr.contains("needs a terminal"), "{top:?}");
}

#[tokio::test]
async fn a_server_that_is_away_is_no_lock_that_is_free() {
    for command in [&["ls"][..], &["show", "k"], &["watch", "k"], &["release", "--force", "k"]] {
        let ended = ended(tool("redis://127.0.0.1:1", command).spawn().unwrap()).await;
        assert_eq!(ended.code, 69, "{command:?}: {ended:?}");
        assert!(ended.stderr.contains("redis://127.0.0.1:1: Connection refused"), "{ended:?}");
    }
}

/// What there is on a command line against the commonest error.
#[tokio::test]
async fn a_server_without_tls_is_told_as_such() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("rediss://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let mut sockets = Vec::new();
        for socket in listener.incoming() {
            sockets.push(socket.unwrap());
            sockets.last_mut().unwrap().write_all(b"-ERR no TLS\r\n").unwrap();
        }
    });
    for command in [&["ls"][..], &["show", "k"], &["watch", "k"], &["release", "--force", "k"]] {
        let ended = ended(tool(&url, command).spawn().unwrap()).await;
        let is_told = ended.stderr.contains("REDLOCK_TLS_CA names a private CA");
        assert!(ended.code == 69 && is_told, "{command:?}: {ended:?}");
        assert!(!ended.stderr.contains("`Tls`"), "{ended:?}");
    }
}

/// One key of others below the prefix hides none of those.
#[tokio::test]
async fn a_user_of_some_keys_sees_their_locks() {
    let user = "ops on >secret ~lock:a* &* +@all";
    let server = Server::builder().acl(user).start().await;
    for key in ["lock:a1", "lock:zzz"] {
        server.raw().cmd(&["SET", key, "somebody", "PX", "60000"]).await;
    }
    let url = server.url_for("ops", "secret");
    let list = async |pattern: &str| ended(tool(&url, &["ls", pattern]).spawn().unwrap()).await;
    let seen = list("*").await;
    assert!(seen.code == 0 && seen.stdout.contains("a1"), "{seen:?}");
    assert!(!seen.stdout.contains("zzz"), "{seen:?}");
    let said = seen.stderr.contains("keys left out, as this user may not read them: 1");
    assert!(said && list("a*").await.stderr.is_empty(), "{seen:?}");
    let refused = list("z*").await;
    assert!(refused.code == 69 && refused.stderr.contains("NOPERM"), "{refused:?}");
}

/// Another program may have put anything there, as large as the server allows.
#[tokio::test]
async fn no_more_is_read_of_a_value_than_an_owner_may_have() {
    let server = Server::start().await;
    let raw = server.raw();
    for (key, value) in [("lock:dump", &*"x".repeat(100_000)), ("lock:empty", "")] {
        raw.cmd(&["SET", key, value]).await;
    }
    raw.cmd(&["RPUSH", "lock:list", "x"]).await;
    let shown = run(&server, &["show", "dump", "--json"]).await;
    let owner = json(&shown.stdout)["owner"].as_str().map(str::len);
    assert_eq!((shown.code, owner), (0, Some(4096)));
    let shown = run(&server, &["show", "empty", "--json"]).await;
    assert_eq!((shown.code, &json(&shown.stdout)["owner"]), (0, &"".into()), "{shown:?}");
    let shown = run(&server, &["show", "list"]).await;
    assert!(shown.code == 69 && shown.stderr.contains("WRONGTYPE"), "{shown:?}");
    let refused = run(&server, &["release", "--force", "-y", "dump"]).await;
    assert!(refused.code == 1 && refused.stderr.contains("4096 bytes or more"), "{refused:?}");
    assert_eq!(raw.int(&["STRLEN", "lock:dump"]).await, 100_000);
    let released = run(&server, &["release", "--force", "-y", "empty"]).await;
    assert_eq!((released.code, raw.get("lock:empty").await), (0, None), "{released:?}");
    // As the user of a service, without +getrange.
    raw.cmd(&["ACL", "SETUSER", "default", "-getrange"]).await;
    raw.cmd(&["SET", "lock:k", "somebody", "PX", "60000"]).await;
    let shown = run(&server, &["show", "k"]).await;
    assert!(shown.code == 0 && shown.stdout.contains("somebody"), "{shown:?}");
}

/// The user of docs/security.md that may look, and nothing else.
#[tokio::test]
async fn a_viewer_sees_locks_and_takes_none_away() {
    let document = include_str!("../../../docs/security.md");
    let (_, rest) = document.split_once("```acl-viewer\nuser ").unwrap();
    let is_old = Server::shared().await.raw().major_version().await < 7;
    let user = rest.replacen("%R~", if is_old { "~" } else { "%R~" }, 4);
    let user = user.lines().next().unwrap().replace("PASSWORD", "secret");
    let server = Server::builder().acl(&user).start().await;
    let (marks, url) = (Marks::new(), server.url_for("viewer", "secret"));
    let holder = start(&server, &marks, &["-k", "k", "sh", "-c", HOLD]);
    let owner = marks.there("first").await;
    let script = HOLD.replace("first", "second");
    let reader = start(&server, &marks, &["--read", "-k", "r", "sh", "-c", &script]);
    let shared = marks.there("second").await;
    for (command, owner) in [
        (&["ls", "--json"][..], &owner),
        (&["ls", "--json"], &shared),
        (&["show", "k"], &owner),
        (&["show", "r"], &shared),
    ] {
        let seen = ended(tool(&url, command).spawn().unwrap()).await;
        assert!(seen.code == 0 && seen.stdout.contains(owner), "{seen:?}");
    }
    let refused = ended(tool(&url, &["release", "--force", "-y", "k"]).spawn().unwrap()).await;
    assert!(refused.code == 69 && refused.stderr.contains("NOPERM"), "{refused:?}");
    assert_eq!(server.raw().get("lock:k").await, Some(owner));
    marks.make("go");
    assert_eq!(ended(holder).await.code + ended(reader).await.code, 0);
}
