//! Other clients of the standard algorithm and redlock keep each other out, on the same key.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::LazyLock;

use deadpool_redis::redis::from_redis_value;
use redlock::{LockGuard, Redlock, Released, Wait};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::clients::{client, holder, raw};
use crate::support::{Server, ms, secs, unique_prefix};

/// The release of every client of the algorithm.
const RELEASE: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then \
                       return redis.call('del', KEYS[1]) else return 0 end";

async fn full_key(redlock: &Redlock) -> String {
    let guard = redlock.lock("k").acquire().await.unwrap();
    let key = guard.lease().redis_key().to_owned();
    guard.release().await.unwrap();
    key
}

#[tokio::test]
async fn the_record_is_that_of_the_algorithm() {
    let (redlock, raw) = (client().await, raw().await);
    let guard = redlock.lock("k").expire(secs(20)).acquire().await.unwrap();
    let key = guard.lease().redis_key();
    let kind: String = from_redis_value(raw.cmd(&["TYPE", key]).await).unwrap();
    assert_eq!(kind, "string");
    assert_eq!(raw.get(key).await.as_deref(), Some(guard.owner()));
    let pttl = raw.pttl(key).await.expect("it is there");
    assert!(pttl <= secs(20) && pttl > secs(10), "{pttl:?}");
    let foreign = raw.set_foreign_lock(key, "foreign", secs(9)).await;
    assert!(!foreign, "SET NX PX of another client is refused");
    let release = raw.int(&["EVAL", RELEASE, "1", key, "foreign"]).await;
    assert_eq!(release, 0, "its release deletes nothing of ours");
    guard.check().unwrap();
    assert_eq!(raw.get(key).await.as_deref(), Some(guard.owner()));
    assert_eq!(guard.release().await.unwrap(), Released::Released);
}

#[tokio::test]
async fn a_foreign_record_is_respected_and_outlasted() {
    let (redlock, raw) = (client().await, raw().await);
    let key = full_key(&redlock).await;
    assert!(raw.set_foreign_lock(&key, "foreign", secs(60)).await);
    assert_eq!(holder(redlock.lock("k").wait(ms(50)).acquire().await), "foreign");
    assert_eq!(raw.int(&["EVAL", RELEASE, "1", &key, "foreign"]).await, 1);
    drop(redlock.lock("k").wait(Wait::Never).acquire().await.expect("it released"));
    assert_eq!(redlock.shutdown(secs(10)).await, 0);
    assert!(raw.set_foreign_lock(&key, "dead", ms(400)).await);
    let guard: LockGuard =
        redlock.lock("k").wait(secs(30)).acquire().await.expect("its lease ends");
    assert_eq!(raw.get(&key).await.as_deref(), Some(guard.owner()));
}

/// Also by a client that has to tell the server its scripts first.
#[tokio::test]
async fn a_foreign_record_without_an_owner_is_left_alone() {
    let server = Server::start().await;
    let (raw, prefix) = (server.raw(), unique_prefix());
    let builder = Redlock::builder().url(server.url()).prefix(prefix.as_str());
    let redlock = builder.build().await.unwrap();
    let key = format!("{prefix}k");
    assert!(raw.set_foreign_lock(&key, "", secs(60)).await);
    assert!(redlock.lock("k").try_acquire().await.unwrap().is_none());
    assert_eq!(raw.get(&key).await.as_deref(), Some(""));
}

/// As redis-py's `Lock` without a `timeout` writes it.
#[tokio::test]
async fn a_foreign_record_without_an_expiry_is_respected() {
    let (redlock, raw) = (client().await, raw().await);
    let key = full_key(&redlock).await;
    raw.cmd(&["SET", &key, "for ever"]).await;
    assert_eq!(holder(redlock.lock("k").wait(ms(80)).acquire().await), "for ever");
    assert_eq!(holder(redlock.lock("k").wait(Wait::Never).acquire().await), "for ever");
    for request in [redlock.lock("k"), redlock.lock("k").read(), redlock.lock_all(["k", "l"])] {
        for wait in [Wait::Never, Wait::AtMost(ms(80))] {
            let text = request.clone().wait(wait).acquire().await.unwrap_err().to_string();
            assert!(text.contains("has no expiry, and does not end by itself"), "{text}");
            assert!(text.contains("another prefix") && !text.contains("wait longer"), "{text}");
        }
    }
    assert_eq!(raw.int(&["PTTL", &key]).await, -1, "left as it was");
    let waiter = redlock.lock("k").wait(secs(30)).acquire();
    let (guard, mended) = tokio::join!(waiter, raw.del(&key));
    assert!(mended);
    drop(guard.expect("somebody mended it"));
}

/// Binary owners, as other libraries write them, are text in our errors.
#[tokio::test]
async fn a_foreign_owner_may_be_any_bytes() {
    let (redlock, raw) = (client().await, raw().await);
    let key = full_key(&redlock).await;
    let write = "return redis.call('SET', KEYS[1], string.char(255, 0, 65), 'PX', 60000)";
    raw.cmd(&["EVAL", write, "1", &key]).await;
    let named = holder(redlock.lock("k").wait(Wait::Never).acquire().await);
    assert_eq!(named, "\u{fffd}\0A");
}

/// A Python process with redis-py, in conversation.
struct Python {
    _child: Child,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
}

impl Python {
    async fn start(packages: &Path, url: &str, key: &str) -> Python {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/interop.py");
        let mut child = Command::new("python3")
            .args([script, url, key])
            .env("PYTHONPATH", packages)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("python3 was there a moment ago");
        let stdin = child.stdin.take().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut python = Python { _child: child, stdin, stdout };
        eprintln!("interop: {}", python.line().await);
        python
    }

    async fn line(&mut self) -> String {
        let line = tokio::time::timeout(secs(60), self.stdout.next_line()).await;
        line.expect("it answers").unwrap().expect("it lives")
    }

    async fn say(&mut self, command: &str) {
        self.stdin.write_all(format!("{command}\n").as_bytes()).await.unwrap();
    }

    async fn ask(&mut self, command: &str) -> String {
        self.say(command).await;
        self.line().await
    }
}

/// Where redis-py is, installed below `target/` at the first need; or why there is none.
fn redis_py() -> Result<&'static Path, &'static str> {
    static PLACE: LazyLock<Result<PathBuf, String>> = LazyLock::new(|| {
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("redis-py");
        let run = |args: &[&str]| {
            let command = std::process::Command::new("python3").args(args).output();
            match command.map_err(|error| format!("python3: {error}"))? {
                output if output.status.success() => Ok(()),
                output => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
            }
        };
        if place.join("redis").is_dir() {
            return Ok(place);
        }
        let target = place.to_str().ok_or("the target directory is not UTF-8")?;
        run(&["-m", "pip", "install", "--quiet", "--target", target, "redis==5.2.1"])?;
        Ok(place)
    });
    PLACE.as_deref().map_err(String::as_str)
}

/// The format is shown by the tests above in any case; this one needs Python and its package, which
/// the machines of the workflow have.
#[tokio::test]
async fn redis_py_and_redlock_exclude_each_other() {
    let packages = match tokio::task::spawn_blocking(redis_py).await.unwrap() {
        Ok(packages) => packages,
        Err(why) => {
            assert!(std::env::var_os("GITHUB_ACTIONS").is_none(), "no redis-py: {why}");
            eprintln!("interop: redis-py cannot be had here, its record was played instead: {why}");
            return;
        }
    };
    let (redlock, raw) = (client().await, raw().await);
    let key = full_key(&redlock).await;
    let mut python = Python::start(packages, &Server::shared().await.url(), &key).await;

    let guard = redlock.lock("k").acquire().await.unwrap();
    assert_eq!(python.ask("try").await, "False", "we hold it");
    assert_eq!(python.ask("locked").await, "True");
    python.say("wait").await;
    guard.release().await.unwrap();
    assert_eq!(python.line().await, "True", "handed over");

    let theirs = raw.get(&key).await.expect("it stands there");
    assert_eq!(holder(redlock.lock("k").wait(Wait::Never).acquire().await), theirs);
    let (guard, answer) =
        tokio::join!(redlock.lock("k").wait(secs(30)).acquire(), python.ask("release"));
    assert_eq!(answer, "released");
    let guard = guard.expect("handed over");
    assert_eq!(raw.get(&key).await.as_deref(), Some(guard.owner()));
    assert_eq!(python.ask("release").await, "LockError", "nothing of theirs is left to release");
    guard.release().await.unwrap();

    // Its release finds our lock in the place of its own, and leaves it.
    assert_eq!(python.ask("try").await, "True");
    raw.del(&key).await;
    let guard = redlock.lock("k").acquire().await.unwrap();
    assert_eq!(python.ask("release").await, "LockNotOwnedError");
    guard.check().unwrap();
    assert_eq!(raw.get(&key).await.as_deref(), Some(guard.owner()));
}
