//! A body that does not come to its end: the lock is released, the locals dropped before.

use std::future::pending;
use std::sync::{Arc, Mutex};

use redlock::{Lease, LockError, Redlock, redis_lock};
use tokio::sync::Notify;

use crate::clients::{client, raw};
use crate::support::{block_thread, capture, eventually, ms, secs, unique_prefix};

/// What was dropped, and whether the lease was that of the task, and not released, at that time.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<(&'static str, bool)>>>);

impl Log {
    #[track_caller]
    fn assert_all_before_release(&self, names: &[&str]) {
        let expected: Vec<_> = names.iter().map(|name| (*name, true)).collect();
        assert_eq!(*self.0.lock().unwrap(), expected);
    }
}

struct Local {
    name: &'static str,
    lease: Mutex<Option<Lease>>,
    log: Log,
}

impl Local {
    fn new(name: &'static str, log: &Log) -> Local {
        Local { name, lease: Mutex::new(Lease::current()), log: log.clone() }
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        let lease = self.lease.lock().unwrap();
        let current = Lease::current().map(|current| current.fencing_token());
        let is_held = |lease: &Lease| lease.check().is_ok();
        let is_here = |lease: &Lease| current == Some(lease.fencing_token());
        let still_held = lease.as_ref().is_some_and(|lease| is_held(lease) && is_here(lease));
        self.log.0.lock().unwrap().push((self.name, still_held));
    }
}

#[redis_lock(key = "k", client = redlock)]
async fn body(
    redlock: &Redlock,
    log: &Log,
    argument: Local,
    inside: &Notify,
    then: &str,
) -> Result<u32, LockError> {
    *argument.lease.lock().unwrap() = Lease::current();
    let _local = Local::new("local", log);
    inside.notify_one();
    match then {
        "panic" => panic!("as the test wants"),
        "return" => Ok(1),
        _ => pending().await,
    }
}

async fn assert_free(redlock: &Redlock) {
    assert_eq!(redlock.shutdown(secs(20)).await, 0);
    assert!(redlock.held().is_empty());
    assert!(redlock.lock("k").try_acquire().await.unwrap().is_some(), "free, and no poison");
}

#[tokio::test]
async fn a_body_that_returns_drops_its_locals_before_the_release() {
    let (redlock, log, inside) = (client().await, Log::default(), Notify::new());
    let argument = Local::new("argument", &log);
    body(&redlock, &log, argument, &inside, "return").await.unwrap();
    log.assert_all_before_release(&["local", "argument"]);
    assert_free(&redlock).await;
}

#[tokio::test]
async fn a_panic_in_the_body_releases() {
    let (redlock, log) = (client().await, Log::default());
    let (client, shared) = (redlock.clone(), log.clone());
    let task = tokio::spawn(async move {
        let argument = Local::new("argument", &shared);
        body(&client, &shared, argument, &Notify::new(), "panic").await
    });
    assert!(task.await.unwrap_err().is_panic());
    log.assert_all_before_release(&["local", "argument"]);
    assert_free(&redlock).await;
}

#[tokio::test]
async fn a_dropped_call_releases() {
    let (redlock, log, inside) = (client().await, Log::default(), Notify::new());
    let argument = Local::new("argument", &log);
    let mut call = Box::pin(body(&redlock, &log, argument, &inside, "hang"));
    tokio::select! {
        _ = &mut call => panic!("it hangs"),
        () = inside.notified() => {}
    }
    assert_eq!(redlock.held().len(), 1);
    drop(call);
    log.assert_all_before_release(&["local", "argument"]);
    assert_free(&redlock).await;
}

#[tokio::test]
async fn a_timeout_around_the_call_releases() {
    let (redlock, log, inside) = (client().await, Log::default(), Notify::new());
    let argument = Local::new("argument", &log);
    let call = body(&redlock, &log, argument, &inside, "hang");
    tokio::time::timeout(secs(1), call).await.expect_err("it hangs");
    tokio::time::timeout(secs(1), inside.notified()).await.expect("it had begun");
    log.assert_all_before_release(&["local", "argument"]);
    assert_free(&redlock).await;
}

#[tokio::test]
async fn an_aborted_task_releases() {
    let (redlock, log, inside) = (client().await, Log::default(), Arc::new(Notify::new()));
    let (client, shared, notify) = (redlock.clone(), log.clone(), inside.clone());
    let task = tokio::spawn(async move {
        let argument = Local::new("argument", &shared);
        body(&client, &shared, argument, &notify, "hang").await
    });
    inside.notified().await;
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    log.assert_all_before_release(&["local", "argument"]);
    assert_free(&redlock).await;
}

/// The runtime of the caller is gone, body and all; the background thread releases.
#[test]
fn the_end_of_a_runtime_releases() {
    let runtime = || tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (watcher, doomed) = (runtime(), runtime());
    let redlock = watcher.block_on(client());
    let (log, inside) = (Log::default(), Arc::new(Notify::new()));
    let (client, shared, notify) = (redlock.clone(), log.clone(), inside.clone());
    doomed.spawn(async move {
        let argument = Local::new("argument", &shared);
        body(&client, &shared, argument, &notify, "hang").await
    });
    watcher.block_on(inside.notified());
    drop(doomed);
    log.assert_all_before_release(&["local", "argument"]);
    watcher.block_on(assert_free(&redlock));
}

#[redis_lock(key = "<key>", expire = "20s", client = redlock)]
async fn robbed(redlock: &Redlock, key: &str, thief: Option<&str>) -> Result<u32, LockError> {
    let lease = Lease::current().unwrap();
    match thief {
        Some(thief) => drop(raw().await.cmd(&["SET", lease.redis_key(), thief]).await),
        None => drop(raw().await.del(lease.redis_key()).await),
    }
    Ok(17)
}

/// The work is done; that its last steps were not protected is a warning, not an error.
#[tokio::test]
async fn a_finished_body_keeps_its_result_though_the_lock_was_lost() {
    let (redlock, captured) = (client().await, capture());
    for (thief, why) in [(Some("thief"), "another owner"), (None, "gone")] {
        let key = unique_prefix();
        assert_eq!(robbed(&redlock, &key, thief).await.unwrap(), 17);
        captured.wait_for(secs(20), &key, "not protected").await;
        let warnings = captured.warnings_about(&key);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].message.contains("not protected"), "{}", warnings[0]);
        assert!(warnings[0].field("reason").unwrap().contains(why), "{}", warnings[0]);
        assert_eq!(warnings[0].field("key"), Some(&*key));
    }
}

/// Lost before it finished, but in the same step: the result stands as well.
#[tokio::test]
async fn a_body_that_blocks_past_its_lease_keeps_its_result() {
    #[redis_lock(key = "<key>", expire = "200ms", max_renew = 0, client = redlock)]
    async fn blocks(redlock: &Redlock, key: &str) -> Result<u32, LockError> {
        block_thread(ms(400));
        Ok(18)
    }
    #[redis_lock(
        key = "<key>",
        expire = "200ms",
        max_renew = 0,
        release = "background",
        client = redlock
    )]
    async fn blocks_and_goes(redlock: &Redlock, key: &str) -> Result<u32, LockError> {
        block_thread(ms(400));
        Ok(19)
    }
    let (redlock, captured) = (client().await, capture());
    let (first, second) = (unique_prefix(), unique_prefix());
    assert_eq!(blocks(&redlock, &first).await.unwrap(), 18);
    assert_eq!(blocks_and_goes(&redlock, &second).await.unwrap(), 19);
    for key in [first, second] {
        let event = captured.wait_for(secs(5), &key, "not protected").await;
        assert_eq!(event.level, tracing::Level::WARN);
    }
    eventually(secs(20), || async { redlock.held().is_empty() }).await;
}
