//! What the child processes of the fault tests do.

use std::time::Duration;

use redlock::{LockGuard, Redlock};

use crate::fault_store::{Store, turn};
use crate::support::Raw;
use crate::support::process::{Args, emit};

/// On one thread, as small programs are.
fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(future)
}

/// url, prefix, key, expire in ms
async fn acquire(args: &Args) -> LockGuard {
    let builder = Redlock::builder().url(args.get(0)).prefix(args.get(1));
    let expire = Duration::from_millis(args.parse(3));
    let redlock = builder.build().await.expect("the server is there");
    redlock.lock(args.get(2)).expire(expire).acquire().await.expect("the lock is free")
}

/// Holds a lock until it is killed.
pub fn hold(args: &Args) {
    block_on(async {
        let guard = acquire(args).await;
        emit(&format!("held {}", guard.owner()));
        tokio::time::sleep(Duration::from_secs(60)).await;
    });
}

/// Drops a guard as the last thing it does, inside of a runtime.
pub fn drop_and_end(args: &Args) {
    block_on(async { drop(acquire(args).await) });
}

/// Drops a guard without a runtime as the last thing it does.
pub fn end_and_drop(args: &Args) {
    let guard = block_on(acquire(args));
    drop(guard);
}

/// Panics with a guard in its hands.
pub fn drop_by_panic(args: &Args) {
    block_on(async {
        let guard = acquire(args).await;
        emit(&format!("held {}", guard.owner()));
        panic!("as it was told");
    });
}

/// Ends without unwinding anything.
pub fn exit_while_holding(args: &Args) {
    block_on(async {
        let guard = acquire(args).await;
        emit(&format!("held {}", guard.owner()));
        std::process::exit(3);
    });
}

/// Increments a fenced counter again and again, for at most a minute: url, prefix, key, expire in
/// ms, name, counter.
pub fn increment(args: &Args) {
    block_on(async {
        let expire = Duration::from_millis(args.parse(3));
        let builder = Redlock::builder().url(args.get(0)).prefix(args.get(1));
        let builder = builder.client_name(args.get(4)).reply_timeout(Duration::from_millis(300));
        let redlock = builder.build().await.expect("the server is there");
        let store = Store::new(Raw::new(args.get(0)), args.get(5));
        emit("ready");
        let work = async {
            loop {
                let request = redlock.lock(args.get(2)).expire(expire);
                let Ok(guard) = request.wait(Duration::from_secs(20)).acquire().await else {
                    continue;
                };
                let turn = turn(guard, &store, expire).await;
                if turn.late > 1 {
                    emit(&format!("late {}", turn.late));
                }
                match turn.outcome {
                    Ok(accepted) => emit(if accepted { "wrote" } else { "refused" }),
                    Err(_) => emit("stopped"),
                }
            }
        };
        let _ = tokio::time::timeout(Duration::from_secs(60), work).await;
    });
}
