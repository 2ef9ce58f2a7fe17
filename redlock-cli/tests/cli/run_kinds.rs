//! `redlock run --read` and `--permits`.

use fault_kit::{Masters, Server, eventually, unique_prefix};

use crate::support::{Marks, SOON, ended, run, start, tool};

/// Runs until there is a file `go`, and says by a file of this name that it has begun.
fn until_go(mark: &str) -> String {
    format!("echo $REDLOCK_FENCING_TOKEN >{mark}; until [ -e go ]; do sleep 0.02; done")
}

#[tokio::test]
async fn readers_run_together_and_a_writer_waits_for_them() {
    let server = Server::shared().await;
    let (marks, key) = (Marks::new(), unique_prefix());
    let read =
        |mark: &str| start(server, &marks, &["--read", "-k", &key, "sh", "-c", &until_go(mark)]);
    let one = read("one");
    let first: u64 = marks.there("one").await.parse().unwrap();
    // As in flock.
    let two = start(server, &marks, &["-s", &key, "sh", "-c", &until_go("two")]);
    let second: u64 = marks.there("two").await.parse().unwrap();
    assert!(first < second, "each reader has a fencing token of its own");
    let refused = run(server, &["run", "-n", &key, "true"]).await;
    assert_eq!(refused.code, 75, "{refused:?}");
    assert_eq!(refused.stderr, format!("redlock: lock `{key}` is held by 2 readers\n"));

    let script = "echo $REDLOCK_FENCING_TOKEN >writer";
    let writer = start(server, &marks, &["-w", "forever", "-k", &key, "sh", "-c", script]);
    let (raw, queue) = (server.raw(), format!("{{lock:{key}}}:queue"));
    eventually(SOON, || async { raw.int(&["LLEN", &queue]).await == 1 }).await;
    let late = run(server, &["run", "-n", "--read", &key, "true"]).await;
    assert_eq!(late.code, 75, "{late:?}");
    assert!(late.stderr.contains("2 readers, and a writer waits"), "{late:?}");
    assert_eq!(marks.read("writer"), "");

    marks.make("go");
    for child in [one, two, writer] {
        let ended = ended(child).await;
        assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
    }
    assert!(marks.read("writer").parse::<u64>().unwrap() > second);
}

#[tokio::test]
async fn a_writer_keeps_readers_out() {
    let server = Server::shared().await;
    let (marks, key) = (Marks::new(), unique_prefix());
    let writer = start(server, &marks, &["-k", &key, "sh", "-c", &until_go("writer")]);
    marks.there("writer").await;
    let refused = run(server, &["run", "-n", "--read", &key, "true"]).await;
    assert_eq!(refused.code, 75, "{refused:?}");
    assert!(!refused.stderr.contains("a writer waits"), "{refused:?}");
    let args = ["-w", "forever", "--read", "-k", &key, "true"];
    let readers = [start(server, &marks, &args), start(server, &marks, &args)];
    let (raw, queue) = (server.raw(), format!("{{lock:{key}}}:queue"));
    eventually(SOON, || async { raw.int(&["LLEN", &queue]).await == 2 }).await;
    marks.make("go");
    for child in readers.into_iter().chain([writer]) {
        assert_eq!(ended(child).await.code, 0);
    }
}

#[tokio::test]
async fn of_four_three_have_a_permit() {
    let server = Server::shared().await;
    let (marks, key) = (Marks::new(), unique_prefix());
    let mut children = Vec::new();
    for mark in ["a", "b", "c"] {
        let args = ["-n", "--permits", "3", "-k", &key, "sh", "-c", &until_go(mark)];
        children.push(start(server, &marks, &args));
        marks.there(mark).await;
    }
    let fourth = ["run", "-n", "--permits", "3", &key, "true"];
    let refused = run(server, &fourth).await;
    assert_eq!(refused.code, 75, "{refused:?}");
    assert_eq!(refused.stderr, format!("redlock: lock `{key}` is held by 3 permits\n"));
    let writer = run(server, &["run", "-n", &key, "true"]).await;
    assert_eq!(writer.stderr, refused.stderr);
    marks.make("go");
    for child in children {
        assert_eq!(ended(child).await.code, 0);
    }
    assert_eq!(run(server, &fourth).await.code, 0);
}

#[tokio::test]
async fn several_masters_have_readers_and_no_permits() {
    let masters = Masters::start(3).await;
    let urls = masters.urls().join(",");
    let refused = tool(&urls, &["run", "--permits", "2", "k", "true"]).spawn().unwrap();
    let refused = ended(refused).await;
    assert_eq!(refused.code, 64, "{refused:?}");
    assert!(refused.stderr.contains("use a client of one master"), "{refused:?}");
    let read = ended(tool(&urls, &["run", "--read", "k", "true"]).spawn().unwrap()).await;
    assert_eq!((read.code, read.stderr.as_str()), (0, ""));
}
