//! Tasks that lock without a pause while servers die under them, and what must hold all the time.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use redlock::{FencingToken, Lease, LockError, LockGuard, LostReason, Redlock};
use tokio::task::JoinSet;

use crate::support::{eventually, ms, secs, time_passes};

/// One task for each key: acquire, hold, renew, release, again.
pub struct Load {
    tasks: JoinSet<()>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    is_over: AtomicBool,
    /// Grants of each task.
    grants: Vec<AtomicUsize>,
    last: Mutex<HashMap<String, FencingToken>>,
}

impl Load {
    pub fn start(redlock: &Redlock, keys: &[String]) -> Load {
        let grants = keys.iter().map(|_| AtomicUsize::new(0)).collect();
        let shared = Arc::new(Shared { grants, ..Shared::default() });
        let mut tasks = JoinSet::new();
        for (n, key) in keys.iter().enumerate() {
            let (redlock, key, shared) = (redlock.clone(), key.clone(), Arc::clone(&shared));
            tasks.spawn(async move {
                while !shared.is_over.load(Ordering::Relaxed) {
                    shared.one(&redlock, &key, n).await;
                }
            });
        }
        Load { tasks, shared }
    }

    /// Waits until each of these tasks has got its lock twice since now: the second time it began
    /// to ask after this call.
    pub async fn goes_on(&self, tasks: impl IntoIterator<Item = usize>) {
        let grants = |n: usize| self.shared.grants[n].load(Ordering::Relaxed);
        let before: Vec<(usize, usize)> = tasks.into_iter().map(|n| (n, grants(n))).collect();
        eventually(secs(60), || async {
            let stuck: Vec<usize> =
                before.iter().filter(|(n, old)| grants(*n) < old + 2).map(|(n, _)| *n).collect();
            if stuck.is_empty() { Ok(()) } else { Err(stuck) }
        })
        .await;
    }

    /// Ends the tasks; a panic in one of them fails the test here.
    pub async fn end(mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended.expect("no task panicked");
        }
    }
}

impl Shared {
    async fn one(&self, redlock: &Redlock, key: &str, n: usize) {
        let body = async {
            let lease = Lease::current().expect("inside of run");
            let token = lease.fencing_token();
            let last = self.last.lock().unwrap().insert(key.to_owned(), token);
            assert!(last.is_none_or(|last| last < token), "{key}: {token} after {last:?}");
            self.grants[n].fetch_add(1, Ordering::Relaxed);
            time_passes(ms(10)).await;
        };
        match redlock.lock(key).expire(secs(2)).wait(secs(2)).run(body).await {
            Ok(()) => {}
            // No server, none that may be written to, or a lock that a failover left behind.
            Err(
                LockError::Unavailable { .. } | LockError::Timeout { .. } | LockError::Lost { .. },
            ) => time_passes(ms(5)).await,
            Err(other) => panic!("{key}: {other:?}"),
        }
    }
}

/// Works under the lease until it is lost; gives why, and when the last step was made.
pub async fn work_until_lost(guard: LockGuard) -> (LostReason, Instant) {
    let last = Mutex::new(Instant::now());
    let work = async {
        loop {
            *last.lock().unwrap() = Instant::now();
            time_passes(ms(5)).await;
        }
    };
    let error = guard.protect(work).await.map(|(): ()| ()).expect_err("it never ends by itself");
    let LockError::Lost { reason, .. } = error else { panic!("{error:?}") };
    (reason, *last.lock().unwrap())
}
