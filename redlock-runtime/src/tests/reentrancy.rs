//! Nested calls, and what they must not take for the lock that they hold.

use std::cell::RefCell;
use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Waker};

use super::fake::{Fake, client, client_at, fake};
use crate::guard::LockGuard;
use crate::lease::Lease;

#[tokio::test(start_paused = true)]
async fn a_nested_call_re_enters_what_its_task_holds_however_deep() {
    let (redlock, fake) = fake();
    let nested = async {
        let outer = Lease::current().unwrap().fencing_token();
        let inner = redlock.lock("b").run(async {
            let again = redlock.lock("a").try_acquire().await.unwrap().unwrap();
            (again.key().to_owned(), again.fencing_token())
        });
        assert_eq!(inner.await.unwrap(), ("a".to_owned(), outer));
    };
    redlock.lock("a").run(nested).await.unwrap();
    let log = fake.take_log();
    let verbs: Vec<_> = log.iter().map(|line| line.rsplit_once(' ').unwrap().0).collect();
    assert_eq!(verbs, ["acquire a", "acquire b", "release b", "release a"]);
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_another_client_holds_is_not_re_entered() {
    let (redlock, fake) = fake();
    let other = client(Arc::clone(&fake) as Arc<_>, 100);
    let nested = async { other.lock("a").try_acquire().await.unwrap().is_none() };
    assert!(redlock.lock("a").run(nested).await.unwrap());
}

/// Takes a step under a lock when the locals of its thread are dropped.
struct AtThreadEnd(LockGuard, mpsc::Sender<bool>);

impl Drop for AtThreadEnd {
    fn drop(&mut self) {
        self.1.send(takes_a_step(&self.0)).unwrap();
    }
}

fn takes_a_step(guard: &LockGuard) -> bool {
    let body = pin!(guard.protect(async {}));
    body.poll(&mut Context::from_waker(Waker::noop())) == Poll::Ready(Ok(()))
}

/// A panic there would end the process.
#[test]
fn a_body_may_be_polled_while_the_locals_of_its_thread_are_dropped() {
    thread_local! {
        static END: RefCell<Option<AtThreadEnd>> = const { RefCell::new(None) };
    }
    let redlock = client_at(Fake::new("fake"), 100, false);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let guard = runtime.block_on(redlock.lock("k").acquire()).unwrap();
    let (sender, told) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        // What is used first is dropped last.
        END.with(|end| assert!(end.borrow().is_none()));
        assert!(takes_a_step(&guard));
        END.set(Some(AtThreadEnd(guard, sender)));
    });
    assert!(told.recv().unwrap());
    thread.join().unwrap();
}
