//! Clients of a pool, which cannot subscribe, are told of a hand-over by a mailbox.

use std::sync::{Arc, Mutex, PoisonError};

use deadpool_redis::{Config, Pool, Runtime, redis};
use fault_kit::Sentinels;
use futures_core::Stream;
use redlock::{Redlock, RedlockBuilder};

use crate::security::{introductions, user};
use crate::server_queue::{HEAD, JOIN, Lock, NOBODY, QUICK_RELEASE, RELEASE, lock};
use crate::server_queue_told::{wait_told, wait_untold};
use crate::support::{Server, eventually, lines_of, ms, secs, time_passes, unique_prefix};

fn pool_of(url: String) -> Pool {
    Config::from_url(url).create_pool(Some(Runtime::Tokio1)).unwrap()
}

fn pool(server: &Server) -> RedlockBuilder {
    Redlock::builder().pool(pool_of(server.url()))
}

/// All that a server is asked, and does inside of scripts.
pub struct Monitor {
    server: redis::Client,
    lines: Arc<Mutex<Vec<String>>>,
    join: String,
}

impl Monitor {
    pub async fn of(server: &Server) -> Self {
        let raw = server.raw();
        let join = [HEAD, JOIN].concat();
        // Known in advance, so that no text goes over the wire.
        for script in [&join, &[QUICK_RELEASE, HEAD, RELEASE].concat()] {
            raw.cmd(&["SCRIPT", "LOAD", script]).await;
        }
        let client = redis::Client::open(server.url()).unwrap();
        let monitor = client.get_async_monitor().await.unwrap();
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let written = Arc::clone(&lines);
        tokio::spawn(async move {
            let mut stream = std::pin::pin!(monitor.into_on_message::<String>());
            while let Some(line) =
                std::future::poll_fn(|context| stream.as_mut().poll_next(context)).await
            {
                written.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            }
        });
        Self { server: client, lines, join: redis::Script::new(&join).get_hash().to_owned() }
    }

    pub fn forget(&self) {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// What came so far, in its order.
    pub async fn lines(&self) -> Vec<String> {
        let marker = unique_prefix();
        let mut connection = self.server.get_multiplexed_async_connection().await.unwrap();
        redis::cmd("ECHO").arg(&marker).query_async::<()>(&mut connection).await.unwrap();
        eventually(secs(20), || async {
            let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
            lines.iter().any(|line| line.contains(&marker)).then(|| lines.clone())
        })
        .await
    }

    /// How often somebody in the queue asked for its place, without being told of anything.
    pub async fn looks(&self) -> usize {
        let is_look = |line: &&String| {
            line.contains(&self.join) && !line.contains("\"@") && !line.contains("\"redlock:")
        };
        self.lines().await.iter().filter(is_look).count()
    }

    /// Messages that were put into mailboxes by scripts.
    pub async fn messages(&self) -> usize {
        let lines = self.lines().await;
        let by_script =
            |line: &&String| line.contains(" lua] \"RPUSH\"") && line.contains("mailbox:");
        lines.iter().filter(by_script).count()
    }
}

/// The waiter gets the lock without having asked for it since it stands in the queue.
async fn assert_told(server: &Server, holder: RedlockBuilder, waiter: RedlockBuilder) {
    let prefix = unique_prefix();
    let connect = async |builder: RedlockBuilder| builder.prefix(&prefix).build().await.unwrap();
    let (holder, waiter) = (connect(holder).await, connect(waiter).await);
    let monitor = Monitor::of(server).await;
    let lock = Lock::called(&format!("{prefix}k"), server.raw());
    let mut rounds = Vec::new();
    for _ in 0..9 {
        let guard = holder.lock("k").wait(secs(50)).acquire().await.unwrap();
        let (waiting, _) = wait_told(&waiter, &lock).await;
        monitor.forget();
        guard.release().await.unwrap();
        let guard = waiting.await.unwrap().unwrap();
        rounds.push((monitor.looks().await, monitor.messages().await));
        guard.release().await.unwrap();
    }
    // On a busy machine the waiter may look, because a second is over.
    let told = rounds.iter().filter(|round| **round == (0, 1)).count();
    assert!(told > rounds.len() / 2, "looks and messages: {rounds:?}");
}

#[tokio::test]
async fn a_client_of_a_pool_is_told_by_another_and_by_one_of_a_url() {
    let server = Server::start().await;
    assert_told(&server, pool(&server), pool(&server)).await;
    assert_told(&server, Redlock::builder().url(server.url()), pool(&server)).await;
}

#[tokio::test]
async fn a_client_of_a_sentinel_pool_is_told() {
    let set = Sentinels::start_with(secs(60), &[]).await;
    let builder = || {
        let config = deadpool_redis::sentinel::Config::from_urls(
            set.urls(),
            Sentinels::MASTER.to_owned(),
            deadpool_redis::sentinel::SentinelServerType::Master,
        );
        Redlock::builder().sentinel_pool(config.create_pool(Some(Runtime::Tokio1)).unwrap())
    };
    assert_told(set.master().await, builder(), builder()).await;
}

/// Each hold is handed over: somebody who goes by the clock would look before each of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_pools_take_turns_without_looking() {
    const HOLDS: usize = 50;
    let server = Server::start().await;
    let monitor = Monitor::of(&server).await;
    let prefix = unique_prefix();
    let mut players = Vec::new();
    for _ in 0..2 {
        let redlock = pool(&server).prefix(&prefix).build().await.unwrap();
        players.push(tokio::spawn(async move {
            for _ in 0..HOLDS {
                let guard = redlock.lock("k").wait(secs(60)).acquire().await.unwrap();
                time_passes(ms(2)).await;
                guard.release().await.unwrap();
                time_passes(ms(1)).await;
            }
        }));
    }
    for player in players {
        player.await.unwrap();
    }
    let (looks, messages) = (monitor.looks().await, monitor.messages().await);
    assert!(messages > HOLDS, "most holds are handed over: {messages}");
    assert!(looks < HOLDS / 2, "{looks} looks for {} holds", 2 * HOLDS);
}

/// Where there is no queue: a release on each of several servers.
#[tokio::test]
async fn a_release_is_told_of_by_mailboxes_too() {
    let servers = [Server::start().await, Server::start().await, Server::start().await];
    let prefix = unique_prefix();
    let connect = async || {
        let pools = servers.iter().map(|server| pool_of(server.url()));
        Redlock::builder().pools(pools).prefix(&prefix).build().await.unwrap()
    };
    let (holder, waiter) = (connect().await, connect().await);
    let guard = holder.lock("k").expire(secs(60)).acquire().await.unwrap();
    let waiting = tokio::spawn(waiter.lock("k").wait(secs(50)).acquire());
    let queue = format!("{{{prefix}k}}:queue");
    let mut monitors = Vec::new();
    for server in &servers {
        let raw = server.raw();
        eventually(secs(20), || async { raw.int(&["LLEN", &queue]).await == 1 }).await;
        monitors.push(Monitor::of(server).await);
    }
    guard.release().await.unwrap();
    // The waiter may have the lock, and its hints may be gone, before the release is everywhere.
    eventually(secs(20), || async {
        let mut told = 0;
        for monitor in &monitors {
            told += monitor.lines().await.iter().filter(|line| line.contains("\"free ")).count();
        }
        told >= 1
    })
    .await;
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_mailbox_that_nobody_empties_belongs_to_the_dead() {
    let lock = lock().await;
    let mailbox = format!("{}mailbox:1", unique_prefix());
    let channel = format!("@{mailbox}");
    for _ in 0..1023 {
        lock.raw.cmd(&["RPUSH", &mailbox, "x"]).await;
    }
    lock.join_on("holder", &channel).await.unwrap();
    for owner in ["a", "b"] {
        assert_eq!(lock.join_on(owner, &channel).await.unwrap()[5], "1", "it is told");
    }
    lock.join_on("c", NOBODY).await.unwrap();
    assert_eq!(lock.release("holder").await, "2");
    assert_eq!(lock.holder().await.as_deref(), Some("a"));
    let messages = lines_of(lock.raw.cmd(&["LRANGE", &mailbox, "1023", "-1"]).await);
    let last: u64 = lock.raw.get(&lock.fence).await.unwrap().parse().unwrap();
    assert_eq!(messages, [format!("{} {last} 1000 1 a{}", last - 7, lock.key)]);
    assert!(lock.raw.pttl(&mailbox).await.unwrap() > secs(50));
    assert_eq!(lock.release("a").await, "2");
    assert_eq!(lock.holder().await.as_deref(), Some("c"), "the mailbox is full");
    assert_eq!(lock.raw.int(&["LLEN", &mailbox]).await, 1024);
}

#[tokio::test]
async fn a_mailbox_of_another_type_is_left_alone() {
    let lock = lock().await;
    let mailbox = format!("{}mailbox:1", unique_prefix());
    lock.raw.cmd(&["SET", &mailbox, "mine", "PX", "60000"]).await;
    lock.join_on("holder", NOBODY).await.unwrap();
    lock.join_on("a", &format!("@{mailbox}")).await.unwrap();
    lock.join_on("b", NOBODY).await.unwrap();
    assert_eq!(lock.release("holder").await, "2");
    assert_eq!(lock.holder().await.as_deref(), Some("b"));
    assert_eq!(lock.raw.get(&mailbox).await.as_deref(), Some("mine"));
}

/// What docs/security.md says of pools. Without the word, the waiter is not told, and looks.
#[tokio::test]
async fn a_pool_needs_one_word_more() {
    let line = user("acl");
    for (word, channel) in [("+blpop", "@lock:mailbox:"), ("", "-")] {
        let server = Server::builder().acl(&format!("{line} {word}")).start().await;
        let pool = || Redlock::builder().pool(pool_of(server.url_for("locks", "secret")));
        let (holder, waiter) = (pool().build().await.unwrap(), pool().build().await.unwrap());
        let guard = holder.lock("k").acquire().await.unwrap();
        let lock = Lock::called("lock:k", server.raw());
        let (waiting, entry) = match word {
            "" => wait_untold(&waiter, &lock).await,
            _ => wait_told(&waiter, &lock).await,
        };
        assert!(entry.channel.starts_with(channel), "{}", entry.text);
        guard.release().await.unwrap();
        waiting.await.unwrap().unwrap().release().await.unwrap();
        let refused = format!("{:?}", server.raw().cmd(&["ACL", "LOG"]).await);
        let is_refused = refused.matches("\"object\"").count() > introductions(&refused);
        assert_eq!(is_refused, word.is_empty(), "{refused}");
    }
}

/// A space in the prefix would split the entry in the queue.
#[tokio::test]
async fn a_prefix_with_a_space_is_told_as_well() {
    let server = Server::start().await;
    let prefix = "my locks:";
    let build = async || pool(&server).prefix(prefix).build().await.unwrap();
    let (holder, waiter) = (build().await, build().await);
    let guard = holder.lock("k").acquire().await.unwrap();
    let lock = Lock::called("my locks:k", server.raw());
    let (waiting, entry) = wait_told(&waiter, &lock).await;
    assert!(entry.channel.starts_with("@redlock:mailbox:"), "{}", entry.text);
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}
