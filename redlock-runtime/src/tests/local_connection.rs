//! Callers' runtimes that send commands themselves, and may stop at any moment. In real time: the
//! background thread takes part.

use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::Runtime;

use super::fake::{Fate, client, client_at};
use super::server::Server;
use super::wakers::Panics;
use crate::acquire::{Order, start};
use crate::backend::LockBackend;
use crate::background_thread;
use crate::blocking::block_on;
use crate::client::Redlock;
use crate::error::NodeErrorKind;
use crate::executor::Executor;
use crate::handoff::Ownership;
use crate::key::LockKey;
use crate::kind::Kind;
use crate::options::{Policy, Wait};
use crate::state::{LeaseState, Released};

const EXPIRE: Duration = Duration::from_secs(30);

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Pollers and other tasks of its callers run on it, as its clock stands still.
fn paused_runtime() -> Runtime {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().start_paused(true).build().unwrap()
}

/// A client with a local connection, and what it holds.
fn on_a_local_connection(runtime: &Runtime) -> (Arc<Server>, Redlock, Ownership) {
    let server = Server::new();
    server.give_local_connection();
    let redlock = client_at(Arc::clone(&server) as Arc<dyn LockBackend>, 100, false);
    let order = Order {
        template: "k",
        key: LockKey::new("", "k").unwrap(),
        kind: Kind::Exclusive,
        policy: Policy::DEFAULT,
        skips_busy: false,
        shutdowns_before: redlock.engine().shutdowns().count(),
        is_leader: false,
    };
    let ownership = runtime.block_on(start(redlock.engine(), order)).unwrap();
    assert_eq!(server.take_verbs(), ["acquire"]);
    (server, redlock, ownership)
}

/// Waits until nothing is on its way, on a runtime of its own.
fn settled(redlock: &Redlock) {
    runtime().block_on(redlock.engine().pending.settled());
}

/// A proxy may have said so, whose connection to the server broke.
#[test]
fn a_release_that_ends_in_an_error_that_proves_nothing_goes_on_in_the_background() {
    for (kind, goes_on) in [(NodeErrorKind::Refused, true), (NodeErrorKind::NoPermission, false)] {
        let runtime = runtime();
        let (server, redlock, ownership) = on_a_local_connection(&runtime);
        server.next("release", [Fate::Refused(kind, true)]);
        runtime.block_on(async { ownership.release_unawaited(true).unwrap().await });
        settled(&redlock);
        assert_eq!(
            (server.take_verbs().len() > 1, server.owner("k").is_none()),
            (goes_on, goes_on)
        );
    }
}

#[test]
fn a_release_in_the_background_has_left_when_it_returns() {
    let runtime = runtime();
    let (server, redlock, ownership) = on_a_local_connection(&runtime);
    runtime.block_on(async {
        ownership.release_unawaited(true).unwrap().await;
        assert_eq!(server.take_verbs(), ["release"]);
    });
    settled(&redlock);
    assert_eq!((server.take_verbs(), server.owner("k")), (Vec::new(), None));
}

/// It may be the only one that would drive it.
#[test]
fn a_thread_that_blocks_takes_no_connection_of_its_runtime() {
    let runtime = runtime();
    let (_server, redlock, ownership) = on_a_local_connection(&runtime);
    let _entered = runtime.enter();
    let has_route = || redlock.engine().route().is_some();
    let nested = || block_on(async { block_on(async { has_route() }) || has_route() });
    assert_eq!((has_route(), nested(), has_route()), (true, false, true));
    assert_eq!(block_on(ownership.release()).unwrap().unwrap(), Released::Released);
    assert!(redlock.lock("k").try_acquire_blocking().unwrap().is_some());
}

/// The caller blocks its runtime, and with it the connection that it waits for.
#[test]
fn the_background_finds_the_outcome_of_an_awaited_release_that_is_not_driven() {
    for (fate, expected) in [
        (Fate::LostRequest, Released::Released),
        // It may have been carried out, and it was.
        (Fate::LostReply, Released::Unknown),
    ] {
        let runtime = runtime();
        let (server, redlock, ownership) = on_a_local_connection(&runtime);
        server.next("release", [fate]);
        let outcome = runtime.block_on(ownership.release());
        assert_eq!(outcome.unwrap().unwrap(), expected, "{fate:?}");
        assert_eq!((server.take_verbs().len(), server.owner("k")), (2, None));
        settled(&redlock);
    }
}

/// The runtime is alive, but nobody drives it any more.
#[test]
fn the_background_thread_takes_over_a_release_that_is_not_driven() {
    let runtime = runtime();
    let (server, redlock, ownership) = on_a_local_connection(&runtime);
    server.next("release", [Fate::LostRequest]);
    runtime.block_on(async { ownership.release_unawaited(true).unwrap().await });
    settled(&redlock);
    assert_eq!((server.take_verbs().len(), server.owner("k")), (2, None));
}

/// The release is slow on its connection, and the attempt of a caller that does not wait overtakes
/// it.
#[test]
fn a_call_that_does_not_wait_comes_behind_a_release_that_nobody_awaits() {
    let runtime = runtime();
    let (server, redlock, ownership) = on_a_local_connection(&runtime);
    server.next("release", [Fate::LostRequest]);
    runtime.block_on(async {
        let _leaving = ownership.release_unawaited(true).unwrap();
        let guard = redlock.lock("k").try_acquire().await.unwrap();
        drop(guard.expect("its own process has let go of it"));
    });
    settled(&redlock);
    assert_eq!(server.owner("k"), None);
}

/// Drops a call that has taken the lock, before it learns of that.
async fn cancel(call: impl Future, has_taken: impl Fn() -> bool) {
    let mut call = pin!(call);
    assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    while !has_taken() {
        tokio::task::yield_now().await;
    }
}

/// Calls are cancelled whose commands meet this fate, and calls that do not wait follow at once.
async fn try_behind_cancelled_calls(server: &Server, redlock: &Redlock, fate: Fate) {
    let is_taken = || server.owner("k").is_some();
    server.next("acquire", [fate]);
    cancel(redlock.lock("k").acquire(), is_taken).await;
    drop(redlock.lock("k").try_acquire().await.unwrap().expect("it was abandoned"));
    redlock.engine().pending.settled().await;
    server.next("acquire_all", [fate]);
    cancel(redlock.lock_all(["k", "other"]).acquire(), is_taken).await;
    let keys = redlock.lock_all(["other", "k"]);
    drop(keys.try_acquire().await.unwrap().expect("they were abandoned"));
}

/// Their clean-up goes over another connection.
#[test]
fn a_call_that_does_not_wait_comes_behind_the_clean_up_of_cancelled_ones() {
    let server = Server::new();
    server.give_local_connection();
    server.acquires_all();
    let redlock = client_at(Arc::clone(&server) as Arc<dyn LockBackend>, 100, false);
    runtime().block_on(try_behind_cancelled_calls(&server, &redlock, Fate::LostReply));
    settled(&redlock);
    assert_eq!(server.owner("k"), None);
}

/// The background thread sends the commands of a runtime without a connection of its own.
#[test]
fn a_call_that_does_not_wait_comes_behind_cancelled_ones_of_the_background_thread() {
    let server = Server::new();
    server.acquires_all();
    let redlock = client_at(Arc::clone(&server) as Arc<dyn LockBackend>, 100, false);
    let slow = Fate::Slow(Duration::from_millis(100));
    runtime().block_on(try_behind_cancelled_calls(&server, &redlock, slow));
    settled(&redlock);
    assert_eq!(server.owner("k"), None);
}

#[test]
fn a_release_whose_runtime_ends_is_sent_again_by_the_background_thread() {
    let runtime = runtime();
    let (server, redlock, ownership) = on_a_local_connection(&runtime);
    server.next("release", [Fate::LostRequest]);
    runtime.block_on(async {
        let mut release = Box::pin(ownership.release());
        assert!(release.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        tokio::spawn(release);
    });
    drop(runtime);
    settled(&redlock);
    assert_eq!((server.take_verbs().len(), server.owner("k")), (2, None));
}

/// Whoever waits elsewhere does not depend on the runtime that called the poller.
#[test]
fn a_poller_whose_runtime_ends_has_an_heir() {
    let server = Server::new();
    let holder = server.set("k", EXPIRE);
    let redlock = client(Arc::clone(&server) as Arc<dyn LockBackend>, 100);
    let mut waiter = pin!(redlock.lock("k").wait(Wait::Forever).acquire());
    paused_runtime().block_on(async {
        let moment = Duration::from_millis(1);
        assert!(tokio::time::timeout(moment, &mut waiter).await.is_err());
        assert_eq!(server.waiting(), 1);
    });
    server.free(&holder);
    runtime().block_on(async {
        let guard = waiter.await.unwrap();
        assert_eq!(server.owner("k").as_deref(), Some(guard.owner()));
    });
}

#[test]
fn a_poller_whose_runtime_ends_leaves_neither_a_lock_nor_an_entry() {
    for is_held_here in [true, false] {
        let (runtime, server) = (paused_runtime(), Server::new());
        let redlock = client(Arc::clone(&server) as Arc<dyn LockBackend>, 100);
        let holder = (!is_held_here).then(|| server.set("k", EXPIRE));
        runtime.block_on(async {
            let guard = redlock.lock("k").try_acquire().await.unwrap();
            assert_eq!(guard.is_some(), is_held_here);
            let request = redlock.lock("k").expire(EXPIRE / 2).wait(Wait::Forever);
            let mut waiter = pin!(request.acquire());
            let moment = Duration::from_millis(1);
            assert!(tokio::time::timeout(moment, &mut waiter).await.is_err());
            assert_eq!(server.waiting(), usize::from(!is_held_here));
            // The poller is left the lock, and its caller goes; it is not polled any more.
            drop(guard);
        });
        drop(runtime);
        settled(&redlock);
        if let Some(holder) = holder {
            server.free(&holder);
        }
        assert_eq!((server.owner("k"), server.waiting()), (None, 0), "{is_held_here}");
    }
}

/// Polls `future` once, and waits until its waker was called, and panicked.
async fn wake_with_a_panic(future: impl Future) {
    let panics = Arc::<Panics>::default();
    let waker = Waker::from(Arc::clone(&panics));
    let mut future = pin!(future);
    assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    while panics.0.load(Ordering::Relaxed) == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// A timer of the background thread calls that waker: a panic there would end the thread, and with
/// it every lease of the process.
#[test]
fn a_waker_that_panics_does_not_end_the_background_thread() {
    let runtime = runtime();
    let (server, redlock, ownership) = on_a_local_connection(&runtime);
    server.fill_local_connection();
    let background = || background_thread::handle().unwrap().id();
    let before = background();
    runtime.block_on(async {
        let other = redlock.lock("other").acquire().await.unwrap();
        let is_well = async || {
            // A thread that dies takes its tasks along.
            let alive = Executor::BackgroundThread.run("a question", async {}).await;
            assert_eq!((alive, background(), other.state()), (Ok(()), before, LeaseState::Held));
        };
        server.next("acquire", [Fate::LostRequest]);
        wake_with_a_panic(redlock.lock("free").acquire()).await;
        is_well().await;
        server.next("release", [Fate::LostRequest]);
        wake_with_a_panic(ownership.release_unawaited(true).unwrap()).await;
        is_well().await;
    });
    settled(&redlock);
}

/// The background thread makes its attempts, and takes back what was granted before each poll.
#[test]
fn a_call_that_does_not_wait_and_is_always_polled_late_ends() {
    let server = Server::new();
    let redlock = client_at(Arc::clone(&server) as Arc<dyn LockBackend>, 100, false);
    let request = redlock.lock("k").expire(EXPIRE).wait(Wait::Never);
    let mut call = pin!(request.acquire());
    let mut nobody = Context::from_waker(Waker::noop());
    runtime().block_on(async {
        for _ in 0..2 {
            // The background thread makes the attempt after this poll, not at the same time.
            let (polled, is_polled) = mpsc::channel::<()>();
            background_thread::spawn(async move {
                let _ = is_polled.recv();
            })
            .unwrap();
            assert!(call.as_mut().poll(&mut nobody).is_pending());
            drop(polled);
            // It is granted, and taken back.
            for is_taken in [true, false] {
                while server.owner("k").is_some() != is_taken {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        }
        let Poll::Ready(outcome) = call.as_mut().poll(&mut nobody) else { panic!("it goes on") };
        let error = outcome.unwrap_err();
        assert!(error.is_unavailable(), "{error}");
        assert!(error.to_string().ends_with("keeps the thread of this task busy)"), "{error}");
    });
    settled(&redlock);
}
