//! The child processes of the crash test.

use std::sync::Arc;
use std::time::Duration;

use redlock::{LockError, Redlock};
use tokio::task::JoinSet;

use crate::hand_over_store::Store;
use crate::support::process::{Args, block_on, emit};
use crate::support::{Raw, ms, secs};

/// What a killed holder costs the others.
pub const EXPIRE: Duration = secs(1);
/// Several tasks of a process for the first lock, so that holders rotate with those who wait
/// beside them; one for the second, so that it is released each time.
pub const KEYS: [(&str, u64); 2] = [("rotated", 3), ("released", 1)];
/// No waiter is served later, whoever dies before it in the queue.
const STARVED: Duration = secs(60);

/// Takes both locks again and again until the counters are over: url, url for the counters, prefix,
/// name. Tells what was left to release in the end.
pub fn work(args: &Args) {
    let (url, direct, prefix, name) = (args.get(0), args.get(1), args.get(2), args.get(3));
    block_on(async {
        let builder = Redlock::builder().url(url).prefix(prefix).client_name(name);
        let builder = builder.expire(EXPIRE).reply_timeout(ms(700)).lazy();
        let redlock = builder.build().await.expect("a lazy client needs no server");
        let mut tasks = JoinSet::new();
        for (key, count) in KEYS {
            let store = Arc::new(Store::new(Raw::new(direct), prefix, key));
            for _ in 0..count {
                let (redlock, store, name) = (redlock.clone(), store.clone(), name.to_owned());
                tasks.spawn(async move { take(&redlock, key, &store, &name).await });
            }
        }
        tasks.join_all().await;
        emit(&format!("done {}", redlock.shutdown(secs(10)).await));
    });
}

async fn take(redlock: &Redlock, key: &str, store: &Store, name: &str) {
    loop {
        match redlock.lock(key).wait(STARVED).run(store.step(name)).await {
            Ok(true) => return,
            // The next one; or its wire was cut.
            Ok(false) | Err(LockError::Unavailable { .. }) => {}
            // Frozen in its body, or cut off.
            Err(LockError::Lost { .. }) => store.note(&format!("cut {name}")).await,
            Err(LockError::Timeout { .. }) => store.note("starved").await,
            Err(other) => panic!("{key}: {other}"),
        }
    }
}
