//! Locks without the attribute: take one, look at it, work under it, give it back.
//!
//! Use a guard where a lock does not fit one function: it is taken here and released there, or only
//! if it is free. `cargo run --example manual_guard`; `REDIS_URL` names a server.
#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use std::time::Duration;

use redlock::{LockError, Redlock, Released};

#[tokio::main]
async fn main() -> Result<(), LockError> {
    let redlock = connect().await?;

    // Waits for the lock, at most `wait`. From here on the lease is renewed in the background.
    let guard = redlock
        .lock("report-2026")
        .expire(Duration::from_secs(10))
        .wait(Duration::from_secs(5))
        .acquire()
        .await?;
    println!("{} is ours: owner {}, token {}", guard.key(), guard.owner(), guard.fencing_token());
    println!("without a renewal we may rely on it for another {:.1?}", guard.remaining());

    // One attempt. `None` is an answer, not an error: somebody else holds the lock.
    let second = redlock.lock("report-2026").try_acquire().await?;
    println!("a second holder: {second:?}");

    // Who waits in vain is told for whom.
    let wait = Duration::from_millis(100);
    match redlock.lock("report-2026").wait(wait).acquire().await {
        Err(LockError::Timeout { waited, holder, .. }) => {
            println!("not free within {waited:.1?}, held by {}", holder.unwrap_or_default());
        }
        other => println!("unexpected: {other:?}"),
    }

    // The guard alone stops nobody. `protect` does: it drops the work when the lease is lost.
    let pages = guard.protect(write_report()).await?;
    // Or ask before a step that must not happen without the lock; this reads a clock, no network.
    guard.check()?;
    println!("wrote {pages} pages");

    // Dropping the guard releases as well, in the background; this says what it found.
    match guard.release().await? {
        Released::Released => println!("released"),
        Released::Unknown => println!("released, as far as is known: an answer was lost"),
        late => println!("the lock was gone before we released it: {late:?}"),
    }
    println!("held now: {:?}", redlock.held());

    // The last thing of a program: lets releases of dropped guards reach the server.
    drop(redlock.lock("report-2027").acquire().await?);
    let pending = redlock.shutdown(Duration::from_secs(2)).await;
    println!("{pending} releases pending at the end");
    Ok(())
}

async fn write_report() -> u32 {
    tokio::time::sleep(Duration::from_millis(50)).await;
    12
}

async fn connect() -> Result<Redlock, LockError> {
    if let Ok(url) = std::env::var("REDIS_URL") {
        return Redlock::connect(url).await;
    }
    println!("REDIS_URL is not set: the locks are kept in this process");
    Redlock::builder().memory().build().await
}
