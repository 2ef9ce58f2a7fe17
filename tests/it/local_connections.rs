//! Runtimes with a local connection: what they ask comes behind what they have let go of.

use std::future::poll_fn;
use std::sync::mpsc;
use std::task::Poll;

use deadpool_redis::{Config, Runtime};
use redlock::{LockError, Redlock, redis_lock};
use tokio::runtime::Builder;
use tokio::task::LocalSet;

use crate::clients::client;
use crate::executor::park_on;
use crate::fault_kit::runtime;
use crate::support::{Server, eventually, secs, unique_prefix};

/// More calls than a runtime makes before it gets a connection of its own.
pub const MANY: usize = 200;

#[redis_lock(key = "k-<n>", client = redlock, release = "background")]
async fn in_background(redlock: &Redlock, n: usize) -> Result<(), LockError> {
    Ok(())
}

/// By whichever way each release and each question goes.
#[tokio::test]
async fn whoever_let_go_has_the_lock_again_at_once() {
    let redlock = client().await;
    for round in 0..3 * MANY {
        let granted = redlock.lock("k-1").try_acquire().await.unwrap();
        let guard = granted.unwrap_or_else(|| panic!("round {round}: it was let go of"));
        match round % 3 {
            0 => drop(guard),
            1 => drop(guard.release().await.unwrap()),
            _ => {
                drop(guard);
                in_background(&redlock, 1).await.unwrap();
            }
        }
    }
}

/// Each reader has a local queue of its own, and a writer another one.
#[tokio::test]
async fn whoever_let_go_has_the_lock_in_another_mode_at_once() {
    let redlock = client().await;
    for round in 0..MANY {
        let request = redlock.lock("k");
        let request = match round % 3 {
            0 => request,
            1 => request.read(),
            _ => request.permits(1),
        };
        let granted = request.try_acquire().await.unwrap();
        drop(granted.unwrap_or_else(|| panic!("round {round}: it was let go of")));
    }
}

/// They end with releases on the way that nobody awaits.
#[test]
fn runtimes_that_end_leave_no_lock_behind() {
    let prefix = unique_prefix();
    let first = runtime();
    let (redlock, raw) = first.block_on(async {
        let server = Server::shared().await;
        let builder = Redlock::builder().url(server.url()).prefix(prefix.as_str());
        (builder.build().await.unwrap(), server.raw())
    });
    for _ in 0..20 {
        let short = runtime();
        short.block_on(async {
            for n in 0..MANY / 2 {
                in_background(&redlock, n).await.unwrap();
            }
        });
        drop(short);
    }
    first.block_on(async {
        assert_eq!(redlock.shutdown(secs(30)).await, 0);
        let left = raw.keys(&format!("*{prefix}*")).await;
        assert!(left.iter().all(|key| key.ends_with(":fence")), "{left:?}");
    });
}

/// They begin on a runtime with a connection of its own, which then stands still or is gone.
#[test]
fn calls_that_are_finished_by_a_thread_without_a_runtime_end() {
    for is_gone in [false, true] {
        let first = runtime();
        let (redlock, acquire, release, run) = first.block_on(async {
            let redlock = client().await;
            for n in 0..MANY {
                in_background(&redlock, n).await.unwrap();
            }
            let guard = redlock.lock("released").acquire().await.unwrap();
            let mut acquire = Box::pin(redlock.lock("acquired").acquire());
            let mut release = Box::pin(guard.release());
            let mut run = Box::pin(redlock.lock("run").run(async {}));
            poll_fn(|cx| {
                let _ = acquire.as_mut().poll(cx);
                let _ = release.as_mut().poll(cx);
                let _ = run.as_mut().poll(cx);
                Poll::Ready(())
            })
            .await;
            (redlock, acquire, release, run)
        });
        let first = (!is_gone).then_some(first);
        // Whatever they say: the locks are free then.
        drop((park_on(acquire), park_on(release), park_on(run)));
        drop(first);
        runtime().block_on(async {
            for key in ["acquired", "released", "run"] {
                redlock.lock(key).wait(secs(60)).run(async {}).await.unwrap();
            }
        });
    }
}

/// The connections of a pool begin a timer with each command. The server has forgotten its scripts,
/// so that the thread without a runtime begins the second command.
#[test]
fn a_call_over_a_pool_is_finished_by_a_thread_without_a_runtime() {
    let first = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (_server, redlock, acquire) = first.block_on(async {
        let server = Server::start().await;
        let pool = Config::from_url(server.url()).create_pool(Some(Runtime::Tokio1)).unwrap();
        let redlock = Redlock::builder().pool(pool).build().await.unwrap();
        for n in 0..MANY {
            in_background(&redlock, n).await.unwrap();
        }
        server.raw().cmd(&["SCRIPT", "FLUSH"]).await;
        let mut acquire = Box::pin(redlock.lock("k").acquire());
        poll_fn(|cx| {
            assert!(acquire.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        (server, redlock, acquire)
    });
    let guard = park_on(acquire).unwrap();
    first.block_on(guard.release()).unwrap();
    first.block_on(redlock.lock("k").wait(secs(60)).run(async {})).unwrap();
}

/// Calls as often as it takes to get a local connection, and then computes without coming back to
/// its runtime.
async fn computing(redlock: Redlock, key: String, place: &str) {
    for _ in 0..MANY {
        in_background(&redlock, 1).await.unwrap();
    }
    let (tell, told) = mpsc::channel();
    let observer = std::thread::spawn(move || {
        runtime().block_on(async {
            let raw = Server::shared().await.raw();
            eventually(secs(20), || async { raw.get(&key).await.is_none() }).await;
            let _ = tell.send(());
        });
    });
    assert!(told.recv_timeout(secs(15)).is_ok(), "{place}: the release has not left");
    observer.join().unwrap();
}

/// The caller computes from then on: on one of several worker threads, on the only one, outside of
/// tasks, or in an executor inside of another. The background thread would take over after 25 s.
#[test]
fn a_background_release_has_left_when_the_call_returns() {
    for place in ["worker", "task", "root", "local set", "root of several"] {
        let callers = match place {
            "worker" | "root of several" => {
                Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap()
            }
            _ => runtime(),
        };
        let prefix = unique_prefix();
        let redlock = callers.block_on(async {
            let server = Server::shared().await;
            let builder = Redlock::builder().url(server.url()).prefix(prefix.as_str());
            builder.reply_timeout(secs(100)).build().await.unwrap()
        });
        let computing = computing(redlock, format!("{prefix}k-1"), place);
        match place {
            "root" | "root of several" => callers.block_on(computing),
            "local set" => callers.block_on(LocalSet::new().run_until(async {
                tokio::task::spawn_local(computing).await.unwrap();
            })),
            _ => callers.block_on(async { tokio::spawn(computing).await.unwrap() }),
        }
    }
}
