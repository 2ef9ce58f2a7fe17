//! The raw limit: the very commands of redlock on one bare connection of the same client library.
//! It knows no waiting: for keys of one worker only.

use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::{Client, Value};

use super::capture::{Cycle, capture};
use super::subject::{Body, Subject, Visit};
use crate::Failure;

#[derive(Clone)]
pub struct RawScripts {
    connection: MultiplexedConnection,
    cycle: Arc<Cycle>,
}

impl Subject for RawScripts {
    async fn connect(url: &str) -> Result<Self, Failure> {
        let connection = Client::open(url)?.get_multiplexed_async_connection().await?;
        Ok(Self { connection, cycle: capture(url).await?.into() })
    }

    async fn hold(&self, key: &str, body: Body) -> Result<Visit, Failure> {
        let mut connection = self.connection.clone();
        let (acquire, behind) = self.cycle.of(key);
        acquire.query_async::<Value>(&mut connection).await?;
        let visit = body.run().await;
        for command in behind {
            command.query_async::<Value>(&mut connection).await?;
        }
        Ok(visit)
    }
}
