//! Guards dropped where nothing more can be awaited.

use std::panic::{AssertUnwindSafe, catch_unwind};

use redlock::{LockGuard, Redlock};
use tokio::runtime::{Builder, Runtime};

use crate::fault_kit::{NOISE, client, nothing_left, runtime};
use crate::support::process::block_on;
use crate::support::supervise::Exit;
use crate::support::{Process, Server, unique_prefix};

const GUARDS: usize = 50;
const CHILDREN: usize = 25;

fn multi_thread() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// Drops guards in some way, and sees that no lock is left long before its lease ends.
fn all_are_released(mut drop_one: impl FnMut(&Redlock, String)) {
    let (redlock, prefix, server) = block_on(async {
        let server = Server::shared().await;
        let (redlock, prefix) = client(&server.url()).await;
        (redlock, prefix, server)
    });
    for n in 0..GUARDS {
        drop_one(&redlock, format!("k{n}"));
    }
    block_on(async {
        nothing_left(&server.raw(), &prefix, NOISE).await;
        assert_eq!(redlock.shutdown(NOISE).await, 0);
    });
    assert!(redlock.held().is_empty());
}

async fn acquire(redlock: &Redlock, key: String) -> LockGuard {
    redlock.lock(key).acquire().await.unwrap()
}

#[test]
fn in_a_current_thread_runtime_about_to_end() {
    all_are_released(|redlock, key| {
        runtime().block_on(async { drop(acquire(redlock, key).await) });
    });
}

#[test]
fn in_a_multi_thread_runtime_about_to_end() {
    all_are_released(|redlock, key| {
        multi_thread().block_on(async { drop(acquire(redlock, key).await) });
    });
}

#[test]
fn in_a_task_that_the_end_of_its_runtime_cancels() {
    all_are_released(|redlock, key| {
        let (runtime, redlock) = (multi_thread(), redlock.clone());
        let (held, is_held) = tokio::sync::oneshot::channel();
        runtime.spawn(async move {
            let run = redlock.lock(key).run(async move {
                held.send(()).unwrap();
                std::future::pending::<()>().await;
            });
            run.await
        });
        runtime.block_on(is_held).unwrap();
        runtime.shutdown_background();
    });
}

#[test]
fn without_any_runtime() {
    all_are_released(|redlock, key| {
        let runtime = runtime();
        let guard = runtime.block_on(acquire(redlock, key));
        drop(runtime);
        drop(guard);
    });
}

#[test]
fn on_another_thread_without_a_runtime() {
    all_are_released(|redlock, key| {
        let guard = runtime().block_on(acquire(redlock, key));
        std::thread::spawn(move || drop(guard)).join().unwrap();
    });
}

#[test]
fn in_a_panic() {
    all_are_released(|redlock, key| {
        let runtime = runtime();
        let panics = async {
            let _guard = acquire(redlock, key).await;
            std::panic::resume_unwind(Box::new("as it was told"));
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| runtime.block_on(panics)));
        assert!(outcome.is_err());
    });
}

#[test]
fn in_a_panic_of_a_locked_body() {
    all_are_released(|redlock, key| {
        let run = redlock.lock(key).run(async {
            std::panic::resume_unwind(Box::new("as it was told"));
        });
        let outcome = catch_unwind(AssertUnwindSafe(|| runtime().block_on(run).unwrap()));
        assert!(outcome.is_err());
    });
}

/// Children that end right behind a drop. They run two at a time, as many as there are cores.
async fn children_leave_nothing(role: &'static str, exit: Exit) {
    let server = Server::shared().await;
    let prefix = unique_prefix();
    let run = |n: usize| {
        let (url, prefix) = (server.url(), prefix.clone());
        async move {
            let key = format!("k{n}");
            let mut child = Process::spawn(role, &[&url, &prefix, &key, "60000"]);
            let ended = child.wait(NOISE * 2).await;
            assert_eq!(ended, exit, "{}", child.stderr());
        }
    };
    for n in (0..CHILDREN).step_by(2) {
        tokio::join!(run(n), run(n + 1));
    }
    // The server may still have to read what the last one sent.
    nothing_left(&server.raw(), &prefix, NOISE).await;
}

#[tokio::test]
async fn as_the_last_thing_a_process_does_in_its_runtime() {
    children_leave_nothing("drop-and-end", Exit::Code(0)).await;
}

#[tokio::test]
async fn as_the_last_thing_a_process_does() {
    children_leave_nothing("end-and-drop", Exit::Code(0)).await;
}

/// By a local of the thread that is dropped last of all.
#[tokio::test]
async fn behind_the_last_thing_a_process_does() {
    children_leave_nothing("end-with-a-local-guard", Exit::Code(0)).await;
    children_leave_nothing("end-with-a-local-runtime", Exit::Code(0)).await;
}

#[tokio::test]
async fn in_the_panic_that_ends_a_process() {
    children_leave_nothing("drop-by-panic", Exit::Code(101)).await;
}
