//! A client of the library in the queue of a lock, which can be told that it has it.

use redlock::{LockError, LockGuard, Redlock};
use tokio::task::JoinHandle;

use crate::server_queue::{Lock, NOBODY};
use crate::support::{eventually, lines_of, secs};

pub type Waiting = JoinHandle<Result<LockGuard, LockError>>;

pub struct Entry {
    pub text: String,
    pub channel: String,
    pub owner: String,
}

/// The queue, the first one first.
pub async fn entries(lock: &Lock) -> Vec<Entry> {
    let texts = lines_of(lock.raw.cmd(&["LRANGE", &lock.queue, "0", "-1"]).await);
    let parse = |text: String| {
        let mut words = text.splitn(5, ' ').skip(3).map(str::to_owned);
        let (channel, owner) = (words.next().unwrap(), words.next().unwrap());
        Entry { text, channel, owner }
    };
    texts.into_iter().map(parse).collect()
}

/// Waits for the lock, which is called `k`, at the end of its queue. A client whose first
/// subscription is not made yet joins as one that cannot be told, and joins again when it can be.
pub async fn wait_told(redlock: &Redlock, lock: &Lock) -> (Waiting, Entry) {
    let ahead = entries(lock).await.len();
    let (waiting, _) = wait(redlock, lock, ahead).await;
    let told = || async {
        let mut behind = entries(lock).await.into_iter().skip(ahead);
        let entry = behind.next().filter(|entry| entry.channel != NOBODY)?;
        behind.next().is_none().then_some(entry)
    };
    (waiting, eventually(secs(60), told).await)
}

/// The same for a client that cannot be told, with nobody ahead of it.
pub async fn wait_untold(redlock: &Redlock, lock: &Lock) -> (Waiting, Entry) {
    wait(redlock, lock, 0).await
}

async fn wait(redlock: &Redlock, lock: &Lock, ahead: usize) -> (Waiting, Entry) {
    let waiting = tokio::spawn(redlock.lock("k").wait(secs(600)).acquire());
    let joined = || async { entries(lock).await.into_iter().nth(ahead) };
    (waiting, eventually(secs(60), joined).await)
}
