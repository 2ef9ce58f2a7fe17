//! The background thread dies in a child process, as by a panic in its runtime: what was under way
//! is freed by the thread that replaces it, and not by the end of a lease.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use redlock::{LockError, Redlock, redis_lock};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep_until, timeout};

use crate::fault_kit::{LONG, NOISE, nothing_left, runtime};
use crate::support::process::{Args, Process, emit};
use crate::support::proxy::{Then, contains};
use crate::support::{Proxy, Server, unique_prefix};

/// More than it takes to get a connection on the runtime of the caller.
const MANY: u32 = 200;
/// In which a request leaves.
const MOMENT: Duration = Duration::from_millis(100);
/// After this time a lock is taken back whose caller is not polled.
const CLAIM_WINDOW: Duration = Duration::from_secs(1);

#[tokio::test]
async fn what_is_under_way_when_the_background_thread_dies_is_freed_by_the_next_one() {
    let server = Server::shared().await;
    // The first request asks for the lock, the second releases it.
    let cases = [
        ("acquire", 1, Then::LoseReply),
        ("release", 2, Then::LoseRequest),
        ("unawaited", 2, Then::LoseRequest),
        ("taken back", 2, Then::LoseRequest),
    ];
    for (what, nth, then) in cases {
        let (proxy, prefix) = (Proxy::start(server), unique_prefix());
        let lost = proxy.when_nth(nth, contains("lastly"), then);
        let mut child =
            Process::spawn("lose-the-background-thread", &[&proxy.url(), &prefix, what]);
        child.event("dead").await;
        lost.fired().await;
        nothing_left(&server.raw(), &prefix, NOISE).await;
        child.event("served").await;
        assert!(child.wait(NOISE).await.success(), "{what}: {}", child.stderr());
    }
}

/// A hold goes on whose lease is not being renewed in that moment.
#[tokio::test]
async fn a_lease_outlives_the_background_thread() {
    let server = Server::shared().await;
    let args = [&server.url(), &unique_prefix(), "hold"];
    let mut child = Process::spawn("lose-the-background-thread", &args);
    child.event("dead").await;
    child.event("served").await;
    assert!(child.wait(NOISE).await.success(), "{}", child.stderr());
}

/// The runtime of the background thread.
static BACKGROUND: OnceLock<Handle> = OnceLock::new();

#[redis_lock(key = "<key>", client = redlock, release = "background")]
async fn call(redlock: &Redlock, key: &str) -> Result<(), LockError> {
    Ok(())
}

/// Has something under way when the background thread dies: url, prefix, what.
pub fn lose_the_background_thread(args: &Args) {
    runtime().block_on(async {
        let redlock = Redlock::builder().url(args.get(0)).prefix(args.get(1)).expire(LONG);
        let redlock = redlock.build().await.expect("the server is there");
        // An answer may come before the caller waits for it.
        while BACKGROUND.get().is_none() {
            let mut first = pin!(redlock.lock("first").acquire());
            let first = poll_fn(|cx| {
                let waker = Waker::from(Arc::new(Finds(cx.waker().clone())));
                first.as_mut().poll(&mut Context::from_waker(&waker))
            });
            first.await.expect("it is free").release().await.expect("it is released");
        }
        match args.get(2) {
            "acquire" => {
                let mut acquire = pin!(redlock.lock("lastly").acquire());
                assert!(timeout(MOMENT, &mut acquire).await.is_err());
                kill_the_background_thread().await;
                acquire.await.expect_err("its thread has died");
            }
            "release" => {
                drop(redlock.lock("lastly").acquire().await.expect("it is free"));
                let _ = timeout(MOMENT, std::future::pending::<()>()).await;
                kill_the_background_thread().await;
            }
            "unawaited" => {
                for _ in 0..MANY {
                    call(&redlock, "warm").await.expect("it is free");
                }
                call(&redlock, "lastly").await.expect("it is free");
                kill_the_background_thread().await;
            }
            "taken back" => {
                let mut acquire = Box::pin(redlock.lock("lastly").acquire());
                assert!(timeout(Duration::ZERO, &mut acquire).await.is_err());
                std::mem::forget(acquire);
                let _ = timeout(CLAIM_WINDOW + 3 * MOMENT, std::future::pending::<()>()).await;
                kill_the_background_thread().await;
                drop(redlock.lock("lastly").acquire().await.expect("the next thread frees it"));
            }
            _ => {
                let request = redlock.lock("held").expire(Duration::from_secs(2));
                let guard = request.acquire().await.expect("it is free");
                kill_the_background_thread().await;
                let _ = timeout(Duration::from_secs(4), guard.lost()).await;
                guard.check().expect("it is renewed");
            }
        }
        let _another = redlock.lock("another").acquire().await.expect("there is another thread");
        emit("served");
    });
}

/// The background thread wakes the callers of commands that it has sent.
struct Finds(Waker);

impl Wake for Finds {
    fn wake(self: Arc<Self>) {
        if std::thread::current().name() == Some("redlock-bg") {
            BACKGROUND.get_or_init(Handle::current);
        }
        self.0.wake_by_ref();
    }
}

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("a waker panics on purpose");
    }
}

/// One of its timers calls a waker that panics.
async fn kill_the_background_thread() {
    let thread = BACKGROUND.get().expect("it has woken a caller");
    let mut timer = {
        let _timers = thread.enter();
        Box::pin(sleep_until(Instant::now() + Duration::from_millis(1)))
    };
    let waker = Waker::from(Arc::new(Panics));
    assert!(timer.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    thread.spawn(std::future::pending::<()>()).await.expect_err("it dies");
    emit("dead");
}
