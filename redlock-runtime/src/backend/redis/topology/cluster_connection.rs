//! Connections of a cluster's client on which a command is sent once.
//!
//! The client library sends a command again when its connection broke, and does not say so. The
//! first one may have been carried out: only its owner can tell what the answer to the second
//! means. So the connections to the single servers are of a type of our own, whose errors the
//! client library passes on. It still follows redirects and waits for a slot that moves, as the
//! servers have refused these commands, and it still makes broken connections anew.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use deadpool_redis::cluster::ClusterConnection;
use deadpool_redis::redis::aio::{ConnectionLike, MultiplexedConnection};
use deadpool_redis::redis::cluster_async::Connect;
use deadpool_redis::redis::cluster_routing::RoutingInfo;
use deadpool_redis::redis::{
    AsyncConnectionConfig, Cmd, IntoConnectionInfo, Pipeline, RedisError, RedisFuture, RedisResult,
    Value,
};

/// A connection to one server of a cluster. Clones share the socket.
#[derive(Clone)]
pub(crate) struct ServerConnection {
    connection: MultiplexedConnection,
    is_broken: Arc<AtomicBool>,
}

impl ServerConnection {
    /// A command on a connection that is known to be broken is not sent. This error makes the
    /// client library connect again, and then send the command.
    fn check(&self) -> RedisResult<()> {
        if self.is_broken.load(Ordering::Relaxed) {
            return Err(io::Error::from(io::ErrorKind::BrokenPipe).into());
        }
        Ok(())
    }

    /// Error replies are no errors here.
    fn note<T>(&self, answer: RedisResult<T>) -> RedisResult<T> {
        answer.map_err(|error| {
            if error.is_unrecoverable_error() {
                self.is_broken.store(true, Ordering::Relaxed);
            }
            unknown(error)
        })
    }
}

/// The error of a command that was sent, and may have been carried out, in a form after which the
/// client library does not send the command again.
fn unknown(error: RedisError) -> RedisError {
    io::Error::new(io::ErrorKind::Unsupported, error).into()
}

impl ConnectionLike for ServerConnection {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(async move {
            self.check()?;
            let answer = self.connection.req_packed_command(command).await;
            self.note(answer)
        })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(async move {
            self.check()?;
            let answers = self.connection.req_packed_commands(pipeline, offset, count).await;
            self.note(answers)
        })
    }

    fn get_db(&self) -> i64 {
        self.connection.get_db()
    }
}

impl Connect for ServerConnection {
    fn connect_with_config<'a, T>(
        address: T,
        config: AsyncConnectionConfig,
    ) -> RedisFuture<'a, Self>
    where
        T: IntoConnectionInfo + Send + 'a,
    {
        Box::pin(async move {
            let connection = MultiplexedConnection::connect_with_config(address, config).await?;
            Ok(Self { connection, is_broken: Arc::default() })
        })
    }
}

/// A connection to a whole cluster.
#[derive(Clone)]
pub(crate) enum ShardsConnection {
    Own(ClusterConnection<ServerConnection>),
    /// That of a pool, on which the client library sends a command again by itself.
    Pooled(ClusterConnection),
}

impl ShardsConnection {
    /// Sends a command to a server that is not that of its key.
    pub(crate) async fn route(&mut self, command: Cmd, place: RoutingInfo) -> RedisResult<Value> {
        match self {
            Self::Own(connection) => connection.route_command(command, place).await,
            Self::Pooled(connection) => connection.route_command(command, place).await,
        }
    }
}

impl ConnectionLike for ShardsConnection {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Self::Own(connection) => connection.req_packed_command(command),
            Self::Pooled(connection) => connection.req_packed_command(command),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Self::Own(connection) => connection.req_packed_commands(pipeline, offset, count),
            Self::Pooled(connection) => connection.req_packed_commands(pipeline, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use deadpool_redis::redis::{ErrorKind, RetryMethod};

    use super::*;
    use crate::backend::redis::connection::diagnose;

    /// What the client library does with an error is not part of its documentation.
    #[test]
    fn a_command_that_may_have_been_carried_out_is_not_sent_again() {
        let errors: [RedisError; 3] = [
            io::Error::from(io::ErrorKind::BrokenPipe).into(),
            io::Error::from(io::ErrorKind::TimedOut).into(),
            (ErrorKind::Parse, "nonsense").into(),
        ];
        for error in errors {
            assert!(!matches!(error.retry_method(), RetryMethod::NoRetry), "{error}");
            let text = error.to_string();
            let error = unknown(error);
            assert!(matches!(error.retry_method(), RetryMethod::NoRetry), "{error}");
            assert!(diagnose("node", &error).broke, "its outcome is unknown");
            assert!(error.to_string().contains(&text), "{error}");
        }
    }
}
