//! `WAIT`: have enough replicas received what a connection wrote?
//!
//! `WAIT` counts the writes of its own connection only, and blocks it until the replicas have
//! answered (<https://redis.io/docs/latest/commands/wait/>): it is sent right after the script, on
//! a connection for one caller.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use deadpool_redis::redis;
use deadpool_redis::redis::aio::ConnectionLike;
use deadpool_redis::redis::{RedisResult, Value};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::identified_source::IdentifiedSource;
use super::shared::SharedConnection;
use super::source::Source;
use crate::backend::redis::commands::Invocation;
use crate::mutex::Mutex;

/// The most connections for acquires that wait for replicas; more callers queue for one.
const MOST_CONNECTIONS: usize = 32;

/// How many replicas have to confirm a write, and how soon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MinReplicas {
    pub(crate) needed: u32,
    pub(crate) within: Duration,
}

/// How much of the time for an acquire is kept for its answer, at most.
const ANSWER: Duration = Duration::from_millis(100);

impl MinReplicas {
    /// As long as a command may wait for replicas that has this time `left`. The server has to
    /// answer before the caller goes, or nobody learns that replicas are missing.
    pub(crate) fn answering(self, left: Duration) -> Self {
        let longest = left.saturating_sub(ANSWER.min(left / 2));
        // In whole milliseconds, as errors show it.
        let longest = Duration::from_millis(u64::try_from(longest.as_millis()).unwrap_or(u64::MAX));
        Self { within: self.within.min(longest), ..self }
    }

    /// How many replicas have what this connection wrote so far.
    pub(crate) async fn confirm(
        self,
        connection: &mut (impl ConnectionLike + Send),
    ) -> RedisResult<u32> {
        // Zero would wait for ever.
        let millis = self.within.as_millis().max(1);
        let mut wait = redis::cmd("WAIT");
        wait.arg(self.needed).arg(u64::try_from(millis).unwrap_or(u64::MAX));
        match wait.query_async(connection).await? {
            Value::Int(acknowledged) => Ok(u32::try_from(acknowledged).unwrap_or(0)),
            _ => Ok(0),
        }
    }

    /// Runs a script, and returns its answer, and how many replicas have what it wrote.
    pub(crate) async fn run_confirmed(
        self,
        invocation: &Invocation,
        connection: &mut (impl ConnectionLike + Clone + Send),
    ) -> RedisResult<(Value, RedisResult<u32>)> {
        let mut behind = connection.clone();
        let (first, confirmed) = tokio::join!(
            biased;
            invocation.run_known(connection),
            self.confirm(&mut behind)
        );
        if let Some(value) = first? {
            return Ok((value, confirmed));
        }
        // The server did not know the script: WAIT counted the writes before it.
        let (value, confirmed) = tokio::join!(
            biased;
            invocation.run_text(connection),
            self.confirm(&mut behind)
        );
        Ok((value?, confirmed))
    }

    pub(crate) fn shortage(self, confirmed: u32) -> String {
        let Self { needed, within } = self;
        format!("{confirmed} of {needed} replicas confirmed the lock within {within:?}")
    }
}

/// Connections that are used by one caller at a time.
pub(crate) struct ReplicaConnections<S: Source> {
    source: Arc<IdentifiedSource<S>>,
    /// The one that was given back longest ago is the first.
    idle: Mutex<VecDeque<Arc<SharedConnection<S>>>>,
    permits: Semaphore,
}

impl<S: Source> ReplicaConnections<S> {
    pub(crate) fn new(source: Arc<IdentifiedSource<S>>) -> Self {
        Self { source, idle: Mutex::default(), permits: Semaphore::new(MOST_CONNECTIONS) }
    }

    /// A connection for the caller alone. The ones that were given back last may still be blocked:
    /// their callers may have left before the server was done with `WAIT`. Cancel safe.
    pub(crate) async fn take(&self) -> ReplicaConnection<'_, S> {
        let permit = self.permits.acquire().await.ok();
        let idle = self.idle.lock().pop_front();
        let connection =
            idle.unwrap_or_else(|| Arc::new(SharedConnection::new(Arc::clone(&self.source))));
        ReplicaConnection { connections: self, connection, _permit: permit }
    }
}

/// One of these connections. Dropping it gives it back.
pub(crate) struct ReplicaConnection<'a, S: Source> {
    connections: &'a ReplicaConnections<S>,
    connection: Arc<SharedConnection<S>>,
    _permit: Option<SemaphorePermit<'a>>,
}

impl<S: Source> Deref for ReplicaConnection<'_, S> {
    type Target = SharedConnection<S>;

    fn deref(&self) -> &SharedConnection<S> {
        &self.connection
    }
}

impl<S: Source> Drop for ReplicaConnection<'_, S> {
    fn drop(&mut self) {
        let mut idle = self.connections.idle.lock();
        idle.push_back(Arc::clone(&self.connection));
    }
}

#[cfg(test)]
mod tests {
    use deadpool_redis::redis::{Cmd, RedisFuture};

    use super::*;
    use crate::backend::redis::commands::Script;
    use crate::backend::redis::connection::{Scripted, single_commands, unidentified};

    const REPLICAS: MinReplicas = MinReplicas { needed: 2, within: Duration::from_millis(70) };

    #[tokio::test]
    async fn replicas_are_counted_by_the_server() {
        for (answer, confirmed) in [(":0", 0), (":3", 3), (":-1", 0), ("+OK", 0)] {
            let mut server = Scripted::new([answer]);
            assert_eq!(REPLICAS.confirm(&mut server).await.unwrap(), confirmed, "{answer}");
            assert_eq!(server.asked(), ["WAIT 2 70"]);
        }
        let mut server = Scripted::new(["-LOADING soon"]);
        assert!(REPLICAS.confirm(&mut server).await.is_err());
        assert!(REPLICAS.shortage(1).starts_with("1 of 2 replicas confirmed"));
    }

    /// One connection, of which the clones are further users.
    #[derive(Clone)]
    struct Multiplexed(Arc<Mutex<Scripted>>);

    impl ConnectionLike for Multiplexed {
        fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
            let answer = self.0.lock().answer(command);
            Box::pin(async { answer })
        }

        single_commands!();
    }

    #[tokio::test]
    async fn the_count_before_a_script_that_was_not_known_does_not_confirm_it() {
        static SCRIPT: Script = Script::new("abc");
        let invocation = Invocation::new(&SCRIPT, &["k"], &[]);
        let server = Scripted::new(["-NOSCRIPT none", ":1", "+granted", ":0"]);
        let mut connection = Multiplexed(Arc::new(Mutex::new(server)));
        let (value, confirmed) =
            REPLICAS.run_confirmed(&invocation, &mut connection).await.unwrap();
        assert_eq!(value, Value::SimpleString("granted".to_owned()));
        assert_eq!(confirmed.unwrap(), 0);
    }

    /// A server that waits for as long as its caller does is taken for one that is silent.
    #[test]
    fn replicas_are_waited_for_no_longer_than_the_caller_waits() {
        let replicas = MinReplicas { within: Duration::from_millis(400), ..REPLICAS };
        for (left, within) in [(10_000, 400), (500, 400), (450, 350), (250, 150), (60, 30)] {
            let asked = replicas.answering(Duration::from_millis(left)).within;
            assert_eq!(asked, Duration::from_millis(within), "{left}");
        }
    }

    /// Zero would mean a wait without end.
    #[tokio::test]
    async fn a_wait_for_replicas_has_an_end() {
        let mut server = Scripted::new([":2"]);
        let replicas = MinReplicas { within: Duration::from_nanos(1), ..REPLICAS };
        replicas.confirm(&mut server).await.unwrap();
        assert_eq!(server.asked(), ["WAIT 2 1"]);
    }

    #[tokio::test]
    async fn a_connection_is_for_one_caller_and_is_used_again_by_the_next() {
        let connections = ReplicaConnections::new(unidentified(Scripted::default()));
        let first = connections.take().await;
        let connection = Arc::clone(&first.connection);
        let second = connections.take().await;
        assert!(!Arc::ptr_eq(&connection, &second.connection));
        drop(first);
        assert!(Arc::ptr_eq(&connection, &connections.take().await.connection));
    }

    /// The server is still busy with what the caller of the latest one has left behind.
    #[tokio::test]
    async fn the_connection_that_was_given_back_longest_ago_is_the_next() {
        let connections = ReplicaConnections::new(unidentified(Scripted::default()));
        let taken = [connections.take().await, connections.take().await];
        let given_back = taken.each_ref().map(|taken| Arc::clone(&taken.connection));
        drop(taken);
        for connection in given_back {
            assert!(Arc::ptr_eq(&connection, &connections.take().await.connection));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn there_is_a_limit_of_connections() {
        let connections = ReplicaConnections::new(unidentified(Scripted::default()));
        let mut taken = Vec::new();
        for _ in 0..MOST_CONNECTIONS {
            taken.push(connections.take().await);
        }
        let mut next = std::pin::pin!(connections.take());
        assert!(tokio::time::timeout(Duration::ZERO, &mut next).await.is_err());
        drop(taken.pop());
        next.await;
    }
}
