//! `ls`, `show`, `watch` and `release` of locks that several share, and of locks that nobody holds.

use fault_kit::{Masters, Server, eventually, unique_prefix, within};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Child;

use crate::operators::{json, next_event};
use crate::support::{Marks, SOON, ended, run, start, start_at, tool};

/// Runs until there is a file `go`, and leaves its owner value in a file.
fn until_go(mark: &str) -> String {
    format!("echo $REDLOCK_OWNER >{mark}; until [ -e go ]; do sleep 0.02; done")
}

/// Starts commands with these options, one after another. With their owner values.
async fn holders(
    server: &Server,
    marks: &Marks,
    options: &[&str],
    names: &[&str],
) -> (Vec<Child>, Vec<String>) {
    let (mut children, mut owners) = (Vec::new(), Vec::new());
    for name in names {
        let script = until_go(name);
        let args = [options, &["--client-name", name, "sh", "-c", &script]].concat();
        children.push(start(server, marks, &args));
        owners.push(marks.there(name).await);
    }
    (children, owners)
}

fn values(holders: &Value) -> Vec<String> {
    let holders = holders.as_array().unwrap().iter();
    holders.map(|holder| holder["owner"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn readers_are_shown_each_with_its_lease() {
    let server = Server::shared().await;
    let (marks, key) = (Marks::new(), unique_prefix());
    let read = ["--read", "-k", &key];
    let (mut children, mut owners) = holders(server, &marks, &read, &["alice"]).await;
    let short = [&read[..], &["--expire", "20s"]].concat();
    let (more, others) = holders(server, &marks, &short, &["bob"]).await;
    children.extend(more);
    owners.extend(others);
    let writer = start(server, &marks, &["-w", "forever", "-k", &key, "true"]);
    let (raw, queue) = (server.raw(), format!("{{lock:{key}}}:queue"));
    eventually(SOON, || async { raw.int(&["LLEN", &queue]).await == 1 }).await;
    let reader = start(server, &marks, &["-w", "forever", "--read", "-k", &key, "true"]);
    eventually(SOON, || async { raw.int(&["LLEN", &queue]).await == 2 }).await;

    let shown = run(server, &["show", &key, "--json"]).await;
    let lock = json(&shown.stdout);
    assert_eq!((shown.code, &lock["kind"], &lock["owner"]), (0, &"read".into(), &Value::Null));
    assert_eq!(values(&lock["holders"]), owners);
    let left = [0, 1].map(|at: usize| lock["holders"][at]["left_ms"].as_u64().unwrap());
    assert!(left[0] <= 30_000 && left[1] <= 20_000 && left[1] > 0, "{lock}");
    assert_eq!([&lock["queue"][0]["kind"], &lock["queue"][1]["kind"]], ["exclusive", "read"]);
    let text = run(server, &["show", &key]).await.stdout;
    assert!(
        text.contains("2 readers") && owners.iter().all(|owner| text.contains(owner)),
        "{text}"
    );
    assert!(text.contains(", to read"), "{text}");
    let listed = run(server, &["ls", &format!("{key}*")]).await.stdout;
    assert!(listed.contains("2 readers"), "{listed}");

    marks.make("go");
    for child in children.into_iter().chain([writer, reader]) {
        assert_eq!(ended(child).await.code, 0);
    }
}

#[tokio::test]
async fn release_takes_a_lock_from_all_readers_or_from_one() {
    let server = Server::shared().await;
    let (marks, key) = (Marks::new(), unique_prefix());
    let options = ["--read", "--expire", "12s", "-k", &key];
    let (children, owners) = holders(server, &marks, &options, &["a", "b", "c"]).await;
    let release = ["release", "--force", "--yes", &key];
    let nobody = run(server, &[&release[..], &["--owner", "x"]].concat()).await;
    assert_eq!(nobody.code, 1, "{nobody:?}");
    assert!(nobody.stderr.contains("3 readers, and was left alone"), "{nobody:?}");
    let unasked = run(server, &["release", "--force", &key]).await;
    assert!(unasked.code == 64 && owners.iter().all(|owner| unasked.stderr.contains(owner)));

    let one = run(server, &[&release[..], &["--owner", &owners[1]]].concat()).await;
    let expected = format!("lock {key} was taken from {}; others have it still: 2\n", owners[1]);
    assert_eq!((one.code, one.stdout), (0, expected));
    let shown = json(&run(server, &["show", &key, "--json"]).await.stdout);
    assert_eq!(values(&shown["holders"]), [owners[0].as_str(), &owners[2]]);

    let all = run(server, &release).await;
    assert_eq!(all.code, 0, "{all:?}");
    assert_eq!(all.stdout.lines().count(), 2, "{all:?}");
    assert!(all.stdout.ends_with(", the last of those who were seen\n"), "{all:?}");
    assert_eq!(run(server, &["show", &key]).await.code, 1);
    for child in children {
        assert_eq!(ended(child).await.code, 76);
    }
}

#[tokio::test]
async fn a_permit_that_is_taken_away_goes_to_the_next() {
    let server = Server::shared().await;
    let (marks, key) = (Marks::new(), unique_prefix());
    let options = ["--permits", "2", "-w", "forever", "--expire", "12s", "-k", &key];
    let (mut children, owners) = holders(server, &marks, &options, &["a", "b"]).await;
    let script = until_go("c");
    children.push(start(server, &marks, &[&options[..], &["sh", "-c", &script]].concat()));
    let (raw, queue) = (server.raw(), format!("{{lock:{key}}}:queue"));
    eventually(SOON, || async { raw.int(&["LLEN", &queue]).await == 1 }).await;
    let text = run(server, &["show", &key]).await.stdout;
    assert!(text.contains("2 permits") && text.contains("wants one of 2 permits"), "{text}");

    let release = ["release", "--force", "--yes", "--owner", &owners[0], &key];
    let released = run(server, &release).await;
    assert_eq!(released.code, 0, "{released:?}");
    let next = marks.there("c").await;
    let shown = json(&run(server, &["show", &key, "--json"]).await.stdout);
    let mut expected = [owners[1].clone(), next];
    expected.sort();
    assert_eq!(values(&shown["holders"]), expected);
    assert_eq!(shown["kind"], "permits");
    assert_eq!(ended(children.remove(0)).await.code, 76);
    marks.make("go");
    for child in children {
        assert_eq!(ended(child).await.code, 0);
    }
}

#[tokio::test]
async fn watch_tells_who_comes_and_goes() {
    let server = Server::shared().await;
    let (marks, key) = (Marks::new(), unique_prefix());
    let args = ["watch", &key, "--json", "--interval", "20ms"];
    let mut watch = tool(&server.url(), &args).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut next = async |name: &str, owner: &str| {
        let owner = if owner.is_empty() { Value::Null } else { Value::from(owner) };
        assert_eq!(next_event(&mut lines).await, (name.to_owned(), owner));
    };
    next("free", "").await;
    let read = ["--read", "-k", &key];
    let (mut children, owners) = holders(server, &marks, &read, &["a"]).await;
    next("taken", &owners[0]).await;
    let (more, others) = holders(server, &marks, &read, &["b"]).await;
    next("taken", &others[0]).await;
    children.extend(more);
    let release = ["release", "--force", "--yes", "--owner", &owners[0], &key];
    assert_eq!(run(server, &release).await.code, 0);
    next("released", &owners[0]).await;
    let script = until_go("w");
    let writer = start(server, &marks, &["-w", "forever", "-k", &key, "sh", "-c", &script]);
    next("waiting: 1", "").await;
    assert_eq!(run(server, &["release", "--force", "--yes", &key]).await.code, 0);
    let owner = marks.there("w").await;
    next("handed over", &owner).await;
    watch.kill().await.unwrap();
    marks.make("go");
    assert_eq!(ended(writer).await.code, 0);
    drop(children);
}

/// What is left of a lock with a `min_hold`.
#[tokio::test]
async fn a_retained_lock_is_held_by_nobody() {
    let server = Server::shared().await;
    let key = unique_prefix();
    let (raw, lock) = (server.raw(), format!("lock:{key}"));
    let owner = "web-3:retained:0123456789abcdef0123456789abcdef";
    assert!(raw.set_foreign_lock(&lock, owner, SOON * 10).await);
    let shown = run(server, &["show", &key]).await;
    assert!(shown.code == 0 && shown.stdout.contains("web-3 has let go of it"), "{shown:?}");
    let listed = run(server, &["ls", &format!("{key}*")]).await;
    assert!(listed.stdout.contains("web-3 (retained)"), "{listed:?}");
    let shown = json(&run(server, &["show", &key, "--json"]).await.stdout);
    assert_eq!((&shown["is_retained"], &shown["client"]), (&true.into(), &"web-3".into()));

    let args = ["watch", &key, "--json", "--interval", "20ms"];
    let mut watch = tool(&server.url(), &args).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let line = within(SOON, lines.next_line()).await.unwrap().unwrap();
    let event = json(&line);
    assert_eq!((&event["event"], &event["owner"]), (&"retained".into(), &owner.into()));
    assert_eq!(event["holders"], 0, "{line}");
    let asked = run(server, &["release", "--force", &key]).await;
    let says = "is retained: nobody holds it; web-3 has let go of it; stdin is no terminal";
    assert!(asked.code == 64 && asked.stderr.contains(says), "{asked:?}");
    let released = run(server, &["release", "--force", "--yes", &key]).await;
    assert_eq!((released.code, released.stderr.as_str()), (0, ""), "nobody will notice");
    assert_eq!(next_event(&mut lines).await, ("free".to_owned(), owner.into()));
    watch.kill().await.unwrap();
}

#[tokio::test]
async fn readers_on_several_masters() {
    let masters = Masters::start(3).await;
    let (urls, marks) = (masters.urls().join(","), Marks::new());
    let mut readers = Vec::new();
    let mut owners = Vec::new();
    for mark in ["a", "b"] {
        let script = until_go(mark);
        let args = ["--read", "--client-name", mark, "--expire", "12s", "-k", "k", "sh", "-c"];
        readers.push(start_at(&urls, &marks, &[&args[..], &[script.as_str()]].concat()));
        owners.push(marks.there(mark).await);
    }
    // Left over from somebody else, on one of them.
    let raw = masters[2].raw();
    let end = raw.int(&["ZSCORE", "{lock:k}:holders", &owners[0]]).await.to_string();
    raw.cmd(&["ZADD", "{lock:k}:holders", &end, "stranger"]).await;
    let shown = ended(tool(&urls, &["show", "k", "--json"]).spawn().unwrap()).await;
    let lock = json(&shown.stdout);
    assert_eq!(values(&lock["holders"]), owners, "{lock}");
    assert_eq!(lock["is_held"], true);
    raw.cmd(&["ZREM", "{lock:k}:holders", "stranger"]).await;
    let release = ["release", "--force", "-y", "k"];
    let released = ended(tool(&urls, &release).spawn().unwrap()).await;
    assert_eq!((released.code, released.stdout.lines().count()), (0, 2), "{released:?}");
    for reader in readers {
        assert_eq!(ended(reader).await.code, 76);
    }
    for master in masters.iter() {
        assert_eq!(master.raw().get("lock:k").await, None);
    }
}
