//! Whether a connection has ended, found out without sending anything.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use deadpool_redis::redis;
use deadpool_redis::redis::aio::MultiplexedConnection;

/// Has the task ended that drives the connection? It ends when the server closes the connection,
/// also while nobody uses it. The client library does not say so, and its error for a command that
/// this task never got is the one for a command whose answer is lost.
///
/// The task takes no command once it has ended, so that one fails at its first poll. Otherwise this
/// command is dropped after that poll: the task sends nothing for a caller that has gone. Should
/// the task be quicker, the server is asked for its time, as scripts do too, and nobody reads the
/// answer.
pub(crate) fn has_ended(connection: &mut MultiplexedConnection) -> bool {
    let command = redis::cmd("TIME");
    let first_poll = pin!(connection.send_packed_command(&command))
        .poll(&mut Context::from_waker(Waker::noop()));
    matches!(first_poll, Poll::Ready(Err(_)))
}

#[cfg(test)]
mod tests {
    use deadpool_redis::redis::{AsyncConnectionConfig, RedisConnectionInfo, Value};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn a_connection_that_the_server_closes_has_ended_and_to_look_sends_nothing() {
        let (socket, mut server) = tokio::io::duplex(1024);
        // The client introduces itself with two commands.
        server.write_all(b"+OK\r\n+OK\r\n").await.unwrap();
        let settings = RedisConnectionInfo::default();
        let options = AsyncConnectionConfig::new().set_response_timeout(None);
        let made = MultiplexedConnection::new_with_config(&settings, socket, options).await;
        let (mut connection, driver) = made.unwrap();
        let mut introduction = [0; 1024];
        let _ = server.read(&mut introduction).await.unwrap();
        assert!(!has_ended(&mut connection));
        let driver = tokio::spawn(driver);
        assert!(!has_ended(&mut connection));
        let command = redis::cmd("ECHO");
        let answering = async {
            let mut sent = [0; 1024];
            let length = server.read(&mut sent).await.unwrap();
            assert_eq!(&sent[..length], b"*1\r\n$4\r\nECHO\r\n");
            server.write_all(b"+OK\r\n").await.unwrap();
        };
        let (answer, ()) = tokio::join!(connection.send_packed_command(&command), answering);
        assert_eq!(answer.unwrap(), Value::Okay);
        assert!(!has_ended(&mut connection));
        drop(server);
        driver.await.unwrap();
        assert!(has_ended(&mut connection));
    }
}
