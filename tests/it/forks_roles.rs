//! What the processes do that fork.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fork::{Fork, fork, waitpid};
use redlock::{LockError, Redlock, RedlockBuilder, redis_lock};

use crate::fault_kit::runtime;
use crate::support::process::{Args, emit};

/// url, prefix
fn builder(args: &Args) -> RedlockBuilder {
    let builder = Redlock::builder().url(args.get(0)).prefix(args.get(1));
    builder.expire(Duration::from_secs(60)).wait(Duration::ZERO)
}

/// Runs `child` in a child of this process, and gives its status when it has ended.
fn in_a_child(child: impl FnOnce()) -> i32 {
    match fork().expect("a child") {
        Fork::Child => {
            child();
            std::process::exit(0);
        }
        Fork::Parent(child) => waitpid(child).expect("a status"),
    }
}

fn said<T>(outcome: Result<T, LockError>) -> &'static str {
    match outcome.map(drop) {
        Ok(()) => "ok",
        Err(LockError::ForkedProcess) => "forked",
        Err(_) => "failed",
    }
}

/// Has a lock while it forks.
pub fn with_a_lock(args: &Args) {
    let parent = runtime();
    let (redlock, guard) = parent.block_on(async {
        let redlock = redlock::init(builder(args)).await.expect("the server is there");
        let guard = redlock.lock("parents").acquire().await.expect("it is free");
        (redlock, guard)
    });
    drop(parent);
    let mut guards = vec![guard];
    let status = in_a_child(|| {
        let guard = guards.pop().expect("it is there");
        let (checked, state) = (said(guard.check()), guard.state());
        emit(&format!("check {checked} {state:?} {:?}", guard.remaining()));
        let own = runtime();
        own.block_on(async {
            emit(&format!("acquire {}", said(redlock.lock("other").acquire().await)));
            emit(&format!("global {}", said(redlock::global())));
            emit(&format!("lost {:?}", guard.lost().await));
            emit(&format!("release {}", said(guard.release().await)));
            emit(&format!("drain {}", redlock.drain(Duration::from_secs(600)).await));
            drop(redlock);
            let redlock = redlock::init(builder(args)).await;
            emit(&format!("init {}", redlock.is_ok()));
            let redlock = redlock.expect("it is another process");
            let other = redlock.lock("other").acquire().await;
            emit(&format!("other {}", other.is_ok_and(|guard| guard.check().is_ok())));
            let parents = redlock.lock("parents").try_acquire().await;
            emit(&format!("parents {:?}", parents.expect("the server is there").map(drop)));
        });
    });
    emit(&format!("ended {status}"));
    let guard = guards.pop().expect("it is there");
    let checked = said(guard.check());
    emit(&format!("parent {checked} {:?}", runtime().block_on(guard.release())));
}

#[redis_lock(key = "daemon", release = "background")]
async fn daemons() -> Result<bool, LockError> {
    Ok(true)
}

/// Initializes, goes on in a child, and initializes there.
pub fn as_a_daemon(args: &Args) {
    let before = runtime();
    before.block_on(async {
        let redlock = redlock::init(builder(args)).await.expect("the server is there");
        daemons().await.expect("it is free");
        // The background thread rests when the memory is copied, whatever libraries lock or begin
        // in it otherwise.
        assert_eq!(redlock.shutdown(Duration::from_secs(10)).await, 0);
    });
    drop(before);
    let status = in_a_child(|| {
        runtime().block_on(async {
            emit(&format!("before {}", said(daemons().await)));
            redlock::init(builder(args)).await.expect("it is another process");
            for _ in 0..100 {
                daemons().await.expect("it is free");
            }
            emit(&format!("body {}", said(daemons().await)));
            let again = redlock::init(builder(args)).await;
            emit(&format!(
                "again {}",
                again.is_err_and(|why| why == LockError::AlreadyInitialized)
            ));
        });
    });
    assert_eq!(status, 0);
}

/// Forks inside of a body: before an await, and as the last thing it does.
pub fn in_a_body(args: &Args) {
    let outer = runtime();
    let redlock = outer.block_on(builder(args).build()).expect("the server is there");
    for (name, awaits) in [("await", true), ("last", false)] {
        let mut child = None;
        let body = async {
            match fork().expect("a child") {
                Fork::Child => {}
                Fork::Parent(id) => child = Some(id),
            }
            if awaits {
                tokio::task::yield_now().await;
            }
            true
        };
        let outcome = outer.block_on(redlock.lock(name).run(body));
        match child {
            None => {
                emit(&format!("child-{name} {}", said(outcome)));
                std::process::exit(0);
            }
            Some(child) => {
                assert_eq!(waitpid(child).expect("a status"), 0);
                emit(&format!("parent-{name} {}", said(outcome)));
            }
        }
    }
}

/// Forks again and again, each child drops what it has of its parent.
pub fn while_others_lock(args: &Args) {
    static IS_OVER: AtomicBool = AtomicBool::new(false);
    let redlock = runtime().block_on(builder(args).build()).expect("the server is there");
    let others: Vec<_> = (0..3)
        .map(|n| {
            let redlock = redlock.clone();
            std::thread::spawn(move || {
                runtime().block_on(async {
                    while !IS_OVER.load(Ordering::Relaxed) {
                        let lock = redlock.lock(format!("other-{n}"));
                        let _ = lock.expire(Duration::from_millis(50)).acquire().await.map(drop);
                    }
                });
            })
        })
        .collect();
    let own = runtime();
    let mut children = 0;
    for n in 0..100 {
        let mut guards: Vec<_> = (0..3)
            .map(|m| own.block_on(redlock.lock(format!("{n}-{m}")).acquire()).expect("free"))
            .collect();
        let waiting = redlock.lock("waits").wait(Duration::from_secs(60)).acquire();
        let mut waiting = Some(Box::pin(waiting));
        let client = redlock.clone();
        let status = in_a_child(|| {
            guards.clear();
            drop((waiting.take(), client));
        });
        children += u32::from(status == 0);
        guards.clear();
    }
    IS_OVER.store(true, Ordering::Relaxed);
    for other in others {
        other.join().expect("it did not panic");
    }
    emit(&format!("children {children}"));
}

/// Forks on a thread that blocks for its locks.
pub fn and_block(args: &Args) {
    let redlock = runtime().block_on(builder(args).build()).expect("the server is there");
    let guard = redlock.lock("parents").acquire_blocking().expect("it is free");
    let mut guards = vec![guard];
    let status = in_a_child(|| {
        let guard = guards.pop().expect("it is there");
        emit(&format!("acquire {}", said(redlock.lock("other").acquire_blocking())));
        emit(&format!("release {}", said(guard.release_blocking())));
        let own = runtime().block_on(builder(args).build()).expect("the server is there");
        emit(&format!("own {}", said(own.lock("other").acquire_blocking())));
    });
    assert_eq!(status, 0);
    let guard = guards.pop().expect("it is there");
    emit(&format!("parent {:?}", guard.release_blocking()));
}
