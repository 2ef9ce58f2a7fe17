//! The least that a lock can do: `SET NX PX`, and a script that deletes the key of its owner, on
//! one bare connection. It knows no waiting: for keys of one worker only.

use redis::aio::MultiplexedConnection;
use redis::{Client, Script};

use super::subject::{Body, LEASE, Subject, Visit};
use crate::Failure;

const RELEASE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
                       return redis.call('DEL', KEYS[1]) else return 0 end";

#[derive(Clone)]
pub struct PlainSet {
    connection: MultiplexedConnection,
    release: std::sync::Arc<Script>,
}

impl Subject for PlainSet {
    async fn connect(url: &str) -> Result<Self, Failure> {
        let connection = Client::open(url)?.get_multiplexed_async_connection().await?;
        Ok(Self { connection, release: Script::new(RELEASE).into() })
    }

    async fn hold(&self, key: &str, body: Body) -> Result<Visit, Failure> {
        const OWNER: &str = "a-host-4711:0123456789abcdef0123456789abcdef";
        let mut connection = self.connection.clone();
        let mut set = redis::cmd("SET");
        set.arg(key).arg(OWNER).arg("NX").arg("PX").arg(LEASE.as_secs() * 1_000);
        if set.query_async::<Option<String>>(&mut connection).await?.is_none() {
            return Err("the key of one worker was taken".into());
        }
        let visit = body.run().await;
        let deleted: u32 = self.release.key(key).arg(OWNER).invoke_async(&mut connection).await?;
        if deleted == 1 { Ok(visit) } else { Err("the key was gone".into()) }
    }
}
