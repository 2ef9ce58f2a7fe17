//! Where locks stand in a case of the contract: made for it alone, and open to meddling.

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use deadpool_redis::{Config, Runtime};
use redlock::{LockGuard, MemoryStore, Redlock, RedlockBuilder};
use tokio::sync::OnceCell;

use crate::support::{Raw, Server, eventually, secs, unique_prefix};

/// The key that most cases lock.
pub const KEY: &str = "stock-42";

pub struct Place {
    prefix: String,
    kind: Kind,
}

enum Kind {
    /// Behind a mutex, to be replaced as a whole: a server that lost its data.
    Memory(Mutex<MemoryStore>),
    Redis {
        url: String,
        raw: Box<Raw>,
        is_pool: bool,
    },
}

impl Place {
    #[expect(clippy::unused_async, reason = "all places are made alike")]
    pub async fn memory() -> Option<Place> {
        Some(Place { prefix: unique_prefix(), kind: Kind::Memory(Mutex::default()) })
    }

    pub async fn url() -> Option<Place> {
        Some(Place::redis(Server::shared().await.url(), unique_prefix(), false))
    }

    pub async fn pool() -> Option<Place> {
        Some(Place::redis(Server::shared().await.url(), unique_prefix(), true))
    }

    /// A prefix of the longest kind, with spaces, glob characters and more than ASCII.
    pub async fn other_prefix() -> Option<Place> {
        let prefix = unique_prefix() + "caf\u{e9} *?[x]\\ \u{1f512}:";
        let prefix = "p".repeat(256 - prefix.len()) + &prefix;
        Some(Place::redis(Server::shared().await.url(), prefix, false))
    }

    /// The server that `REDLOCK_TEST_VALKEY` names; none where it is not set.
    pub async fn valkey() -> Option<Place> {
        static VALKEY: OnceCell<Option<Server>> = OnceCell::const_new();
        let start = || async {
            let Some(program) = std::env::var_os("REDLOCK_TEST_VALKEY").map(PathBuf::from) else {
                eprintln!("REDLOCK_TEST_VALKEY names no valkey-server: not run on Valkey");
                return None;
            };
            Some(Server::builder().program(program).start().await)
        };
        let server = VALKEY.get_or_init(start).await.as_ref()?;
        Some(Place::redis(server.url(), unique_prefix(), false))
    }

    pub fn redis(url: String, prefix: String, is_pool: bool) -> Place {
        let raw = Box::new(Raw::new(&url));
        Place { prefix, kind: Kind::Redis { url, raw, is_pool } }
    }

    pub fn builder(&self) -> RedlockBuilder {
        let builder = Redlock::builder().prefix(&self.prefix).client_name("contract");
        match &self.kind {
            Kind::Memory(store) => builder.memory_store(store.lock().unwrap().clone()),
            Kind::Redis { url, is_pool: true, .. } => {
                let pool = Config::from_url(url).create_pool(Some(Runtime::Tokio1));
                builder.pool(pool.expect("a good URL"))
            }
            Kind::Redis { url, .. } => builder.url(url),
        }
    }

    pub async fn client(&self) -> Redlock {
        self.builder().build().await.expect("the place is up")
    }

    /// A client and the guard of `KEY`.
    pub async fn held(&self) -> (Redlock, LockGuard) {
        let client = self.client().await;
        let guard = client.lock(KEY).acquire().await.expect("it is free");
        (client, guard)
    }

    pub fn full(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    /// What stands in a key.
    pub async fn owner(&self, key: &str) -> Option<String> {
        match &self.kind {
            Kind::Memory(store) => store.lock().unwrap().owner(&self.full(key)),
            Kind::Redis { raw, .. } => raw.get(&self.full(key)).await,
        }
    }

    pub async fn is_free(&self, key: &str) -> bool {
        self.owner(key).await.is_none()
    }

    pub async fn becomes_free(&self, key: &str) {
        eventually(secs(10), || self.is_free(key)).await;
    }

    pub async fn remove(&self, key: &str) {
        match &self.kind {
            Kind::Memory(store) => store.lock().unwrap().remove(&self.full(key)),
            Kind::Redis { raw, .. } => drop(raw.del(&self.full(key)).await),
        }
    }

    /// Gives a key to somebody else, whoever has it.
    pub async fn steal(&self, key: &str, expire: Duration) {
        let key = self.full(key);
        match &self.kind {
            Kind::Memory(store) => store.lock().unwrap().set(&key, "thief", expire),
            Kind::Redis { raw, .. } => {
                let ms = expire.as_millis().to_string();
                raw.cmd(&["SET", &key, "thief", "PX", &ms]).await;
            }
        }
    }

    /// Deletes the helper key, as an operator might. A store in memory has none to delete.
    pub async fn lose_counter(&self, key: &str) {
        if let Kind::Redis { raw, .. } = &self.kind {
            let counter = format!("{{{}}}:fence", self.full(key));
            assert!(raw.del(&counter).await, "{counter} was there");
        }
    }

    /// Loses everything of this place, as `FLUSHALL` would. Clients made before go on as they are.
    pub async fn lose_data(&self) {
        match &self.kind {
            Kind::Memory(store) => *store.lock().unwrap() = MemoryStore::new(),
            Kind::Redis { raw, .. } => {
                for key in self.redis_keys().await {
                    raw.del(&key).await;
                }
            }
        }
    }

    /// Every key of this place, helper keys included; none for a store in memory.
    pub async fn redis_keys(&self) -> Vec<String> {
        let Kind::Redis { raw, .. } = &self.kind else { return Vec::new() };
        let keys = raw.keys("*").await;
        keys.into_iter().filter(|key| key.contains(&self.prefix)).collect()
    }
}
