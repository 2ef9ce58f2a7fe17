//! Who of those in the queue has the lock next, where some cannot be told and some do not look.

use redlock::Redlock;

use crate::server_queue::{Lock, NOBODY, lock};
use crate::server_queue_told::wait_told;
use crate::support::{Server, ms, secs, time_passes, unique_prefix, within};

/// A mailbox that nobody empties: its client is frozen, as far as the server knows.
fn frozen() -> String {
    format!("@{}", unique_prefix())
}

/// The holder died with its lease, and those ahead did not look when it was over.
#[tokio::test]
async fn who_looks_at_a_free_lock_has_it_before_those_who_do_not() {
    let lock = lock().await;
    lock.join_on("holder", NOBODY).await.unwrap();
    for owner in ["frozen", "frozen, too"] {
        lock.join_on(owner, &frozen()).await.unwrap();
    }
    lock.join_on("alive", &frozen()).await.unwrap();
    lock.raw.del(&lock.key).await;
    let granted = lock.join_on("alive", "").await.unwrap();
    assert_eq!(granted[0], "1", "{granted:?}");
    assert_eq!((lock.holder().await.as_deref(), lock.waiting().await), (Some("alive"), 2));
    // They keep their places.
    assert_eq!(lock.release("alive").await, "2");
    assert_eq!((lock.holder().await.as_deref(), lock.waiting().await), (Some("frozen"), 1));
}

/// One hand-over in seventeen goes to it all the same, by the server's clock.
#[tokio::test]
async fn a_waiter_without_signals_is_mostly_passed_over_for_one_with_them() {
    const TRIES: u32 = 100;
    let mut passed_over = 0;
    for _ in 0..TRIES {
        let lock = lock().await;
        for (owner, channel) in [("holder", NOBODY.to_owned()), ("untold", NOBODY.to_owned())] {
            lock.join_on(owner, &channel).await.unwrap();
        }
        lock.join_on("told", &frozen()).await.unwrap();
        assert_eq!(lock.release("holder").await, "2");
        let holder = lock.holder().await.unwrap();
        passed_over += u32::from(holder == "told");
        // The other one has kept its place, and is the next.
        assert_eq!(lock.waiting().await, 1);
        assert_eq!(lock.release(&holder).await, "2");
        let next = if holder == "told" { "untold" } else { "told" };
        assert_eq!((lock.holder().await.as_deref(), lock.waiting().await), (Some(next), 0));
    }
    // Of a hundred, six go to it on average, and more than twenty once in a million runs.
    assert!(passed_over >= TRIES - 20, "{passed_over} of {TRIES}");
}

/// It is served in the end, however many can be told.
#[tokio::test]
async fn a_waiter_without_signals_is_not_passed_over_for_ever() {
    let lock = lock().await;
    let channel = frozen();
    lock.join_on("0", NOBODY).await.unwrap();
    lock.join_on("untold", NOBODY).await.unwrap();
    let mut holder = "0".to_owned();
    // So many in a row are for others once in 800 million runs.
    for number in 1..=340 {
        lock.join_on(&number.to_string(), &channel).await.unwrap();
        // What it was told is fetched: otherwise it is taken for dead.
        lock.raw.del(&channel[1..]).await;
        assert_eq!(lock.release(&holder).await, "2");
        holder = lock.holder().await.unwrap();
        if holder == "untold" {
            return;
        }
    }
    panic!("it has no turn");
}

/// As after an old snapshot was restored, or a replica that lagged took over: the client of these
/// owners lives, and they were served long ago.
#[tokio::test]
async fn entries_that_came_back_with_older_data_cost_nobody_a_turn() {
    let server = Server::start().await;
    let prefix = unique_prefix();
    let client = async || {
        Redlock::builder().url(server.url()).prefix(&*prefix).build().await.expect("it is up")
    };
    let (holder, former, other) = (client().await, client().await, client().await);
    let lock = Lock::called(&format!("{prefix}k"), server.raw());
    let mut entries = Vec::new();
    for _ in 0..3 {
        let held = holder.lock("k").wait(secs(60)).acquire().await.unwrap();
        let (waiter, entry) = wait_told(&former, &lock).await;
        entries.push(entry.text);
        held.release().await.unwrap();
        waiter.await.unwrap().unwrap().release().await.unwrap();
    }
    let held = holder.lock("k").wait(secs(60)).acquire().await.unwrap();
    for entry in &entries {
        lock.raw.cmd(&["RPUSH", &lock.queue, entry]).await;
    }
    let (waiter, _) = wait_told(&other, &lock).await;
    assert_eq!(lock.waiting().await, 4);
    held.release().await.unwrap();
    // Whoever does not give the lock back has it for ever, instead of for a claim window.
    let endless_turns = async {
        loop {
            lock.raw.cmd(&["PERSIST", &lock.key]).await;
            time_passes(ms(1)).await;
        }
    };
    let guard = tokio::select! {
        guard = within(secs(60), waiter) => guard.unwrap().unwrap(),
        () = endless_turns => unreachable!("it has no end"),
    };
    guard.release().await.unwrap();
}
