//! Who of those in line has the lock next, where some cannot be told and some do not look.

use crate::line::{NOBODY, lock};
use crate::support::unique_prefix;

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
async fn who_cannot_be_told_is_passed_over_mostly_where_others_behind_it_can() {
    let mut passed_over = 0;
    for _ in 0..20 {
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
    assert!(passed_over >= 10, "{passed_over} of 20");
}

/// It is served in the end, however many can be told.
#[tokio::test]
async fn who_cannot_be_told_is_not_passed_over_for_ever() {
    let lock = lock().await;
    let channel = frozen();
    lock.join_on("0", NOBODY).await.unwrap();
    lock.join_on("untold", NOBODY).await.unwrap();
    let mut holder = "0".to_owned();
    for number in 1.. {
        lock.join_on(&number.to_string(), &channel).await.unwrap();
        // What it was told is fetched: otherwise it is taken for dead.
        lock.raw.del(&channel[1..]).await;
        assert_eq!(lock.release(&holder).await, "2");
        holder = lock.holder().await.unwrap();
        if holder == "untold" {
            return;
        }
    }
}
