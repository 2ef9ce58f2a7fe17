//! A call ends when it was promised to, however far its servers are and however many keys it wants.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::client::Redlock;
use crate::options::Wait;
use crate::testing::{Command, FaultyStore};

const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
/// How long a command may take.
const REPLY: Duration = Duration::from_secs(1);
/// By how much a call may exceed its wait.
const LAST_ATTEMPT: Duration = Duration::from_millis(250);
const DELAYS: [u64; 10] = [20, 80, 125, 240, 300, 333, 490, 600, 780, 965];
const WAITS: [u64; 8] = [0, 10, 50, 120, 300, 480, 900, 1480];

/// One server whose commands take so long, or three that have to agree on each fencing token.
async fn servers(is_one: bool, delay: Duration) -> Redlock {
    let stores = FaultyStore::masters::<3>();
    let stores = if is_one { &stores[..1] } else { &stores };
    let redlock = Redlock::builder().faulty_stores(stores).build().await.unwrap();
    if let [_, behind, _] = stores {
        behind.down();
        for key in KEYS {
            redlock.lock(key).acquire().await.unwrap().release().await.unwrap();
        }
        behind.up();
        sleep(60 * REPLY).await;
        // The node is known to be up.
        redlock.lock("k").acquire().await.unwrap().release().await.unwrap();
        sleep(REPLY).await;
    }
    for store in stores {
        store.every(Command::Any).delay(delay);
    }
    redlock
}

/// Each key needs two round trips to masters, one to a single server.
async fn ends_in_time(is_one: bool, keys: u32) {
    let round_trips = if is_one { 1 } else { 2 };
    for delay in DELAYS.map(Duration::from_millis) {
        for wait in WAITS.map(Duration::from_millis) {
            let redlock = servers(is_one, delay).await;
            let start = Instant::now();
            let wanted = KEYS.iter().copied().take(keys as usize);
            let granted = redlock.lock_all(wanted).wait(wait).acquire().await;
            let took = start.elapsed();
            let time = if wait.is_zero() { round_trips * REPLY } else { wait + LAST_ATTEMPT };
            let what = format!("{delay:?}, wait {wait:?}, took {took:?}: {granted:?}");
            assert!(took <= time + Duration::from_millis(5), "{what}");
            // One more round trip agrees on the token of several keys.
            let needed = delay * (keys * round_trips + u32::from(keys > 1));
            assert!(granted.is_ok() || needed >= time, "{what}");
            if let Err(error) = granted {
                assert!(error.is_unavailable(), "{what}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_for_one_key_of_one_server() {
    ends_in_time(true, 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_for_one_key_of_several_masters() {
    ends_in_time(false, 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_for_several_keys_of_one_server() {
    ends_in_time(true, 6).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_for_several_keys_of_several_masters() {
    ends_in_time(false, 6).await;
}

/// Whoever does not wait is told who has a key that it came to.
#[tokio::test(start_paused = true)]
async fn a_call_that_does_not_wait_has_the_time_of_one_attempt_for_all_keys() {
    let stores = FaultyStore::masters::<3>();
    let connect = async || Redlock::builder().faulty_stores(&stores).build().await.unwrap();
    let (holder, redlock) = (connect().await, connect().await);
    let _held = holder.lock("3").acquire().await.unwrap();
    for store in &stores {
        store.every(Command::Any).delay(Duration::from_millis(300));
    }
    let start = Instant::now();
    let keys = (4..40).map(|number| number.to_string());
    let error = redlock.lock_all(keys).wait(Wait::Never).acquire().await.unwrap_err();
    assert!(start.elapsed() <= 2 * REPLY, "{:?}: {error}", start.elapsed());
    assert!(error.to_string().contains("the other keys took too long"), "{error}");
    let error = redlock.lock_all(["1", "3"]).wait(Wait::Never).acquire().await.unwrap_err();
    assert!(error.is_busy() && error.key() == Some("3"), "{error}");
}
