//! Of the tests that keep processors busy for many seconds, two run at a time. Those beside them,
//! which measure leases and replies in real time, have the rest of the machine.

use tokio::sync::{Semaphore, SemaphorePermit};

static TURN: Semaphore = Semaphore::const_new(2);

/// Kept until the end of the test.
pub async fn turn() -> SemaphorePermit<'static> {
    TURN.acquire().await.unwrap()
}
