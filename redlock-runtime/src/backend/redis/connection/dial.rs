//! Makes connections to a server whose address is known.

use std::net::SocketAddr;

use deadpool_redis::redis::aio::{MultiplexedConnection, PubSub};
use deadpool_redis::redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, RedisResult,
};
use tokio::task::JoinSet;

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
    prepare(server.addr());
    let settings = AsyncConnectionConfig::new()
        .set_response_timeout(None)
        .set_connection_timeout(None)
        .set_pipeline_buffer_size(PIPELINE_DEPTH)
        .set_dns_resolver(lookup.clone());
    Client::open(server.clone())?.get_multiplexed_async_connection_with_config(&settings).await
}

/// A connection that only listens, logged in. The first of the server's addresses counts that can
/// be connected to.
pub(crate) async fn listen(server: &ConnectionInfo, lookup: &HostLookup) -> RedisResult<PubSub> {
    prepare(server.addr());
    let ConnectionAddr::Tcp(host, port) = server.addr() else {
        // A certificate is for the name of the host, which the client library looks up by itself.
        return Client::open(server.clone())?.get_async_pubsub().await;
    };
    let mut attempts = JoinSet::new();
    for address in lookup.addresses(host, *port).await? {
        let address = ConnectionAddr::Tcp(numeric(address), *port);
        let client = Client::open(server.clone().set_addr(address))?;
        attempts.spawn(async move { client.get_async_pubsub().await });
    }
    let mut failed = broken();
    while let Some(made) = attempts.join_next().await {
        match made {
            Ok(Ok(made)) => return Ok(made),
            Ok(Err(error)) if error.is_io_error() => failed = error,
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
}
