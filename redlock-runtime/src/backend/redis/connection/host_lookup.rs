//! Looks up the name of a host on the background thread.
//!
//! A lookup blocks a thread until the name server answers or the system gives it up, and cannot be
//! cancelled. A runtime that ends waits for such threads of its own: a name server that is silent
//! would hold up the end of `main`.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use deadpool_redis::redis::io::AsyncDNSResolver;
use deadpool_redis::redis::{RedisError, RedisFuture, RedisResult};
use tokio::net::lookup_host;

use crate::backend::SharedWork;
use crate::backend::redis::pubsub::broken;
use crate::background_thread;
use crate::clock::paused_runtime;

/// The lookups of one host. All attempts to connect to it wait for the one that is under way.
#[derive(Debug, Clone, Default)]
pub(crate) struct HostLookup(Arc<SharedWork<RedisResult<Vec<SocketAddr>>>>);

impl HostLookup {
    pub(crate) async fn addresses(&self, host: &str, port: u16) -> RedisResult<Vec<SocketAddr>> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, port)]);
        }
        let home = match paused_runtime() {
            // A clock that is paused jumps while it waits for another thread.
            Some(home) => home,
            None => background_thread::handle().map_err(io::Error::other)?,
        };
        let name = host.to_owned();
        let found = self.0.join(&home, || async move {
            let addresses: Vec<_> = lookup_host((name.as_str(), port)).await?.collect();
            if addresses.is_empty() {
                return Err(RedisError::from(io::Error::other("no address found for the host")));
            }
            Ok(addresses)
        });
        found.await.unwrap_or_else(|| Err(broken()))
    }
}

impl AsyncDNSResolver for HostLookup {
    fn resolve<'a, 'b: 'a>(
        &'a self,
        host: &'b str,
        port: u16,
    ) -> RedisFuture<'a, Box<dyn Iterator<Item = SocketAddr> + Send + 'a>> {
        Box::pin(async move {
            let found = self.addresses(host, port).await?;
            Ok(Box::new(found.into_iter()) as Box<dyn Iterator<Item = SocketAddr> + Send>)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::mpsc;
    use std::task::{Context, Waker};
    use std::time::Duration;

    use tokio::runtime::{self, Handle};
    use tokio::time::timeout;

    use super::*;
    use crate::backend::redis::connection::{Direct, Source, address};

    #[test]
    fn a_lookup_takes_no_thread_of_the_runtime_that_connects() {
        let mut caller = runtime::Builder::new_current_thread();
        let caller = caller.enable_all().max_blocking_threads(1).build().unwrap();
        let (ends, end) = mpsc::channel::<()>();
        caller.spawn_blocking(move || end.recv());
        let (_, pool, client) = address::open("redis://localhost:1", None).unwrap();
        let connecting = Direct::new(pool, Some(client));
        let made =
            caller.block_on(async { timeout(Duration::from_secs(60), connecting.connect()).await });
        drop(ends);
        let error = made.expect("the name was looked up elsewhere").map(drop).unwrap_err();
        assert!(error.is_connection_refusal(), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_to_connect_share_a_lookup() {
        let (lookup, mut context) = (HostLookup::default(), Context::from_waker(Waker::noop()));
        let mut first = pin!(lookup.addresses("localhost", 7));
        let mut second = pin!(lookup.addresses("localhost", 7));
        assert!(first.as_mut().poll(&mut context).is_pending());
        assert!(second.as_mut().poll(&mut context).is_pending());
        assert_eq!(Handle::current().metrics().num_alive_tasks(), 1);
        let (first, second) = (first.await.unwrap(), second.await.unwrap());
        assert!(first == second && first.iter().all(|found| found.ip().is_loopback()));
    }

    #[tokio::test]
    async fn an_address_is_not_looked_up_and_a_name_without_one_is_an_error() {
        let lookup = HostLookup::default();
        let found = lookup.addresses("192.0.2.7", 7).await.unwrap();
        assert_eq!(found, ["192.0.2.7:7".parse().unwrap()]);
        assert!(lookup.addresses("no such host", 7).await.unwrap_err().is_io_error());
    }
}
