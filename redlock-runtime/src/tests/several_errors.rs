//! What a call for several keys learns that does not get them: busy, unavailable or shutting down.

use std::time::Duration;

use tokio::time::Instant;

use super::fake::{Fake, Fate, SECOND, fake};
use super::several_keys::{EXPIRE, taken};
use crate::client::Redlock;
use crate::error::{LockError, NodeErrorKind};
use crate::options::Wait;

const KEYS: [&str; 3] = ["a", "b", "c"];
const MOMENT: Duration = Duration::from_millis(1);

/// A call that may not wait, of which the last key is granted after 900 ms. What `meanwhile` does
/// to the first key happens after 100 ms.
async fn hasty(
    expire: Duration,
    meanwhile: impl FnOnce(&Fake) + Send + 'static,
) -> (LockError, Redlock) {
    let (redlock, fake) = fake();
    fake.next_acquires([MOMENT, MOMENT, SECOND * 9 / 10].map(Fate::Slow));
    let upheaval = tokio::spawn(async move {
        tokio::time::sleep(SECOND / 10).await;
        meanwhile(&fake);
    });
    let request = redlock.lock_all(KEYS).expire(expire).wait(Wait::Never);
    let error = request.acquire().await.unwrap_err();
    upheaval.await.unwrap();
    (error, redlock)
}

/// By a renewal while the others are waited for, or by the last command.
#[tokio::test(start_paused = true)]
async fn a_key_that_is_gone_is_not_called_busy() {
    for expire in [SECOND, EXPIRE] {
        let (error, redlock) = hasty(expire, |fake| fake.store.remove("a")).await;
        assert!(error.is_unavailable() && !error.is_busy(), "{error}");
        assert_eq!((error.key(), error.retry_after()), (Some("a"), Some(SECOND)));
        let text = error.to_string();
        assert!(text.contains("its key is gone (the process was frozen"), "{text}");
        assert_eq!(redlock.shutdown(SECOND).await, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_another_owner_took_is_busy() {
    for expire in [SECOND, EXPIRE] {
        let steal = |fake: &Fake| fake.store.set("a", "thief", 60 * SECOND);
        let (error, redlock) = hasty(expire, steal).await;
        assert!(matches!(&error, LockError::Timeout { key, .. } if key == "a"), "{error}");
        assert_eq!(redlock.shutdown(SECOND).await, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn keys_that_could_not_be_renewed_are_not_called_busy() {
    let (error, _) = hasty(SECOND, |fake| fake.next_renews(vec![Fate::LostRequest; 100])).await;
    assert!(error.is_unavailable() && !error.is_busy(), "{error}");
    assert!(error.to_string().contains("in time (check the connection to redis"), "{error}");
}

/// The loss is found so late that no pause fits into the wait any more.
#[tokio::test(start_paused = true)]
async fn a_call_that_lost_a_key_has_a_last_try_at_the_end_of_its_wait() {
    let (redlock, fake) = fake();
    fake.store.set("c", "somebody", 60 * SECOND);
    let wait = EXPIRE * 2 / 3 + 2 * MOMENT;
    let request = redlock.lock_all(KEYS).expire(EXPIRE).wait(wait);
    let waiting = tokio::spawn(request.acquire());
    tokio::time::sleep(SECOND).await;
    fake.store.remove("a");
    let error = waiting.await.unwrap().unwrap_err();
    let LockError::Timeout { key, holder, waited, .. } = &error else { panic!("{error}") };
    assert_eq!((&**key, holder.as_deref()), ("c", Some("somebody")));
    assert!(*waited >= wait, "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_slow_answers_use_up_is_not_called_busy() {
    let (redlock, fake) = fake();
    fake.next_acquires([490, 240, 240, 240].map(Duration::from_millis).map(Fate::Slow));
    let request = redlock.lock_all(["a", "b", "c", "d"]).expire(EXPIRE).wait(SECOND / 2);
    let error = request.acquire().await.unwrap_err();
    assert!(error.is_unavailable() && error.key() == Some("c"), "{error}");
    assert!(error.to_string().contains("took too long (choose a longer `wait`"), "{error}");
    assert_eq!(redlock.shutdown(SECOND).await, 0);
    assert_eq!(taken(&fake, &["a", "b", "c", "d"]), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn an_agreement_takes_no_longer_than_the_wait() {
    let (redlock, fake) = fake();
    fake.next_raises(vec![Fate::LostRequest; 100]);
    let (start, wait) = (Instant::now(), SECOND * 3 / 10);
    let error = redlock.lock_all(KEYS).expire(EXPIRE).wait(wait).acquire().await.unwrap_err();
    assert!(matches!(error, LockError::Unavailable { .. }), "{error}");
    assert!(start.elapsed() <= wait + SECOND / 4 + 2 * MOMENT, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_an_agreement() {
    let (redlock, fake) = fake();
    fake.next_raises(vec![Fate::LostRequest; 100]);
    let request = redlock.lock_all(KEYS).expire(EXPIRE).wait(Wait::Forever);
    let waiting = tokio::spawn(request.acquire());
    tokio::time::sleep(SECOND * 5 / 2).await;
    let start = Instant::now();
    assert_eq!(redlock.shutdown(SECOND).await, 0);
    let ended = tokio::time::timeout(SECOND, waiting).await.expect("it ends").unwrap();
    assert!(matches!(ended, Err(LockError::ShuttingDown { .. })), "{ended:?}");
    assert_eq!((start.elapsed(), taken(&fake, &KEYS)), (Duration::ZERO, vec![]));
}

#[tokio::test(start_paused = true)]
async fn an_agreement_that_fails_says_of_which_key() {
    let (redlock, fake) = fake();
    let refused = Fate::Refused(NodeErrorKind::WrongType, true);
    fake.next_raises([Fate::Slow(MOMENT), refused]);
    let error = redlock.lock_all(["a", "b", "c"]).acquire().await.unwrap_err();
    assert!(error.is_unavailable() && error.key() == Some("b"), "{error}");
}
