//! A drain: bodies come to their end, with the locks that they need for it.

use redlock::{LockError, Redlock, redis_lock};
use tokio::sync::Notify;

use crate::support::{Server, ms, secs, unique_prefix};

#[redis_lock(key = "stock-<id>", client = redlock)]
async fn book(redlock: &Redlock, id: u32) -> Result<u32, LockError> {
    Ok(id)
}

#[redis_lock(key = "order-<id>", client = redlock)]
async fn ship(
    redlock: &Redlock,
    id: u32,
    begins: &Notify,
    goes_on: &Notify,
) -> Result<u32, LockError> {
    begins.notify_one();
    goes_on.notified().await;
    book(redlock, id).await
}

#[tokio::test]
async fn bodies_come_to_their_end_and_their_locks_are_free() {
    let (server, prefix) = (Server::shared().await, unique_prefix());
    let client = async || {
        let builder = Redlock::builder().url(server.url()).prefix(prefix.clone());
        builder.build().await.unwrap()
    };
    let (redlock, other) = (client().await, client().await);
    let (begins, goes_on) = (Notify::new(), Notify::new());
    let drains = async {
        begins.notified().await;
        let mut drain = std::pin::pin!(redlock.drain(secs(60)));
        assert!(tokio::time::timeout(ms(100), &mut drain).await.is_err(), "a body runs");
        let refused = redlock.lock("stock-7").try_acquire().await;
        assert!(matches!(refused, Err(LockError::ShuttingDown { .. })), "{refused:?}");
        assert!(other.lock("order-7").try_acquire().await.unwrap().is_none());
        goes_on.notify_one();
        drain.await
    };
    let (shipped, left) = tokio::join!(ship(&redlock, 7, &begins, &goes_on), drains);
    assert_eq!((shipped, left), (Ok(7), 0));
    for key in ["order-7", "stock-7"] {
        assert!(other.lock(key).try_acquire().await.unwrap().is_some(), "{key} is free");
    }
}
