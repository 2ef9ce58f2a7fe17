//! What stands in Redis, asked without the library under test.

use std::time::Duration;

use deadpool_redis::redis::aio::MultiplexedConnection;
use deadpool_redis::redis::cluster::ClusterClient;
use deadpool_redis::redis::cluster_async::ClusterConnection;
use deadpool_redis::redis::{
    self, AsyncConnectionConfig, Client, Cmd, RedisError, RedisResult, Value,
};
use tokio::sync::Mutex;

/// Commands for assertions. It reconnects by itself, so it survives a restarted server.
pub struct Raw {
    place: Place,
    connection: Mutex<Option<Connection>>,
}

impl std::fmt::Debug for Raw {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Raw").finish_non_exhaustive()
    }
}

enum Place {
    Server(Box<Client>),
    Cluster(Box<ClusterClient>),
}

enum Connection {
    Server(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Raw {
    /// Connects at the first command.
    pub fn new(url: &str) -> Raw {
        let client = Client::open(url).expect("the URL is good");
        Raw { place: Place::Server(Box::new(client)), connection: Mutex::new(None) }
    }

    /// Each command goes to the master of its key, or to all masters where it has none.
    pub fn cluster(urls: &[String]) -> Raw {
        let client = ClusterClient::new(urls.to_vec()).expect("the URLs are good");
        Raw { place: Place::Cluster(Box::new(client)), connection: Mutex::new(None) }
    }

    /// The reply of one command; an error reply fails the test.
    pub async fn cmd(&self, words: &[&str]) -> Value {
        match self.try_cmd(words).await {
            Ok(value) => value,
            Err(error) => panic!("{words:?} failed: {error}"),
        }
    }

    /// The reply of one command, errors included.
    pub async fn try_cmd(&self, words: &[&str]) -> RedisResult<Value> {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        let mut slot = self.connection.lock().await;
        let is_broken = |error: &RedisError| error.is_connection_dropped() || error.is_io_error();
        if let Some(connection) = slot.as_mut() {
            match connection.query(&command).await {
                // The server was restarted meanwhile; the second try is on a new connection.
                Err(error) if is_broken(&error) => {}
                outcome => return outcome,
            }
        }
        match slot.insert(self.connect().await?).query(&command).await {
            // A server that becomes a master or a replica drops its clients.
            Err(error) if is_broken(&error) => {}
            outcome => return outcome,
        }
        slot.insert(self.connect().await?).query(&command).await
    }

    /// The keys that match a glob pattern, sorted.
    pub async fn keys(&self, pattern: &str) -> Vec<String> {
        let keys = self.cmd(&["KEYS", pattern]).await;
        let mut keys: Vec<String> = redis::from_redis_value(keys).expect("KEYS gives names");
        keys.sort();
        keys
    }

    /// The value of a key; `None` when it is absent.
    pub async fn get(&self, key: &str) -> Option<String> {
        let value = self.cmd(&["GET", key]).await;
        redis::from_redis_value(value).expect("GET gives text or nil")
    }

    /// The remaining time of a key; `None` when the key is absent. A key without one fails the
    /// test, as no key of ours may live for ever.
    pub async fn pttl(&self, key: &str) -> Option<Duration> {
        match self.int(&["PTTL", key]).await {
            -2 => None,
            ms => Some(Duration::from_millis(ms.try_into().expect("the key has an expiry"))),
        }
    }

    /// Takes a lock as another client of the standard algorithm would; false if it is taken.
    pub async fn set_foreign_lock(&self, key: &str, owner: &str, expire: Duration) -> bool {
        let ms = expire.as_millis().to_string();
        self.cmd(&["SET", key, owner, "NX", "PX", &ms]).await == Value::Okay
    }

    /// Whether there was such a key.
    pub async fn del(&self, key: &str) -> bool {
        self.int(&["DEL", key]).await == 1
    }

    /// The reply of one command as a number.
    pub async fn int(&self, words: &[&str]) -> i64 {
        redis::from_redis_value(self.cmd(words).await).expect("the reply is a number")
    }

    /// One field of `INFO`, for example `info("run_id")`.
    pub async fn info(&self, field: &str) -> String {
        let info: String =
            redis::from_redis_value(self.cmd(&["INFO", "everything"]).await).expect("text");
        let value = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        value.unwrap_or_else(|| panic!("INFO has no field {field}")).to_owned()
    }

    /// The first number of the server's version. That of Valkey counts on from Redis 7.
    pub async fn major_version(&self) -> u32 {
        let version = self.info("redis_version").await;
        version.split('.').next().and_then(|major| major.parse().ok()).expect("a version")
    }

    /// Gives these slots, the last included, to this node of a cluster. Servers before Redis 7.0
    /// know no ranges.
    pub async fn add_slots(&self, first: u16, last: u16) {
        let slots: Vec<String> = (first..=last).map(|slot| slot.to_string()).collect();
        let words = ["CLUSTER", "ADDSLOTS"].into_iter().chain(slots.iter().map(String::as_str));
        self.cmd(&words.collect::<Vec<_>>()).await;
    }

    async fn connect(&self) -> RedisResult<Connection> {
        let client = match &self.place {
            Place::Cluster(client) => {
                return Ok(Connection::Cluster(client.get_async_connection().await?));
            }
            Place::Server(client) => client,
        };
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(Some(Duration::from_secs(10)))
            .set_connection_timeout(Some(Duration::from_secs(5)));
        let connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        Ok(Connection::Server(connection))
    }
}

impl Connection {
    async fn query(&mut self, command: &Cmd) -> RedisResult<Value> {
        match self {
            Self::Server(connection) => command.query_async(connection).await,
            Self::Cluster(connection) => command.query_async(connection).await,
        }
    }
}

/// The words of a reply: the elements of an array, or the lines of a text.
pub fn lines_of(reply: Value) -> Vec<String> {
    match reply {
        Value::Array(items) => items.into_iter().flat_map(lines_of).collect(),
        Value::Int(number) => vec![number.to_string()],
        other => {
            let text: String = redis::from_redis_value(other).unwrap_or_default();
            text.lines().map(str::to_owned).collect()
        }
    }
}
