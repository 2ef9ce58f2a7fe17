//! Where locks stand in a case of the contract: made for it alone, and open to meddling.

use std::sync::Mutex;
use std::time::Duration;

use deadpool_redis::sentinel::{self, SentinelServerType};
use deadpool_redis::{Config, Runtime, cluster};
use redlock::{LockGuard, MemoryStore, Redlock, RedlockBuilder};
use tokio::sync::OnceCell;

use crate::support::{
    Cluster, Masters, Raw, Replicated, Sentinels, Server, eventually, ms, secs, unique_prefix,
};

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
        how: How,
    },
}

/// How a client is told where the servers are.
#[derive(Clone, Copy)]
enum How {
    Urls,
    /// A URL whose replica has to confirm each lock.
    Replicated,
    Pools,
    Sentinel,
    SentinelPool,
    Cluster,
    ClusterPool,
}

impl Place {
    #[expect(clippy::unused_async, reason = "all places are made alike")]
    pub async fn memory() -> Place {
        Place { prefix: unique_prefix(), kind: Kind::Memory(Mutex::default()) }
    }

    pub async fn url() -> Place {
        Place::redis(Server::shared().await.url(), unique_prefix())
    }

    pub async fn pool() -> Place {
        let place = Place::redis(Server::shared().await.url(), unique_prefix());
        place.told(How::Pools)
    }

    /// A prefix of the longest kind, with spaces, glob characters and more than ASCII.
    pub async fn other_prefix() -> Place {
        let prefix = unique_prefix() + "caf\u{e9} *?[x]\\ \u{1f512}:";
        let prefix = "p".repeat(256 - prefix.len()) + &prefix;
        Place::redis(Server::shared().await.url(), prefix)
    }

    /// Three masters.
    pub async fn quorum() -> Place {
        let urls = masters().await.urls();
        let raws = urls.iter().map(|url| Raw::new(url)).collect();
        Place::of(urls, raws, How::Urls)
    }

    /// Five masters, two of which are down.
    pub async fn quorum_two_down() -> Place {
        let mut urls = masters().await.urls();
        let raws = urls.iter().map(|url| Raw::new(url)).collect();
        urls.insert(1, "redis://127.0.0.1:1".to_owned());
        urls.push("redis://127.0.0.1:2".to_owned());
        Place::of(urls, raws, How::Urls)
    }

    pub async fn quorum_of_pools() -> Place {
        Place::quorum().await.told(How::Pools)
    }

    /// A master whose replica has to confirm each lock.
    pub async fn min_replicas() -> Place {
        let place = Place::redis(replicated().await.master().url(), unique_prefix());
        place.told(How::Replicated)
    }

    /// A master that sentinels watch.
    pub async fn sentinel() -> Place {
        let set = watched().await;
        Place::of(set.urls(), vec![set.master().await.raw()], How::Sentinel)
    }

    pub async fn sentinel_pool() -> Place {
        Place::sentinel().await.told(How::SentinelPool)
    }

    /// Three masters that share the keys among them.
    pub async fn cluster() -> Place {
        let cluster = sharded().await;
        Place::of(cluster.urls(), vec![cluster.raw()], How::Cluster)
    }

    pub async fn cluster_pool() -> Place {
        Place::cluster().await.told(How::ClusterPool)
    }

    pub fn redis(url: String, prefix: String) -> Place {
        let raws = vec![Raw::new(&url)];
        Place { prefix, ..Place::of(vec![url], raws, How::Urls) }
    }

    fn of(urls: Vec<String>, raws: Vec<Raw>, how: How) -> Place {
        Place { prefix: unique_prefix(), kind: Kind::Redis { urls, raws, how } }
    }

    fn told(mut self, told: How) -> Place {
        if let Kind::Redis { how, .. } = &mut self.kind {
            *how = told;
        }
        self
    }

    pub fn builder(&self) -> RedlockBuilder {
        let builder = Redlock::builder().prefix(&self.prefix).client_name("contract");
        match &self.kind {
            Kind::Memory(store) => builder.memory_store(store.lock().unwrap().clone()),
            Kind::Redis { urls, how, .. } => how.tell(builder, urls),
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

    /// Do several servers decide together?
    pub fn has_several_masters(&self) -> bool {
        let is_list = |how: &How| matches!(how, How::Urls | How::Pools);
        matches!(&self.kind, Kind::Redis { urls, how, .. } if is_list(how) && urls.len() > 1)
    }

    /// Does a server keep those who wait in a queue?
    pub fn has_queue(&self) -> bool {
        let has_queue = |how: How| !matches!(how, How::Replicated);
        matches!(self.kind, Kind::Redis { how, .. } if has_queue(how))
            && !self.has_several_masters()
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

    pub async fn becomes_taken(&self, key: &str) {
        eventually(secs(10), || async { !self.is_free(key).await }).await;
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

    /// Deletes what fencing tokens come behind, as an operator might. A store in memory has nothing
    /// to delete.
    pub async fn lose_marks(&self) {
        for key in self.redis_keys().await.iter().filter(|key| key.ends_with(":mark:fence")) {
            let Kind::Redis { raws, .. } = &self.kind else { return };
            let mut deleted = 0;
            for raw in raws {
                deleted += usize::from(raw.del(key).await);
            }
            assert!(2 * deleted > raws.len(), "{key} was there");
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

impl How {
    fn tell(self, builder: RedlockBuilder, urls: &[String]) -> RedlockBuilder {
        let tokio = Some(Runtime::Tokio1);
        match self {
            How::Urls => builder.urls(urls),
            How::Replicated => builder.urls(urls).min_replicas(1, ms(900)),
            How::Pools => builder.pools(
                urls.iter()
                    .map(|url| Config::from_url(url).create_pool(tokio).expect("a good URL")),
            ),
            How::Sentinel => builder.sentinel(urls, Sentinels::MASTER),
            How::SentinelPool => {
                let of = SentinelServerType::Master;
                let config = sentinel::Config::from_urls(urls, Sentinels::MASTER.to_owned(), of);
                builder.sentinel_pool(config.create_pool(tokio).expect("good URLs"))
            }
            How::Cluster => builder.cluster(urls),
            How::ClusterPool => {
                let config = cluster::Config::from_urls(urls);
                builder.cluster_pool(config.create_pool(tokio).expect("good URLs"))
            }
        }
    }
}

/// A master with replicas, shared by all cases; the sentinels are in no hurry to replace it.
async fn watched() -> &'static Sentinels {
    static WATCHED: OnceCell<Sentinels> = OnceCell::const_new();
    WATCHED.get_or_init(|| Sentinels::start_with(secs(60), &[])).await
}

/// A master with a replica, shared by all cases.
async fn replicated() -> &'static Replicated {
    static REPLICATED: OnceCell<Replicated> = OnceCell::const_new();
    REPLICATED.get_or_init(|| Replicated::start(1)).await
}

/// A cluster, shared by all cases, whose nodes are in no hurry to replace each other.
async fn sharded() -> &'static Cluster {
    static SHARDED: OnceCell<Cluster> = OnceCell::const_new();
    SHARDED.get_or_init(|| Cluster::start_with(secs(60), &[])).await
}

/// Three servers that know nothing of each other, shared by all cases.
async fn masters() -> &'static Masters {
    static MASTERS: OnceCell<Masters> = OnceCell::const_new();
    MASTERS.get_or_init(|| Masters::start(3)).await
}
