//! The records of readers and permits on a real server, and what they do to other clients.

use std::time::Duration;

use deadpool_redis::redis::from_redis_value;
use redlock::{LockError, LockRequest, Redlock, Released, Wait};

use crate::support::{Raw, Server, eventually, secs, unique_prefix};

/// One lock on the shared server, with a client and a look behind it.
struct Lock {
    client: Redlock,
    raw: Raw,
    key: String,
}

impl Lock {
    async fn new() -> Self {
        let (server, prefix) = (Server::shared().await, unique_prefix());
        let client = Self::another(&prefix).await;
        Self { client, raw: Raw::new(&server.url()), key: format!("{prefix}k") }
    }

    /// A client like one of another process.
    async fn another(prefix: &str) -> Redlock {
        let url = Server::shared().await.url();
        Redlock::builder().url(url).prefix(prefix).build().await.unwrap()
    }

    fn request(&self) -> LockRequest {
        self.client.lock("k").wait(secs(30))
    }

    fn helper(&self, name: &str) -> String {
        format!("{{{}}}:{name}", self.key)
    }

    async fn left(&self) -> Duration {
        Duration::from_millis(self.raw.int(&["PTTL", &self.key]).await.try_into().unwrap_or(0))
    }
}

#[tokio::test]
async fn the_marker_lasts_as_long_as_the_last_of_its_readers() {
    let lock = Lock::new().await;
    let short = lock.request().read().expire(secs(10)).acquire().await.unwrap();
    assert_eq!(lock.raw.get(&lock.key).await.as_deref(), Some("<readers>"));
    assert!(lock.left().await <= secs(10));
    let long = lock.request().read().expire(secs(60)).acquire().await.unwrap();
    assert!(lock.left().await > secs(30), "it does not end before the second");
    long.release().await.unwrap();
    assert!(lock.left().await <= secs(10), "it does not outlive the first");
    short.release().await.unwrap();
    assert_eq!(lock.raw.get(&lock.key).await, None);
    assert_eq!(lock.raw.int(&["EXISTS", &lock.helper("holders")]).await, 0);
}

/// An answer that the release cannot have is not taken for "nobody else holds it".
#[tokio::test]
async fn a_release_that_may_not_look_at_the_other_holders_frees_nothing() {
    let server = Server::builder().acl("reader on >pw ~* &* +@all -zrange").start().await;
    let connect = async |url: String| {
        Redlock::builder().url(url).prefix("lock:").lazy().build().await.unwrap()
    };
    let reader = connect(server.url_for("reader", "pw")).await;
    let read = || reader.lock("k").read().expire(secs(60)).wait(Wait::Never).acquire();
    let (leaving, staying) = (read().await.unwrap(), read().await.unwrap());
    let writer = connect(server.url()).await;
    let waiting = tokio::spawn(writer.lock("k").wait(secs(60)).acquire());
    let raw = server.raw();
    let is_queued = || async { raw.int(&["LLEN", "{lock:k}:queue"]).await == 1 };
    eventually(secs(20), is_queued).await;
    assert!(leaving.release().await.is_err());
    assert_eq!(raw.get("lock:k").await.as_deref(), Some("<readers>"));
    assert!(!waiting.is_finished());
    staying.check().unwrap();
    waiting.abort();
}

/// An operator may delete the record, or a server whose memory is full.
#[tokio::test]
async fn holders_that_were_deleted_come_back_with_an_end() {
    let lock = Lock::new().await;
    let _long = lock.request().read().expire(secs(60)).acquire().await.unwrap();
    lock.raw.cmd(&["DEL", &lock.helper("holders")]).await;
    let _short = lock.request().read().expire(secs(10)).acquire().await.unwrap();
    let left = lock.raw.int(&["PTTL", &lock.helper("holders")]).await;
    assert!((1..=60_000).contains(&left), "{left}");
}

/// `PERSIST` makes a key longer, and must not make it end before a lease.
#[tokio::test]
async fn the_marker_gets_the_end_of_the_last_reader_back() {
    let lock = Lock::new().await;
    let persist = async || assert_eq!(lock.raw.int(&["PERSIST", &lock.key]).await, 1);
    let read = async |expire| lock.request().read().expire(secs(expire)).acquire().await.unwrap();
    let long = read(60).await;
    persist().await;
    let short = read(6).await;
    assert!(lock.left().await > secs(30), "a shorter lease came");
    persist().await;
    eventually(secs(60), || async { short.renewals() > 0 }).await;
    assert!(lock.left().await > secs(6), "a shorter lease was renewed");
    persist().await;
    short.release().await.unwrap();
    assert!((secs(6)..=secs(60)).contains(&lock.left().await), "a shorter lease was released");
    long.check().unwrap();
    long.release().await.unwrap();
    assert_eq!(lock.raw.get(&lock.key).await, None);
}

/// It keeps its lock for ever, and harms no other lease of the clients that renew it.
#[tokio::test]
async fn a_lease_of_another_program_that_never_ends_spoils_no_renewal() {
    let lock = Lock::new().await;
    let read = async |key| lock.client.lock(key).read().expire(secs(6)).acquire().await.unwrap();
    let (odd, fine) = (read("k").await, read("other").await);
    for end in ["inf", "1e25"] {
        lock.raw.cmd(&["ZADD", &lock.helper("holders"), end, "somebody"]).await;
        lock.raw.cmd(&["PERSIST", &lock.key]).await;
        let [before, other_before] = [&odd, &fine].map(|guard| guard.renewals());
        let are_renewed = || async { odd.renewals() > before && fine.renewals() > other_before };
        eventually(secs(60), are_renewed).await;
        lock.raw.cmd(&["PERSIST", &lock.key]).await;
        let joined = read("k").await;
        assert_eq!(joined.release().await.unwrap(), Released::Released);
    }
    fine.release().await.unwrap();
    odd.release().await.unwrap();
}

/// The permit of a process that died comes back when its lease is over.
#[tokio::test]
async fn a_permit_that_nobody_gives_back_ends_with_its_lease() {
    let lock = Lock::new().await;
    let request = || lock.request().permits(2);
    let dead = request().expire(secs(2)).max_renew(0).acquire().await.unwrap();
    std::mem::forget(dead);
    let alive = request().acquire().await.unwrap();
    let third = request().acquire().await.unwrap();
    alive.check().unwrap();
    drop((alive, third));
}

/// A reader that died keeps a writer out until its lease is over, and no longer.
#[tokio::test]
async fn a_dead_reader_keeps_a_writer_out_for_its_own_lease() {
    let lock = Lock::new().await;
    let dead = lock.request().read().expire(secs(3)).max_renew(0).acquire().await.unwrap();
    std::mem::forget(dead);
    let long = lock.request().read().expire(secs(120)).acquire().await.unwrap();
    let writer = tokio::spawn(lock.request().acquire());
    let queue = lock.helper("queue");
    eventually(secs(10), || async { lock.raw.int(&["LLEN", &queue]).await == 1 }).await;
    // The writer was told of two minutes, and is told now that it is less.
    long.release().await.unwrap();
    drop(writer.await.unwrap().expect("within its 30 s"));
}

/// Whoever died while it waited does not keep readers out who come later.
#[tokio::test]
async fn a_dead_writer_in_the_queue_keeps_no_reader_out() {
    let lock = Lock::new().await;
    let first = lock.request().read().acquire().await.unwrap();
    let entry = "30000 40000 1 redlock:nobody ghost:00000000000000000000000000000000";
    for wait in [Wait::Never, Wait::AtMost(secs(30))] {
        lock.raw.cmd(&["RPUSH", &lock.helper("queue"), entry]).await;
        let second = lock.request().read().wait(wait).acquire().await;
        second.expect("the other one is gone").check().unwrap();
        first.check().unwrap();
    }
}

/// A process that is frozen hears what it is told, and claims nothing. Its other callers would be
/// handed the permit one after the other, each in vain.
#[tokio::test]
async fn a_process_that_does_not_claim_a_permit_has_no_further_turns() {
    let lock = Lock::new().await;
    let (queue, mailbox) = (lock.helper("queue"), lock.helper("mailbox"));
    let request = || lock.request().permits(1);
    let held = request().acquire().await.unwrap();
    for caller in 0..8 {
        let entry = format!("30000 40000 p1 @{mailbox} ghost:00000000{caller:024}");
        lock.raw.cmd(&["RPUSH", &queue, &entry]).await;
    }
    let next = tokio::spawn(request().acquire());
    eventually(secs(10), || async { lock.raw.int(&["LLEN", &queue]).await == 9 }).await;
    held.release().await.unwrap();
    drop(next.await.unwrap().expect("within its 30 s"));
    let told = lock.raw.cmd(&["LRANGE", &mailbox, "0", "-1"]).await;
    let told: Vec<String> = from_redis_value(told).unwrap();
    let looks = told.iter().filter(|message| message.starts_with("look ")).count();
    assert_eq!(looks, 7, "they are to come anew: {told:?}");
    lock.raw.cmd(&["DEL", &mailbox]).await;
}

/// A writer waits at the head of the queue all the time, and readers behind it.
#[tokio::test]
async fn a_downgrade_hands_the_lock_to_nobody_else() {
    let lock = Lock::new().await;
    let queue = lock.helper("queue");
    let writer = lock.request().acquire().await.unwrap();
    let other = Lock::another(lock.key.strip_suffix('k').unwrap()).await;
    let next = tokio::spawn(other.lock("k").wait(secs(30)).acquire());
    eventually(secs(10), || async { lock.raw.int(&["LLEN", &queue]).await == 1 }).await;
    let reader = writer.downgrade().await.unwrap();
    assert_eq!(lock.raw.get(&lock.key).await.as_deref(), Some("<readers>"));
    assert_eq!(lock.raw.int(&["LLEN", &queue]).await, 1, "it waits on");
    reader.release().await.unwrap();
    drop(next.await.unwrap().unwrap());
}

/// Many readers behind one writer: all of them are let in by its release.
#[tokio::test]
async fn readers_that_wait_are_let_in_together() {
    let lock = Lock::new().await;
    let writer = lock.request().acquire().await.unwrap();
    let readers: Vec<_> = (0..12).map(|_| tokio::spawn(lock.request().read().acquire())).collect();
    let queue = lock.helper("queue");
    eventually(secs(20), || async { lock.raw.int(&["LLEN", &queue]).await == 12 }).await;
    writer.release().await.unwrap();
    assert_eq!(lock.raw.int(&["ZCARD", &lock.helper("holders")]).await, 12);
    let mut guards = Vec::new();
    for reader in readers {
        guards.push(reader.await.unwrap().unwrap());
    }
    for guard in &guards {
        guard.check().unwrap();
    }
}

#[tokio::test]
async fn a_plain_set_is_excluded_by_readers_and_permits_and_excludes_them() {
    let lock = Lock::new().await;
    let set = async || lock.raw.set_foreign_lock(&lock.key, "thief", secs(60)).await;
    for request in [lock.request().read(), lock.request().permits(3)] {
        let held = request.acquire().await.unwrap();
        set().await;
        assert_ne!(lock.raw.get(&lock.key).await.as_deref(), Some("thief"));
        held.release().await.unwrap();
    }
    set().await;
    for request in [lock.client.lock("k").read(), lock.client.lock("k").permits(3)] {
        let error = request.wait(Wait::Never).acquire().await.unwrap_err();
        let LockError::Timeout { holder, .. } = &error else { panic!("{error}") };
        assert_eq!(holder.as_deref(), Some("thief"));
    }
}

/// A set of another type under the helper key is an error, and not a grant.
#[tokio::test]
async fn a_helper_key_of_another_type_is_a_typed_error() {
    let lock = Lock::new().await;
    let first = lock.request().read().acquire().await.unwrap();
    lock.raw.cmd(&["SET", &lock.helper("holders"), "text"]).await;
    let error = lock.client.lock("k").read().try_acquire().await.unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("WRONGTYPE"), "{error}");
    drop(first);
}

#[tokio::test]
async fn who_waits_in_vain_learns_who_is_inside_for_how_long_and_its_place() {
    let lock = Lock::new().await;
    let mut inside = Vec::new();
    for n in 1..=3 {
        inside.push(lock.request().read().expire(secs(40 * n)).acquire().await.unwrap());
    }
    let first = tokio::spawn(lock.request().acquire());
    let queue = lock.helper("queue");
    eventually(secs(20), || async { lock.raw.int(&["LLEN", &queue]).await == 1 }).await;
    let prefix = lock.key.trim_end_matches('k');
    let builder = Redlock::builder().url(Server::shared().await.url()).prefix(prefix);
    let other = builder.build().await.unwrap();
    let error = other.lock("k").wait(secs(2)).acquire().await.unwrap_err();
    let LockError::Timeout { holder, remaining, position, .. } = &error else { panic!("{error}") };
    assert_eq!(holder.as_deref(), Some("3 readers"));
    let left = remaining.expect("it was told by the server");
    assert!(left > secs(80) && left <= secs(120), "the last of them: {left:?}");
    assert_eq!(position.map(std::num::NonZeroU32::get), Some(2), "{error}");
    let said = error.to_string();
    assert!(said.contains("held by 3 readers, of whose leases the last has 1"), "{said}");
    for reader in inside {
        reader.release().await.unwrap();
    }
    first.await.unwrap().unwrap().release().await.unwrap();
}
