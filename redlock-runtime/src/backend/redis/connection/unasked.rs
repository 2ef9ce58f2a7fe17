//! What a server says unasked before it closes a new connection: that it has no room for another
//! one, or that it is in protected mode.
//!
//! The client library writes its first commands at once, and is told of a connection that broke in
//! place of that line. So after such a failure, and never otherwise, one more socket is opened on
//! which nothing is written.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use deadpool_redis::redis::{self, ConnectionAddr, RedisError, RedisResult, Value};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};

use super::diagnosis::diagnose;
use super::host_lookup::HostLookup;
use crate::error::NodeErrorKind;

/// How long the connect may take, which has just been possible.
const CONNECT: Duration = Duration::from_secs(1);
/// How long a server may take to say something, beside the time that the connect took.
const PATIENCE: Duration = Duration::from_millis(100);
/// The longest line that is read. That of protected mode has about a thousand bytes.
const LONGEST: u64 = 4096;

/// What a server did with a connection on which it was asked nothing.
#[derive(Debug)]
enum Heard {
    Line(String),
    /// It waits for the client.
    Silence,
    /// It cannot be reached, or closed the connection without a word.
    Nothing,
}

/// The error of a connection that broke while it was made, with what the server says unasked.
pub(crate) async fn explained(
    address: &ConnectionAddr,
    lookup: &HostLookup,
    error: RedisError,
) -> RedisError {
    if !is_end(&error) {
        return error;
    }
    let heard = match address {
        ConnectionAddr::Tcp(host, port) => heard(connect(host, *port, lookup)).await,
        #[cfg(unix)]
        ConnectionAddr::Unix(path) => {
            heard(async { Ok(tokio::net::UnixStream::connect(path).await?) }).await
        }
        _ => Heard::Nothing,
    };
    match heard {
        Heard::Line(line) => said(&line, error),
        Heard::Silence if matches!(address, ConnectionAddr::Tcp(..)) => {
            let hint = "the server ended the connection when it was spoken to: if it speaks TLS \
                        at this port, write `rediss://`";
            beside(&error, hint)
        }
        Heard::Silence | Heard::Nothing => error,
    }
}

async fn connect(host: &str, port: u16, lookup: &HostLookup) -> RedisResult<TcpStream> {
    let addresses = lookup.addresses(host, port).await?;
    Ok(TcpStream::connect(addresses.as_slice()).await?)
}

async fn heard<T: AsyncRead + Unpin>(connect: impl Future<Output = RedisResult<T>>) -> Heard {
    let begun = Instant::now();
    let Ok(Ok(socket)) = timeout(CONNECT, connect).await else { return Heard::Nothing };
    // What a far server says takes as long.
    first_line(socket, Instant::now() + begun.elapsed() + PATIENCE).await
}

/// Did the server end the connection?
fn is_end(error: &RedisError) -> bool {
    matches!(
        io_kind(error),
        Some(
            io::ErrorKind::BrokenPipe
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::UnexpectedEof
        )
    )
}

pub(crate) fn io_kind(error: &RedisError) -> Option<io::ErrorKind> {
    type Shared = Arc<dyn Error + Send + Sync>;
    let shared = error.source()?.downcast_ref::<Shared>()?;
    shared.downcast_ref::<io::Error>().map(io::Error::kind)
}

async fn first_line(socket: impl AsyncRead + Unpin, end: Instant) -> Heard {
    let (mut socket, mut said) = (socket.take(LONGEST), Vec::new());
    loop {
        match timeout_at(end, socket.read_buf(&mut said)).await {
            Err(_) if said.is_empty() => return Heard::Silence,
            Ok(Ok(count)) if count > 0 && !said.contains(&b'\n') => {}
            _ => break,
        }
    }
    let line = said.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
    if line.is_empty() {
        return Heard::Nothing;
    }
    Heard::Line(String::from_utf8_lossy(line).into_owned())
}

/// The error in a line that begins as an error reply does.
fn said(line: &str, broken: RedisError) -> RedisError {
    if !line.starts_with('-') {
        return broken;
    }
    // Protected mode is explained at length.
    let line = if line.starts_with("-DENIED ") { first_sentence(line) } else { line };
    let reply = redis::parse_redis_value(format!("{line}\r\n").as_bytes());
    let Ok(Value::ServerError(told)) = reply else { return broken };
    let told = RedisError::from(told);
    // What a proxy says may pass, as a connection that broke may.
    if diagnose("", &told).error.kind() == NodeErrorKind::Refused {
        return beside(&broken, &line[1..]);
    }
    told
}

fn first_sentence(text: &str) -> &str {
    text.split_once(". ").map_or(text, |(first, _)| first)
}

/// Stays an error of the connection, with more words.
fn beside(broken: &RedisError, words: &str) -> RedisError {
    let kind = io_kind(broken).unwrap_or(io::ErrorKind::BrokenPipe);
    RedisError::from(io::Error::new(kind, format!("{broken}; {words}")))
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;
    use crate::backend::redis::connection::address;
    use crate::backend::redis::connection::source::{Direct, Source};
    use NodeErrorKind::{Authentication, Protocol, TooManyClients, Unreachable};

    /// What a client makes of a server that says this to each new connection, and closes it.
    async fn told(said: &'static [u8]) -> (NodeErrorKind, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("redis://{}/2", listener.local_addr().unwrap());
        tokio::spawn(async move {
            loop {
                let (mut socket, _) = listener.accept().await.unwrap();
                let _ = socket.write_all(said).await;
            }
        });
        diagnosed(&url).await
    }

    async fn diagnosed(url: &str) -> (NodeErrorKind, String) {
        let info = address::parse(url, None).unwrap();
        let name = address::name(&info);
        let error = Direct::to(info).connect().await.map(drop).unwrap_err();
        let diagnosis = diagnose(&name, &error);
        assert_eq!(diagnosis.is_final, diagnosis.error.kind() == Authentication);
        (diagnosis.error.kind(), diagnosis.error.to_string())
    }

    #[tokio::test]
    async fn what_a_server_says_before_it_closes_is_told() {
        let (kind, text) = told(b"-ERR max number of clients reached\r\n").await;
        assert!(kind == TooManyClients && text.contains("raise `maxclients`"), "{text}");
        let (kind, text) = told(
            b"-DENIED Redis is running in protected mode because protected mode is enabled and no \
              password is set for the default user. In this mode connections are only accepted \
              from the loopback interface. 1) Just disable protected mode\r\n",
        )
        .await;
        assert!(kind == Authentication && text.contains("`requirepass`"), "{text}");
        assert!(text.contains("default user") && !text.contains("In this mode"), "{text}");
        let (kind, text) = told(b"-ERR no backend is up\r\n").await;
        assert!(kind == Unreachable && text.contains("no backend is up"), "{text}");
        for odd in [&b""[..], b"-"] {
            let (kind, text) = told(odd).await;
            assert!(kind == Unreachable && !text.contains("TLS"), "{odd:?}: {text}");
        }
        let (kind, text) = told(b"220 mail.example.com\r\n").await;
        assert!(kind == Protocol && text.contains("is this a redis server?"), "{text}");
    }

    /// As a server does that expects a handshake: it waits for the client, and does not understand
    /// what comes.
    #[tokio::test]
    async fn a_server_that_waits_for_something_else_may_speak_tls() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("redis://{}/2", listener.local_addr().unwrap());
        tokio::spawn(async move {
            loop {
                let (mut socket, _) = listener.accept().await.unwrap();
                tokio::spawn(async move { socket.read_u8().await });
            }
        });
        let (kind, text) = diagnosed(&url).await;
        assert!(kind == Unreachable && text.contains("write `rediss://`"), "{text}");
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_is_not_asked_again() {
        let (kind, text) = diagnosed("redis://127.0.0.1:1").await;
        assert!(kind == Unreachable && text.contains("refused") && !text.contains("TLS"), "{text}");
    }
}
