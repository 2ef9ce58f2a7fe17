//! Makes connections to a server whose address is known.

use std::net::SocketAddr;

use deadpool_redis::redis::aio::{MultiplexedConnection, PubSub};
use deadpool_redis::redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, RedisResult,
};
use tokio::task::JoinSet;

use super::diagnosis::diagnose;
use super::host_lookup::HostLookup;
use crate::backend::redis::pubsub::broken;
use crate::backend::tls;

/// Commands that one connection queues before callers wait for room.
const PIPELINE_DEPTH: usize = 1024;

/// A connection for commands, logged in. It has no timeouts: every connect and every command has a
/// timeout of this library, whose error says what it was for.
pub(crate) async fn connect(
    server: &ConnectionInfo,
    lookup: &HostLookup,
) -> RedisResult<MultiplexedConnection> {
    let settings = AsyncConnectionConfig::new()
        .set_response_timeout(None)
        .set_connection_timeout(None)
        .set_pipeline_buffer_size(PIPELINE_DEPTH)
        .set_dns_resolver(lookup.clone());
    let connect = move |client: Client| {
        let settings = settings.clone();
        async move { client.get_multiplexed_async_connection_with_config(&settings).await }
    };
    at_one_address(server, lookup, connect).await
}

/// A connection that only listens, logged in.
pub(crate) async fn listen(server: &ConnectionInfo, lookup: &HostLookup) -> RedisResult<PubSub> {
    let listen = |client: Client| async move { client.get_async_pubsub().await };
    at_one_address(server, lookup, listen).await
}

/// The first of the server's addresses counts that answers a login: one may accept connections, and
/// end them or say nothing, as a program does that forwards a port for a server which is not there.
async fn at_one_address<T, F>(
    server: &ConnectionInfo,
    lookup: &HostLookup,
    connect: impl Fn(Client) -> F,
) -> RedisResult<T>
where
    T: Send + 'static,
    F: Future<Output = RedisResult<T>> + Send + 'static,
{
    prepare(server.addr());
    let ConnectionAddr::Tcp(host, port) = server.addr() else {
        // A certificate is for the name of the host, which the client library looks up by itself.
        return connect(Client::open(server.clone())?).await;
    };
    let at = |address| {
        let address = ConnectionAddr::Tcp(numeric(address), *port);
        Client::open(server.clone().set_addr(address))
    };
    let addresses = lookup.addresses(host, *port).await?;
    if let [address] = addresses[..] {
        return connect(at(address)?).await;
    }
    let mut attempts = JoinSet::new();
    for address in addresses {
        attempts.spawn(connect(at(address)?));
    }
    let mut failed = broken();
    while let Some(made) = attempts.join_next().await {
        match made {
            Ok(Ok(made)) => return Ok(made),
            // What another program says tells more than a connection that broke.
            Ok(Err(error)) if diagnose("", &error).broke() => {
                if failed.is_io_error() {
                    failed = error;
                }
            }
            // A server refuses, which other addresses do not mend.
            Ok(Err(refused)) => return Err(refused),
            Err(_) => {}
        }
    }
    Err(failed)
}

/// Before a connection is made to this address, by whatever means.
pub(crate) fn prepare(address: &ConnectionAddr) {
    if matches!(address, ConnectionAddr::TcpTls { .. }) {
        tls::provide();
    }
}

/// A host that needs no lookup.
fn numeric(address: SocketAddr) -> String {
    match address {
        SocketAddr::V6(address) if address.scope_id() > 0 => {
            format!("{}%{}", address.ip(), address.scope_id())
        }
        address => address.ip().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use deadpool_redis::redis::IntoConnectionInfo;
    #[cfg(target_os = "linux")]
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::time::timeout;

    use super::*;

    #[test]
    fn an_address_is_written_as_a_host_without_a_name() {
        for (address, host) in
            [("127.0.0.1:7", "127.0.0.1"), ("[::1]:7", "::1"), ("[fe80::1%3]:7", "fe80::1%3")]
        {
            assert_eq!(numeric(address.parse().unwrap()), host);
        }
    }

    #[tokio::test]
    async fn a_connection_that_listens_leads_to_the_addresses_of_a_name() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = ("localhost", port).into_connection_info().unwrap();
        let (lookup, limit) = (HostLookup::default(), Duration::from_secs(60));
        let accepted = async {
            tokio::select! {
                accepted = listener.accept() => accepted.map(drop),
                // It waits for the answers of a server.
                made = listen(&server, &lookup) => panic!("{:?}", made.map(drop)),
            }
        };
        timeout(limit, accepted).await.unwrap().unwrap();
        drop(listener);
        let error = listen(&server, &lookup).await.map(drop).unwrap_err();
        assert!(error.is_connection_refusal(), "{error}");
    }

    /// A name with three addresses: one ends each connection, one says nothing, one is a server.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_server_is_found_behind_addresses_that_accept_and_do_not_answer() {
        let at = async |address: &str| TcpListener::bind(address).await.unwrap();
        let server = at("127.0.0.1:0").await;
        let port = server.local_addr().unwrap().port();
        let (ends, silent) =
            (at(&format!("127.0.0.2:{port}")).await, at(&format!("127.0.0.3:{port}")).await);
        tokio::spawn(async move {
            loop {
                drop(ends.accept().await);
            }
        });
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = server.accept().await {
                // The answers to how the client introduces itself.
                let _ = socket.write_all(b"+OK\r\n+OK\r\n").await;
                tokio::spawn(async move { while socket.read_u8().await.is_ok() {} });
            }
        });
        let lookup = HostLookup::default();
        let addresses = [2, 3, 1].map(|last| SocketAddr::from(([127, 0, 0, last], port)));
        lookup.found_before("name", addresses.to_vec()).await;
        let info = ("name", port).into_connection_info().unwrap();
        let limit = Duration::from_secs(60);
        assert!(timeout(limit, connect(&info, &lookup)).await.unwrap().is_ok());
        assert!(timeout(limit, listen(&info, &lookup)).await.unwrap().is_ok());
        drop(silent);
    }
}
