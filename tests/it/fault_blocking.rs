//! Bodies that block their threads, and holds that are used up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use redlock::{LockError, LostReason, Redlock};

use crate::fault_kit::{LONG, NOISE, Steps, client};
use crate::support::process::block_on;
use crate::support::{Server, block_thread, capture, ms, secs, time_passes};

const EXPIRE: Duration = secs(4);

/// Somebody else, on a thread and with a connection of its own, who tries to get in all the time.
struct Observer {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<usize>,
}

impl Observer {
    fn start(server: &'static Server, key: String) -> Observer {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let thread = std::thread::spawn(move || {
            block_on(async {
                let raw = server.raw();
                let mut looks = 0;
                while !seen.load(Ordering::SeqCst) {
                    let entered = raw.set_foreign_lock(&key, "rival", secs(1)).await;
                    assert!(!entered, "the lock was free after {looks} looks");
                    assert!(raw.pttl(&key).await.is_some(), "no key after {looks} looks");
                    looks += 1;
                    time_passes(ms(2)).await;
                }
                looks
            })
        });
        Observer { stop, thread }
    }

    fn stop(self) -> usize {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.join().expect("nobody got in")
    }
}

async fn block_while_holding(redlock: Redlock, prefix: String, key: &'static str) -> usize {
    let server = Server::shared().await;
    let full = format!("{prefix}{key}");
    let run = redlock.lock(key).expire(EXPIRE).run(async move {
        let observer = Observer::start(server, full);
        block_thread(EXPIRE * 2);
        observer.stop()
    });
    run.await.expect("the lease was kept")
}

#[tokio::test]
async fn a_body_that_blocks_the_only_thread_keeps_its_lock() {
    let (redlock, prefix) = client(&Server::shared().await.url()).await;
    let looks = block_while_holding(redlock, prefix, "k").await;
    assert!(looks > 10, "{looks} looks");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_that_block_all_workers_keep_their_locks() {
    let (redlock, prefix) = client(&Server::shared().await.url()).await;
    let blocked = ["a", "b"]
        .map(|key| tokio::spawn(block_while_holding(redlock.clone(), prefix.clone(), key)));
    for body in blocked {
        let looks = body.await.unwrap();
        assert!(looks > 10, "{looks} looks");
    }
}

#[tokio::test]
async fn a_body_that_blocks_past_its_last_lease_takes_no_step_more() {
    let (redlock, _) = client(&Server::shared().await.url()).await;
    let after = Arc::new(AtomicBool::new(false));
    let seen = after.clone();
    let run = redlock.lock("k").expire(ms(400)).max_renew(0).run(async move {
        block_thread(ms(800));
        tokio::task::yield_now().await;
        seen.store(true, Ordering::SeqCst);
    });
    let LockError::Lost { reason, .. } = run.await.unwrap_err() else { panic!("not lost") };
    assert_eq!(reason, LostReason::RenewalLimit);
    assert!(!after.load(Ordering::SeqCst), "a step was taken after the lease");
}

#[tokio::test]
async fn a_hold_ends_with_its_renewals_and_hands_over_by_a_release() {
    let events = capture();
    let server = Server::shared().await;
    let (redlock, prefix) = client(&server.url()).await;
    let rival = Redlock::builder().url(server.url()).prefix(prefix.clone()).build().await.unwrap();
    let expire = secs(4);
    let key = format!("limit-{prefix}");
    let steps = Steps::new();
    let begun = Instant::now();
    let run =
        tokio::spawn(redlock.lock(&key).expire(expire).max_renew(2).run(steps.clone().take()));
    let second = {
        let key = key.clone();
        tokio::spawn(async move {
            // The first one is in: its step is newer than the test.
            while rival.lock(&key).try_acquire().await.unwrap().is_some() {}
            let guard = rival.lock(&key).wait(LONG).acquire().await.unwrap();
            (Instant::now(), guard)
        })
    };
    let error = run.await.unwrap().unwrap_err();
    let LockError::Lost { reason, renewals, held_for, .. } = error else { panic!("{error}") };
    assert_eq!((reason, renewals), (LostReason::RenewalLimit, 2));
    let longest = expire * 2 * 2 / 3 + expire.mul_f64(0.94);
    assert!(held_for < longest + secs(2), "{held_for:?}");
    let (entered, second) = second.await.unwrap();
    assert!(steps.last() < entered, "two holders at once");
    assert!(entered < begun + longest + NOISE);
    // Freed by the release of the stopped body, not by the end of the lease.
    let event = events.wait_for(NOISE, &key, "lock released").await;
    assert_eq!(event.field("released"), Some("Released"));
    drop(second);
}
