//! `mode` and `permits`: which calls run beside each other.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use redlock::{LockError, Redlock, redis_lock};
use tokio::sync::Barrier;

use crate::clients::client;
use crate::support::{Server, eventually, secs, unique_prefix, within};

const SOON: Duration = secs(20);

/// Two calls of this meet only if they run beside each other.
#[redis_lock(key = "config", mode = "read", client = redlock)]
async fn read(redlock: &Redlock, together: &Barrier) -> Result<(), LockError> {
    together.wait().await;
    Ok(())
}

#[redis_lock(key = "config", mode = "read", wait = "0s", client = redlock)]
async fn read_now(redlock: &Redlock) -> Result<(), LockError> {
    Ok(())
}

#[redis_lock(key = "config", mode = "write", wait = "0s", client = redlock)]
async fn write_now(redlock: &Redlock) -> Result<(), LockError> {
    Ok(())
}

#[redis_lock(key = "config", client = redlock)]
async fn read_inside(redlock: &Redlock) -> Result<(), LockError> {
    read_now(redlock).await
}

#[redis_lock(key = "config", mode = "read", client = redlock)]
async fn write_inside(redlock: &Redlock) -> Result<(), LockError> {
    write_now(redlock).await
}

#[redis_lock(key = "import", permits = 2, wait = "0s", client = redlock)]
async fn import(redlock: &Redlock, together: &Barrier) -> Result<(), LockError> {
    together.wait().await;
    Ok(())
}

#[redis_lock(key = "import", permits = limit.load(Ordering::SeqCst), wait = "0s", client = redlock)]
async fn import_at_most(redlock: &Redlock, limit: &AtomicU32) -> Result<(), LockError> {
    Ok(())
}

#[tokio::test]
async fn readers_run_beside_each_other_and_never_beside_a_writer() {
    let (redlock, together) = (client().await, Barrier::new(2));
    let both = async { tokio::join!(read(&redlock, &together), read(&redlock, &together)) };
    let (one, two) = within(SOON, both).await;
    one.unwrap();
    two.unwrap();

    let reader = redlock.lock("config").read().acquire().await.unwrap();
    read_now(&redlock).await.unwrap();
    let refused = write_now(&redlock).await.unwrap_err();
    assert!(refused.is_busy() && refused.to_string().contains("held by readers"), "{refused}");
    let waited = redlock.lock("config").wait(Duration::from_secs(1)).acquire().await.unwrap_err();
    assert!(waited.to_string().contains("held by 1 reader"), "counted: {waited}");
    reader.release().await.unwrap();
    write_now(&redlock).await.unwrap();

    let writer = redlock.lock("config").acquire().await.unwrap();
    assert!(read_now(&redlock).await.unwrap_err().is_busy());
    writer.release().await.unwrap();
}

#[tokio::test]
async fn a_read_runs_inside_of_a_write_and_never_the_other_way_round() {
    let redlock = client().await;
    read_inside(&redlock).await.unwrap();
    let refused = write_inside(&redlock).await.unwrap_err();
    assert!(matches!(refused, LockError::AlreadyHeld { .. }), "{refused}");
    assert_eq!(redlock.held().len(), 0);
}

#[tokio::test]
async fn no_more_than_so_many_calls_run_at_once() {
    let (redlock, together) = (client().await, Barrier::new(3));
    let two = async {
        let third = async {
            eventually(SOON, || async { redlock.held().len() == 2 }).await;
            let third = import(&redlock, &together).await;
            together.wait().await;
            third
        };
        tokio::join!(import(&redlock, &together), import(&redlock, &together), third)
    };
    let (one, two, third) = within(SOON, two).await;
    one.unwrap();
    two.unwrap();
    assert!(third.unwrap_err().is_busy());
}

/// The number is evaluated at each call, like every option.
#[tokio::test]
async fn the_number_of_permits_may_be_computed() {
    let (redlock, limit) = (client().await, AtomicU32::new(1));
    let one = redlock.lock("import").permits(1).acquire().await.unwrap();
    let refused = import_at_most(&redlock, &limit).await.unwrap_err();
    assert!(refused.is_busy() && refused.to_string().contains("1 permit"), "{refused}");
    limit.store(2, Ordering::SeqCst);
    import_at_most(&redlock, &limit).await.unwrap();
    limit.store(0, Ordering::SeqCst);
    let refused = import_at_most(&redlock, &limit).await.unwrap_err();
    assert!(matches!(refused, LockError::Config { .. }), "{refused}");
    one.release().await.unwrap();
}

#[tokio::test]
async fn permits_over_several_masters_are_refused() {
    let (a, b, c) =
        tokio::join!(Server::shared(), Server::builder().start(), Server::builder().start());
    let urls = [a.url(), b.url(), c.url()];
    let builder = Redlock::builder().urls(urls).prefix(unique_prefix());
    let redlock = builder.build().await.unwrap();
    let refused = import(&redlock, &Barrier::new(1)).await.unwrap_err();
    assert!(matches!(refused, LockError::Config { .. }), "{refused}");
    assert!(refused.to_string().contains("masters"), "{refused}");
    read_now(&redlock).await.unwrap();
}
