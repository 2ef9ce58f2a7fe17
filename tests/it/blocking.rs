//! Threads without asynchronous code take locks as tasks do, and tasks are told that they may not
//! block.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Instant;

use redlock::{LockError, LockGuard, LostReason, Redlock, Released, Wait};
use tokio::task::{block_in_place, spawn_blocking};

use crate::fault_kit::{LONG, NOISE, client, nothing_left, runtime};
use crate::local_connections::MANY;
use crate::support::{Process, Server, block_thread, eventually, ms, secs, unique_prefix, within};

/// Runs `work` on a thread that no runtime knows, and waits for its result.
async fn on_a_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = thread::spawn(move || {
        assert!(tokio::runtime::Handle::try_current().is_err());
        work()
    });
    spawn_blocking(|| thread.join().expect("it did not panic")).await.unwrap()
}

/// Adds one, with a pause between the read and the write.
fn add(count: &AtomicU32) {
    let read = count.load(Ordering::SeqCst);
    block_thread(ms(2));
    count.store(read + 1, Ordering::SeqCst);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn threads_and_tasks_exclude_each_other() {
    let server = Server::shared().await;
    let (one, prefix) = client(&server.url()).await;
    let two = Redlock::builder().url(server.url()).prefix(prefix.clone()).build().await.unwrap();
    let count = Arc::new(AtomicU32::new(0));
    let mut threads = Vec::new();
    for n in 0..6 {
        let redlock = if n % 2 == 0 { one.clone() } else { two.clone() };
        let count = Arc::clone(&count);
        threads.push(tokio::spawn(on_a_thread(move || {
            for _ in 0..10 {
                let guard = redlock.lock("k").wait(LONG).acquire_blocking().unwrap();
                add(&count);
                guard.check().unwrap();
                assert_eq!(guard.release_blocking(), Ok(Released::Released));
            }
        })));
    }
    for _ in 0..10 {
        one.lock("k").wait(LONG).run(async { block_in_place(|| add(&count)) }).await.unwrap();
    }
    for thread in threads {
        within(LONG, thread).await.unwrap();
    }
    assert_eq!(count.load(Ordering::SeqCst), 70);
    nothing_left(&server.raw(), &prefix, NOISE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guard_of_a_thread_is_renewed_and_goes_into_a_task() {
    let server = Server::shared().await;
    let (redlock, prefix) = client(&server.url()).await;
    let request = redlock.lock("k").expire(secs(6));
    let guard = on_a_thread(move || request.acquire_blocking().unwrap()).await;
    eventually(secs(20), || async { guard.renewals() > 0 }).await;
    assert_eq!(guard.protect(async { 17 }).await, Ok(17));
    let back = on_a_thread(move || guard.release_blocking()).await;
    assert_eq!(back, Ok(Released::Released));
    let request = redlock.lock("k").expire(ms(200)).max_renew(0);
    let lost = on_a_thread(move || {
        let guard = request.acquire_blocking().unwrap();
        block_thread(ms(300));
        guard.check().unwrap_err()
    });
    let lost = lost.await;
    assert!(matches!(lost, LockError::Lost { reason: LostReason::RenewalLimit, .. }), "{lost}");
    nothing_left(&server.raw(), &prefix, NOISE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_lock_is_told_as_to_a_task() {
    let server = Server::shared().await;
    let (redlock, prefix) = client(&server.url()).await;
    let held = redlock.lock("k").acquire().await.unwrap();
    let request = redlock.lock("k").wait(ms(100));
    let error = on_a_thread(move || request.acquire_blocking().unwrap_err()).await;
    let LockError::Timeout { waited, holder, .. } = &error else { panic!("{error}") };
    assert!(*waited >= ms(100) && holder.as_deref() == Some(held.owner()), "{error}");
    let request = redlock.lock("k");
    assert!(on_a_thread(move || request.try_acquire_blocking().unwrap().is_none()).await);
    let request = redlock.lock("k").expire(ms(1));
    let error = on_a_thread(move || request.acquire_blocking().unwrap_err()).await;
    assert!(matches!(error, LockError::Config { .. }), "{error}");
    held.release().await.unwrap();
    let request = redlock.lock("k");
    assert!(on_a_thread(move || request.try_acquire_blocking().unwrap().is_some()).await);
    nothing_left(&server.raw(), &prefix, NOISE).await;
}

fn assert_in_task<T>(outcome: Result<T, LockError>) {
    match outcome.map(drop) {
        Err(error @ LockError::InTask { .. }) => {
            assert_eq!(error.key(), Some("k"));
            assert!(error.to_string().contains("spawn_blocking"), "{error}");
        }
        other => panic!("{other:?}"),
    }
}

/// In a task, which is told so, and nothing is sent.
async fn assert_refused(redlock: &Redlock) {
    assert_in_task(redlock.lock("k").acquire_blocking());
    assert_in_task(redlock.lock("k").try_acquire_blocking());
    let guard = redlock.lock("k").acquire().await.unwrap();
    assert_in_task(redlock.lock("k").wait(Wait::Forever).acquire_blocking());
    assert_in_task(guard.release_blocking());
    // It is released all the same.
    redlock.lock("k").wait(LONG).acquire().await.unwrap().release().await.unwrap();
    let request = redlock.lock("k");
    let lock = |request: redlock::LockRequest| {
        move || request.acquire_blocking().and_then(LockGuard::release_blocking)
    };
    assert_eq!(spawn_blocking(lock(request)).await.unwrap(), Ok(Released::Released));
}

/// From the client to the release.
#[tokio::test]
async fn a_program_without_a_runtime_makes_its_client_itself() {
    let server = Server::start().await;
    let url = server.url();
    let work = move || {
        let thread = thread::spawn(move || {
            assert!(tokio::runtime::Handle::try_current().is_err());
            let redlock = Redlock::builder().url(url.as_str()).reply_timeout(LONG);
            let redlock = redlock.build_blocking().unwrap();
            let released = redlock.lock("k").acquire_blocking().unwrap().release_blocking();
            assert_eq!(released, Ok(Released::Released));
            let nowhere = Redlock::builder().url("redis://127.0.0.1:1").build_blocking();
            assert!(nowhere.unwrap_err().is_unavailable());
        });
        thread.join().unwrap();
    };
    on_a_thread(work).await;
    for outcome in [
        Redlock::builder().url(server.url()).build_blocking(),
        redlock::init_blocking(server.url()),
    ] {
        let error = outcome.unwrap_err();
        assert!(matches!(error, LockError::InTask { .. }) && error.key().is_none(), "{error}");
        assert!(error.to_string().starts_with("a client cannot be made"), "{error}");
    }
}

#[tokio::test]
async fn a_task_of_one_thread_is_told_that_it_may_not_block() {
    let server = Server::shared().await;
    let (redlock, prefix) = client(&server.url()).await;
    assert_refused(&redlock).await;
    let many = redlock.clone();
    // On a connection of this runtime, too, which it has after some calls.
    for _ in 0..100 {
        redlock.lock("warm").run(async {}).await.unwrap();
    }
    tokio::spawn(async move { assert_refused(&many).await }).await.unwrap();
    nothing_left(&server.raw(), &prefix, NOISE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_of_many_threads_is_told_that_it_may_not_block() {
    let server = Server::shared().await;
    let (redlock, prefix) = client(&server.url()).await;
    assert_refused(&redlock).await;
    let inside = redlock.clone();
    let task = async move {
        assert_refused(&inside).await;
        block_in_place(|| inside.lock("k").acquire_blocking().unwrap().release_blocking())
    };
    assert_eq!(tokio::spawn(task).await.unwrap(), Ok(Released::Released));
    nothing_left(&server.raw(), &prefix, NOISE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_ends_the_wait_of_a_thread() {
    let server = Server::shared().await;
    let (redlock, prefix) = client(&server.url()).await;
    let other = Redlock::builder().url(server.url()).prefix(prefix.clone()).build().await.unwrap();
    let held = other.lock("k").acquire().await.unwrap();
    let request = redlock.lock("k").wait(Wait::Forever);
    let waits = tokio::spawn(on_a_thread(move || request.acquire_blocking().map(drop)));
    let queue = format!("{{{prefix}k}}:queue");
    let raw = server.raw();
    eventually(NOISE, || async { raw.int(&["EXISTS", &queue]).await == 1 }).await;
    assert_eq!(redlock.shutdown(NOISE).await, 0);
    let told = within(NOISE, waits).await.unwrap();
    assert!(matches!(told, Err(LockError::ShuttingDown { .. })), "{told:?}");
    held.release().await.unwrap();
    nothing_left(&raw, &prefix, NOISE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_thread_waits_until_its_lock_is_free() {
    let server = Server::shared().await;
    let (redlock, prefix) = client(&server.url()).await;
    let raw = server.raw();
    for n in 0..20 {
        let redlock = redlock.clone();
        on_a_thread(move || drop(redlock.lock(format!("k{n}")).acquire_blocking().unwrap())).await;
        assert_eq!(raw.get(&format!("{prefix}k{n}")).await, None);
    }
    let dies = redlock.clone();
    let thread = thread::spawn(move || {
        let _guard = dies.lock("k").acquire_blocking().unwrap();
        panic!("on purpose");
    });
    spawn_blocking(|| thread.join().unwrap_err()).await.unwrap();
    assert_eq!(raw.get(&format!("{prefix}k")).await, None);
}

/// A server that does not answer costs a thread its `wait`, and not more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_server_does_not_block_a_thread_for_ever() {
    let server = Server::start().await;
    let (redlock, prefix) = client(&server.url()).await;
    redlock.lock("warm").run(async {}).await.unwrap();
    server.freeze();
    let request = redlock.lock("k").wait(ms(300));
    let start = Instant::now();
    let error = on_a_thread(move || request.acquire_blocking().unwrap_err()).await;
    assert!(error.is_unavailable(), "{error}");
    assert!(start.elapsed() < ms(300) + NOISE);
    server.thaw();
    nothing_left(&server.raw(), &prefix, NOISE).await;
}

/// The runtime has a connection of its own, which nobody drives meanwhile.
#[test]
fn a_thread_that_only_entered_a_runtime_does_not_wait_for_it() {
    let runtime = runtime();
    let redlock = runtime.block_on(async {
        let builder = Redlock::builder().url(Server::shared().await.url()).reply_timeout(LONG);
        let redlock = builder.prefix(unique_prefix()).build().await.unwrap();
        for _ in 0..MANY {
            redlock.lock("warm").run(async {}).await.unwrap();
        }
        redlock
    });
    let _entered = runtime.enter();
    let guard = redlock.lock("k").try_acquire_blocking().unwrap().expect("it is free");
    assert_eq!(guard.release_blocking(), Ok(Released::Released));
    let several = redlock.lock_all(["k", "l"]).wait(LONG).acquire_blocking().unwrap();
    assert_eq!(several.release_blocking(), Ok(Released::Released));
}

/// A child of a fork is told so; it does not wait for threads that it does not have.
#[tokio::test]
async fn a_child_of_a_fork_is_told() {
    let server = Server::shared().await;
    let mut parent = Process::spawn("fork-and-block", &[&server.url(), &unique_prefix()]);
    assert_eq!(parent.event("acquire").await, "forked");
    assert_eq!(parent.event("release").await, "forked");
    assert_eq!(parent.event("own").await, "ok");
    assert_eq!(parent.event("parent").await, "Ok(Released)");
}
