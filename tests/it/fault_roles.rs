//! What the child processes of the fault tests do.

use std::cell::{OnceCell, RefCell};
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};

use redlock::{LockError, LockGuard, Redlock};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::runtime::Runtime;

use crate::fault_kit::{Steps, runtime};
use crate::fault_store::{Store, turn};
use crate::support::process::{Args, emit};
use crate::support::{Raw, block_thread, time_passes};

/// On one thread, as small programs are.
fn block_on<F: Future>(future: F) -> F::Output {
    runtime().block_on(future)
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
        time_passes(Duration::from_secs(60)).await;
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

thread_local! {
    // They are used before the client is made, so they are dropped after what the library has at
    // the end of the thread.
    static GUARD: RefCell<Option<LockGuard>> = const { RefCell::new(None) };
    static RUNTIME: OnceCell<Runtime> = const { OnceCell::new() };
}

/// Leaves a guard to the end of its thread.
pub fn end_with_a_local_guard(args: &Args) {
    GUARD.with_borrow_mut(|guard| *guard = Some(block_on(acquire(args))));
}

/// Leaves a task that holds the lock to the end of its thread.
pub fn end_with_a_local_runtime(args: &Args) {
    RUNTIME.with(|own| {
        let runtime = own.get_or_init(runtime);
        let guard = runtime.block_on(acquire(args));
        runtime.spawn(async move {
            std::future::pending::<()>().await;
            drop(guard);
        });
    });
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
/// ms, name, counter. Tells how often its body was stopped, how often it began a step too
/// late, and the most steps that one body began so.
pub fn increment(args: &Args) {
    block_on(async {
        let expire = Duration::from_millis(args.parse(3));
        let builder = Redlock::builder().url(args.get(0)).prefix(args.get(1));
        let builder = builder.client_name(args.get(4)).lazy();
        let redlock = builder.build().await.expect("the server is there");
        let store = Store::new(Raw::new(args.get(0)), args.get(5));
        emit("ready");
        let (mut stopped, mut late, mut latest) = (0, 0, 0);
        let work = async {
            loop {
                let request = redlock.lock(args.get(2)).expire(expire);
                let Ok(guard) = request.wait(Duration::from_secs(20)).acquire().await else {
                    continue;
                };
                let turn = turn(guard, &store, expire).await;
                late += usize::from(turn.late > 0);
                latest = latest.max(turn.late);
                match turn.outcome {
                    Ok(true) => emit(&format!("wrote {stopped} {late} {latest}")),
                    Ok(false) => {}
                    Err(_) => stopped += 1,
                }
            }
        };
        let _ = tokio::time::timeout(Duration::from_secs(60), work).await;
    });
}

/// Blocks the thread that wakes it, once.
struct BlockingWaker;

impl Wake for BlockingWaker {
    fn wake(self: Arc<Self>) {
        emit("blocked");
        block_thread(Duration::from_secs(2));
    }
}

/// Blocks the background thread of the library while a lease of another lock runs out: url, prefix.
pub fn block_the_background_thread(args: &Args) {
    block_on(async {
        let builder = Redlock::builder().url(args.get(0)).prefix(args.get(1)).max_renew(0);
        let redlock = builder.build().await.expect("the server is there");
        let expire = Duration::from_secs(1);
        let body = redlock.lock("body").expire(expire).acquire().await.expect("it is free");
        let held = Instant::now();
        let first = redlock.lock("first").expire(expire / 2).acquire().await.expect("it is free");
        // When the first lease ends, the background thread wakes whoever waits for that.
        let mut lost = std::pin::pin!(first.lost());
        let waker = Waker::from(Arc::new(BlockingWaker));
        assert!(lost.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        let steps = Steps::new();
        let outcome = body.protect(steps.clone().take()).await;
        let is_late = steps.last() >= held + expire;
        emit(&format!("stopped {is_late} {outcome:?}"));
    });
}

/// Makes a client while the process has as many files open as it may, and again afterwards.
pub fn short_of_files(args: &Args) {
    block_on(async {
        let builder = || Redlock::builder().url(args.get(0)).prefix(args.get(1)).lazy();
        let limit = getrlimit(Resource::Nofile);
        let exhausted = Rlimit { current: Some(3), ..limit };
        setrlimit(Resource::Nofile, exhausted).expect("it may have fewer");
        let refused = builder().build().await.map(drop);
        setrlimit(Resource::Nofile, limit).expect("it may have as many as before");
        emit(&format!("refused {}", matches!(refused, Err(LockError::BackgroundThread { .. }))));
        let redlock = builder().build().await.expect("there are files again");
        emit(&format!("body {:?}", redlock.lock("k").run(async {}).await));
    });
}
