//! A client that is the global one for a future.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::task::Poll;

use tokio::task::LocalSet;

use crate::client::Redlock;
use crate::error::LockError;
use crate::global::global;

async fn client(prefix: &str) -> Redlock {
    Redlock::builder().memory().prefix(prefix).build().await.unwrap()
}

/// What `here` says outside of any scope.
const NONE: &str = "none";

/// Which client is the global one here, by its prefix.
fn here() -> String {
    match global() {
        Ok(redlock) => redlock.prefix().to_owned(),
        Err(LockError::NotInitialized) => NONE.to_owned(),
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn the_innermost_scope_counts_until_its_end() {
    let (outer, inner) = (client("outer").await, client("inner").await);
    let seen = outer.scope(async {
        let before = here();
        let nested = inner.scope(async {
            tokio::task::yield_now().await;
            here()
        });
        (before, nested.await, here())
    });
    assert_eq!(here(), NONE, "not polled yet");
    assert_eq!(seen.await, ("outer".to_owned(), "inner".to_owned(), "outer".to_owned()));
    assert_eq!(here(), NONE);
}

#[tokio::test]
async fn futures_that_are_polled_in_turn_each_see_their_own_client() {
    let (one, two) = (client("one").await, client("two").await);
    let look = async || {
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
        here()
    };
    let seen = tokio::join!(one.scope(look()), two.scope(look()), look());
    assert_eq!(seen, ("one".to_owned(), "two".to_owned(), NONE.to_owned()));
}

#[tokio::test]
async fn what_is_spawned_is_outside_unless_it_has_a_scope_of_its_own() {
    let redlock = client("scope").await;
    let seen = redlock.scope(async {
        let plain = tokio::spawn(async { here() }).await.unwrap();
        let blocking = tokio::task::spawn_blocking(here).await.unwrap();
        let scoped = tokio::spawn(global().unwrap().scope(async { here() })).await.unwrap();
        (plain, blocking, scoped)
    });
    assert_eq!(seen.await, (NONE.to_owned(), NONE.to_owned(), "scope".to_owned()));
}

#[tokio::test]
async fn a_task_that_a_scope_polls_is_outside() {
    let (redlock, local) = (client("scope").await, LocalSet::new());
    let task = local.spawn_local(async { here() });
    let seen = redlock.scope(local.run_until(async { (task.await.unwrap(), here()) }));
    assert_eq!(seen.await, (NONE.to_owned(), "scope".to_owned()));
}

#[tokio::test]
async fn a_panic_ends_the_scope() {
    let redlock = client("scope").await;
    let mut dies = Box::pin(redlock.scope(async { panic!("on purpose") }));
    let polled = poll_fn(|cx| {
        let poll = AssertUnwindSafe(|| dies.as_mut().poll(cx).map(drop));
        Poll::Ready(std::panic::catch_unwind(poll).is_err())
    });
    assert!(polled.await);
    assert_eq!(here(), NONE);
}

/// What a destructor sees.
struct Looks(std::sync::mpsc::Sender<String>);

impl Drop for Looks {
    fn drop(&mut self) {
        self.0.send(here()).unwrap();
    }
}

/// Whether the future is dropped where it stands, before its first poll, or is done.
#[tokio::test]
async fn destructors_run_inside_of_the_scope() {
    let redlock = client("scope").await;
    for polls in 0..3 {
        let (sender, receiver) = std::sync::mpsc::channel();
        let looks = Looks(sender);
        let mut scoped = Box::pin(redlock.scope(async move {
            let _looks = looks;
            tokio::task::yield_now().await;
        }));
        for _ in 0..polls {
            poll_fn(|cx| Poll::Ready(scoped.as_mut().poll(cx).is_ready())).await;
        }
        drop(scoped);
        assert_eq!(receiver.recv().unwrap(), "scope", "{polls}");
        assert_eq!(here(), NONE);
    }
}

#[tokio::test]
async fn a_future_that_is_polled_again_after_its_end_panics_as_any_other() {
    let redlock = client("scope").await;
    let mut scoped = pin!(redlock.scope(async {}));
    scoped.as_mut().await;
    let again = poll_fn(|cx| {
        let poll = AssertUnwindSafe(|| scoped.as_mut().poll(cx).is_ready());
        Poll::Ready(std::panic::catch_unwind(poll).is_err())
    });
    assert!(again.await);
    assert_eq!(here(), NONE);
}
