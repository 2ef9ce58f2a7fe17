//! What the fault tests share: clients, what is left in Redis, cases side by side.

use std::future::Future;
use std::time::{Duration, Instant};

use redlock::{LockError, NodeError, NodeErrorKind, Redlock, RedlockBuilder};
use tokio::runtime::{Builder, Runtime};

use crate::support::{Raw, eventually, time_passes, unique_prefix};

/// Far away: a test that ends before it did not wait for a lease to expire.
pub const LONG: Duration = Duration::from_secs(60);
/// What a loaded machine may add to anything.
pub const NOISE: Duration = Duration::from_secs(8);

/// On one thread, as of `#[tokio::test]` and of small programs.
pub fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// A client with keys of its own, and the prefix they begin with.
pub fn builder(url: &str) -> (RedlockBuilder, String) {
    let prefix = unique_prefix();
    let builder = Redlock::builder().url(url).prefix(prefix.clone()).expire(LONG);
    (builder.reply_timeout(Duration::from_millis(700)), prefix)
}

pub async fn client(url: &str) -> (Redlock, String) {
    let (builder, prefix) = builder(url);
    // A loaded machine may be slower than the reply timeout of the tests.
    let redlock = eventually(NOISE, || builder.clone().build()).await;
    (redlock, prefix)
}

/// The lock keys of a client, without what fencing tokens come behind.
pub async fn lock_keys(raw: &Raw, prefix: &str) -> Vec<String> {
    let mut keys = raw.keys(&format!("{prefix}*")).await;
    keys.retain(|key| !key.ends_with(":fence"));
    keys
}

/// Waits until no lock key is left, at most `bound`.
#[track_caller]
pub fn nothing_left(raw: &Raw, prefix: &str, bound: Duration) -> impl Future<Output = ()> {
    eventually(bound, move || async move {
        let keys = lock_keys(raw, prefix).await;
        if keys.is_empty() { Ok(()) } else { Err(keys) }
    })
}

/// What the only node said.
#[track_caller]
pub fn node_error(error: &LockError) -> &NodeError {
    let LockError::Unavailable { nodes, .. } = error else { panic!("not Unavailable: {error:?}") };
    assert_eq!(nodes.len(), 1, "{error}");
    &nodes[0]
}

#[track_caller]
pub fn assert_unavailable(error: &LockError, kind: NodeErrorKind) {
    assert_eq!(node_error(error).kind(), kind, "{error}");
}

/// Runs the cases side by side; the failure names all that failed.
pub async fn each<C, F>(cases: impl IntoIterator<Item = (&'static str, C)>, run: fn(C) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let tasks: Vec<_> =
        cases.into_iter().map(|(name, case)| (name, tokio::spawn(run(case)))).collect();
    let mut failed = Vec::new();
    for (name, task) in tasks {
        if let Err(panic) = task.await {
            failed.push(format!("{name}: {panic}"));
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

/// Polls a future by hand, `times` times with a pause between, and drops it where it stands.
/// Gives its output if it came to an end before.
pub async fn poll_and_drop<F: Future>(
    future: F,
    times: usize,
    pause: Duration,
) -> Option<F::Output> {
    let mut future = std::pin::pin!(future);
    for _ in 0..times {
        let mut step = std::pin::pin!(async {
            std::future::poll_fn(|cx| std::task::Poll::Ready(future.as_mut().poll(cx))).await
        });
        if let std::task::Poll::Ready(output) = step.as_mut().await {
            return Some(output);
        }
        time_passes(pause).await;
    }
    None
}

/// A body that never ends and remembers when it took its last step.
#[derive(Debug, Clone)]
pub struct Steps(std::sync::Arc<std::sync::Mutex<Instant>>);

impl Steps {
    pub fn new() -> Steps {
        Steps(std::sync::Arc::new(std::sync::Mutex::new(Instant::now())))
    }

    pub fn last(&self) -> Instant {
        *self.0.lock().unwrap()
    }

    /// A step every two milliseconds, for ever.
    pub async fn take(self) {
        let mut tick = tokio::time::interval(Duration::from_millis(2));
        loop {
            tick.tick().await;
            *self.0.lock().unwrap() = Instant::now();
        }
    }
}
