//! `Lease::within`: steps of a body on threads that block.

use tokio::task::spawn_blocking;

use crate::client::Redlock;
use crate::error::LockError;
use crate::fencing::FencingToken;
use crate::lease::Lease;
use crate::options::Wait;
use crate::state::LostReason;

async fn memory() -> Redlock {
    Redlock::builder().memory().build().await.unwrap()
}

fn current() -> Option<FencingToken> {
    Lease::current().map(|lease| lease.fencing_token())
}

#[tokio::test]
async fn a_step_on_another_thread_is_inside_of_the_hold() {
    let redlock = memory().await;
    let client = redlock.clone();
    let body = async move {
        let lease = Lease::current().unwrap();
        let step = move || {
            let own = Some(lease.fencing_token());
            let request = || client.lock("k").wait(Wait::Never);
            assert!(current().is_none() && request().acquire_blocking().unwrap_err().is_busy());
            let nested = lease.within(|| {
                assert_eq!(current(), own);
                request().acquire_blocking().unwrap().fencing_token()
            });
            assert!(current().is_none());
            Some(nested) == own
        };
        spawn_blocking(step).await.unwrap()
    };
    assert_eq!(redlock.lock("k").run(body).await, Ok(true));
}

/// Two threads of one body are siblings.
#[tokio::test]
async fn calls_of_two_steps_take_turns() {
    let redlock = memory().await;
    let client = redlock.clone();
    let body = async move {
        let lease = Lease::current().unwrap();
        let other = lease.clone();
        let request = move || client.lock("k").wait(Wait::Never);
        let again = request.clone();
        let first = spawn_blocking(move || lease.within(|| request().acquire_blocking()));
        let first = first.await.unwrap().unwrap();
        let second = spawn_blocking(move || other.within(|| again().acquire_blocking()));
        let told = second.await.unwrap();
        drop(first);
        matches!(told, Err(LockError::TurnTaken { .. }))
    };
    assert_eq!(redlock.lock("k").run(body).await, Ok(true));
}

#[tokio::test]
async fn a_step_after_the_end_of_its_hold_takes_no_lock_of_its_own() {
    let redlock = memory().await;
    let guard = redlock.lock("k").acquire().await.unwrap();
    let lease = guard.lease().clone();
    guard.release().await.unwrap();
    let step = move || lease.within(|| redlock.lock("k").acquire_blocking().map(drop));
    let told = spawn_blocking(step).await.unwrap();
    assert!(matches!(told, Err(LockError::Lost { reason: LostReason::Released, .. })), "{told:?}");
}
