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
    /// One server, or several that make a quorum.
    Redis {
        urls: Vec<String>,
        /// The servers that can be meddled with: those that are up.
        raws: Vec<Raw>,
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

    /// Three masters.
    pub async fn quorum() -> Option<Place> {
        let urls: Vec<String> = masters().await.iter().map(Server::url).collect();
        let raws = urls.iter().map(|url| Raw::new(url)).collect();
        Some(Place { prefix: unique_prefix(), kind: Kind::Redis { urls, raws, is_pool: false } })
    }

    /// Five masters, two of which are down.
    pub async fn quorum_two_down() -> Option<Place> {
        let mut urls: Vec<String> = masters().await.iter().map(Server::url).collect();
        let raws = urls.iter().map(|url| Raw::new(url)).collect();
        urls.insert(1, "redis://127.0.0.1:1".to_owned());
        urls.push("redis://127.0.0.1:2".to_owned());
        Some(Place { prefix: unique_prefix(), kind: Kind::Redis { urls, raws, is_pool: false } })
    }

    pub fn redis(url: String, prefix: String, is_pool: bool) -> Place {
        let raws = vec![Raw::new(&url)];
        Place { prefix, kind: Kind::Redis { urls: vec![url], raws, is_pool } }
    }

    pub fn builder(&self) -> RedlockBuilder {
        let builder = Redlock::builder().prefix(&self.prefix).client_name("contract");
        match &self.kind {
            Kind::Memory(store) => builder.memory_store(store.lock().unwrap().clone()),
            Kind::Redis { urls, is_pool: true, .. } => builder.pools(urls.iter().map(|url| {
                let pool = Config::from_url(url).create_pool(Some(Runtime::Tokio1));
                pool.expect("a good URL")
            })),
            Kind::Redis { urls, .. } => builder.urls(urls),
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

    /// What stands in a key; with several servers, in more than half of them.
    pub async fn owner(&self, key: &str) -> Option<String> {
        match &self.kind {
            Kind::Memory(store) => store.lock().unwrap().owner(&self.full(key)),
            Kind::Redis { raws, .. } => {
                let mut owners = Vec::new();
                for raw in raws {
                    owners.extend(raw.get(&self.full(key)).await);
                }
                let votes = |owner: &String| owners.iter().filter(|other| *other == owner).count();
                owners.iter().find(|owner| 2 * votes(owner) > raws.len()).cloned()
            }
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
            Kind::Redis { raws, .. } => {
                for raw in raws {
                    raw.del(&self.full(key)).await;
                }
            }
        }
    }

    /// Gives a key to somebody else, whoever has it.
    pub async fn steal(&self, key: &str, expire: Duration) {
        let key = self.full(key);
        match &self.kind {
            Kind::Memory(store) => store.lock().unwrap().set(&key, "thief", expire),
            Kind::Redis { raws, .. } => {
                let ms = expire.as_millis().to_string();
                for raw in raws {
                    raw.cmd(&["SET", &key, "thief", "PX", &ms]).await;
                }
            }
        }
    }

    /// Deletes the helper key, as an operator might. A store in memory has none to delete.
    pub async fn lose_counter(&self, key: &str) {
        if let Kind::Redis { raws, .. } = &self.kind {
            let counter = format!("{{{}}}:fence", self.full(key));
            let mut deleted = 0;
            for raw in raws {
                deleted += usize::from(raw.del(&counter).await);
            }
            assert!(2 * deleted > raws.len(), "{counter} was there");
        }
    }

    /// Loses everything of this place, as `FLUSHALL` would. Clients made before go on as they are.
    pub async fn lose_data(&self) {
        match &self.kind {
            Kind::Memory(store) => *store.lock().unwrap() = MemoryStore::new(),
            Kind::Redis { raws, .. } => {
                for key in self.redis_keys().await {
                    for raw in raws {
                        raw.del(&key).await;
                    }
                }
            }
        }
    }

    /// Every key of this place, helper keys included; none for a store in memory.
    pub async fn redis_keys(&self) -> Vec<String> {
        let Kind::Redis { raws, .. } = &self.kind else { return Vec::new() };
        let mut keys = Vec::new();
        for raw in raws {
            keys.extend(raw.keys("*").await);
        }
        // The roll of the servers is no trace of a lock.
        keys.retain(|key| key.contains(&self.prefix) && !key.ends_with("nodes:fence"));
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}

/// Three servers that know nothing of each other, shared by all cases.
async fn masters() -> &'static [Server; 3] {
    static MASTERS: OnceCell<[Server; 3]> = OnceCell::const_new();
    let start = || async { [Server::start().await, Server::start().await, Server::start().await] };
    MASTERS.get_or_init(start).await
}
