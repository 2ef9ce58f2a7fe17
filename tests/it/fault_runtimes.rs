//! One client under many runtimes that come and go.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use redlock::{LockError, Redlock, Wait, redis_lock};
use tokio::runtime::{Builder, Runtime};

use crate::fault_kit::{LONG, NOISE, builder, client, nothing_left, runtime};
use crate::support::process::block_on;
use crate::support::proxy::{Then, command};
use crate::support::{Proxy, Server, eventually, ms, time_passes};

/// A client as programs keep it: in a static, connected by a runtime that is gone.
static SHARED: LazyLock<(Redlock, String)> =
    LazyLock::new(|| block_on(async { client(&Server::shared().await.url()).await }));

#[redis_lock(key = "shared-<n>", wait = "60s", client = &SHARED.0)]
async fn shared(n: usize) -> Result<usize, LockError> {
    tokio::task::yield_now().await;
    Ok(n)
}

#[test]
fn eight_threads_of_fifty_short_runtimes_share_a_client_without_an_error() {
    LazyLock::force(&SHARED);
    let threads: Vec<_> = (0..8)
        .map(|thread| {
            std::thread::spawn(move || {
                for n in 0..50 {
                    runtime().block_on(async {
                        assert_eq!(shared(n % 4).await, Ok(n % 4));
                        let key = format!("own-{thread}");
                        let guard = SHARED.0.lock(&key).acquire().await.unwrap();
                        guard.check().unwrap();
                        guard.release().await.unwrap();
                        drop(SHARED.0.lock(format!("{key}-{n}")).acquire().await.unwrap());
                    });
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no operation failed");
    }
    block_on(async {
        nothing_left(&Server::shared().await.raw(), &SHARED.1, NOISE).await;
        assert_eq!(SHARED.0.shutdown(NOISE).await, 0);
    });
    assert!(SHARED.0.held().is_empty());
}

/// Waiters and a runtime that ends under them.
fn end_under_waiters(end: fn(Runtime)) {
    let (redlock, prefix) = block_on(async {
        let (builder, prefix) = builder(&Server::shared().await.url());
        (builder.max_waiters(20).build().await.unwrap(), prefix)
    });
    let holder = block_on(redlock.lock("k").acquire()).unwrap();
    let waiting = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    // One that asks Redis, for a lock of somebody else; then so many that all places are taken.
    let foreign = format!("{prefix}foreign");
    block_on(async {
        let raw = Server::shared().await.raw();
        assert!(raw.set_foreign_lock(&foreign, "somebody", LONG).await);
    });
    waiting.spawn(redlock.lock("foreign").wait(Wait::Forever).acquire());
    waiting.block_on(async { time_passes(ms(50)).await });
    let full = || async {
        waiting.spawn(redlock.lock("k").wait(Wait::Forever).acquire());
        let one_more = redlock.lock("k").wait(ms(20)).acquire().await.map(drop);
        matches!(one_more, Err(LockError::TooManyWaiters { .. }))
    };
    block_on(eventually(NOISE, full));
    let start = Instant::now();
    end(waiting);
    assert!(start.elapsed() < NOISE);
    block_on(async {
        let raw = Server::shared().await.raw();
        // The places of those who are gone are free, though their locks are not.
        let wait_too = || redlock.lock("foreign").wait(ms(20)).acquire();
        eventually(NOISE, || async {
            let error = wait_too().await.map(drop).unwrap_err();
            if matches!(error, LockError::Timeout { .. }) { Ok(()) } else { Err(error) }
        })
        .await;
        assert!(raw.del(&foreign).await);
        holder.release().await.unwrap();
        // Nobody who is gone gets the locks.
        for key in ["k", "foreign"] {
            let mine = redlock.lock(key).wait(LONG).acquire().await.unwrap();
            mine.release().await.unwrap();
        }
        nothing_left(&raw, &prefix, NOISE).await;
        eventually(NOISE, || async { redlock.held().is_empty() }).await;
        assert_eq!(redlock.shutdown(NOISE).await, 0);
    });
}

#[test]
fn a_runtime_that_is_dropped_while_acquires_wait_leaves_nothing() {
    end_under_waiters(drop);
}

#[test]
fn a_runtime_that_is_shut_down_while_acquires_wait_leaves_nothing() {
    end_under_waiters(|runtime| runtime.shutdown_timeout(Duration::from_millis(100)));
    end_under_waiters(Runtime::shutdown_background);
}

#[test]
fn a_client_made_in_a_runtime_that_is_gone_still_renews_and_loses() {
    let (redlock, _) = runtime().block_on(async { client(&Server::shared().await.url()).await });
    let guard =
        runtime().block_on(redlock.lock("k").expire(Duration::from_secs(6)).acquire()).unwrap();
    block_on(eventually(2 * NOISE, || async { guard.renewals() >= 1 }));
    assert_eq!(guard.check(), Ok(()));
    drop(guard);
    let limited = redlock.lock("k").expire(ms(300)).max_renew(0).wait(LONG);
    let guard = runtime().block_on(limited.acquire()).unwrap();
    let reason = runtime().block_on(guard.lost());
    assert_eq!(reason, redlock::LostReason::RenewalLimit);
}

/// Callers who go away before their time is up, each with a connection that has fallen silent.
#[tokio::test]
async fn a_silent_connection_is_given_up_though_no_caller_waits_for_long() {
    let proxy = Proxy::start(Server::shared().await);
    let (redlock, prefix) = client(&proxy.url()).await;
    let connections = proxy.connections();
    let has_own = || async {
        drop(redlock.lock("warm").acquire().await?.release().await);
        if proxy.connections() > connections { Ok(()) } else { Err(LockError::NotInitialized) }
    };
    // The runtime has a connection of its own after some commands.
    eventually(NOISE, has_own).await;
    for _ in 0..20 {
        drop(redlock.lock("warm").acquire().await.unwrap().release().await);
    }
    let hits = proxy.when(command(&["EVALSHA"]), Then::LoseReply);
    let call = redlock.lock("k").wait(LONG).acquire();
    assert!(tokio::time::timeout(ms(100), call).await.is_err());
    assert_eq!(hits.count(), 1);
    let granted = || async {
        let call = redlock.lock("k").wait(LONG).acquire();
        tokio::time::timeout(ms(300), call).await.map_err(drop)?.map(drop).map_err(drop)
    };
    eventually(NOISE, granted).await;
    nothing_left(&Server::shared().await.raw(), &prefix, NOISE).await;
}
