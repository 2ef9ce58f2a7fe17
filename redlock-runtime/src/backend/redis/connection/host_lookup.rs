//! Looks up the name of a host on the background thread.
//!
//! A lookup blocks a thread until the name server answers or the system gives it up, and cannot be
//! cancelled. A runtime that ends waits for such threads of its own: a name server that is silent
//! would hold up the end of `main`.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use deadpool_redis::redis::io::AsyncDNSResolver;
use deadpool_redis::redis::{RedisError, RedisFuture, RedisResult};
use tokio::net::lookup_host;
use tokio::time::Instant;

use crate::backend::SharedWork;
use crate::backend::redis::pubsub::broken;
use crate::background_thread;
use crate::clock::paused_runtime;
use crate::mutex::Mutex;

/// For how long an answer stands at most.
const LONGEST: Duration = Duration::from_secs(10);

/// The lookups of one client. All attempts to connect to a host wait for the lookup that is under
/// way.
#[derive(Debug, Clone, Default)]
pub(crate) struct HostLookup(Arc<Mutex<NameLookups>>);

type NameLookups = HashMap<(String, u16), Arc<NameLookup>>;

/// The lookups of one name.
type NameLookup = SharedWork<RedisResult<Answer>>;

/// What a name server has said. It stands for as long as it took: an attempt that had less time
/// than a slow name server needs is made again, and finds the answer.
#[derive(Debug, Clone)]
struct Answer {
    addresses: Vec<SocketAddr>,
    stands_until: Instant,
}

impl HostLookup {
    pub(crate) async fn addresses(&self, host: &str, port: u16) -> RedisResult<Vec<SocketAddr>> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, port)]);
        }
        let lookup = Arc::clone(self.0.lock().entry((host.to_owned(), port)).or_default());
        let name = host.to_owned();
        let resolve = || async move {
            let found = lookup_host((name.as_str(), port)).await?;
            io::Result::Ok(found.collect())
        };
        found(&lookup, resolve).await
    }
}

#[cfg(all(test, target_os = "linux"))]
impl HostLookup {
    /// As if these were the addresses of `host`, for as long as an answer may stand.
    pub(super) async fn found_before(&self, host: &str, addresses: Vec<SocketAddr>) {
        let port = addresses[0].port();
        let lookup = Arc::clone(self.0.lock().entry((host.to_owned(), port)).or_default());
        let stands_until = Instant::now() + LONGEST;
        let answer = async move { Ok(Answer { addresses, stands_until }) };
        let _ = lookup.join(&tokio::runtime::Handle::current(), || answer).await;
    }
}

/// The addresses of a name: those that still stand, or those that `resolve` finds.
async fn found<F>(lookup: &NameLookup, resolve: impl FnOnce() -> F) -> RedisResult<Vec<SocketAddr>>
where
    F: Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'static,
{
    if let Some(Ok(answer)) = lookup.latest()
        && Instant::now() < answer.stands_until
    {
        return Ok(answer.addresses);
    }
    let home = match paused_runtime() {
        // A clock that is paused jumps while it waits for another thread.
        Some(home) => home,
        None => background_thread::handle().map_err(io::Error::other)?,
    };
    let answer = lookup.join(&home, || {
        let (begun, resolving) = (Instant::now(), resolve());
        async move {
            let addresses = resolving.await?;
            if addresses.is_empty() {
                return Err(RedisError::from(io::Error::other("no address found for the host")));
            }
            let stands_until = Instant::now() + begun.elapsed().min(LONGEST);
            Ok(Answer { addresses, stands_until })
        }
    });
    answer.await.unwrap_or_else(|| Err(broken())).map(|answer| answer.addresses)
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
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::mpsc;
    use std::task::{Context, Waker};

    use tokio::runtime::{self, Handle};
    use tokio::time::{sleep, timeout};

    use super::*;
    use crate::backend::redis::connection::{Direct, Source, address};

    /// It connects to a port at which nothing listens, by the name of a host.
    fn assert_looked_up_elsewhere(source: &impl Source) {
        let mut caller = runtime::Builder::new_current_thread();
        let caller = caller.enable_all().max_blocking_threads(1).build().unwrap();
        let (ends, end) = mpsc::channel::<()>();
        caller.spawn_blocking(move || end.recv());
        let limit = Duration::from_secs(60);
        let made = caller.block_on(async { timeout(limit, source.connect()).await });
        drop(ends);
        let error = made.expect("the name was looked up elsewhere").map(drop).unwrap_err();
        assert!(error.is_connection_refusal(), "{error}");
    }

    #[test]
    fn a_lookup_takes_no_thread_of_the_runtime_that_connects() {
        let url = "redis://localhost:1";
        assert_looked_up_elsewhere(&Direct::to(address::parse(url, None).unwrap()));
        #[cfg(feature = "sentinel")]
        {
            use crate::backend::redis::topology::sentinel::Sentinels;

            let (_, sentinels) = Sentinels::each(&[url.to_owned()], "m", None).unwrap();
            assert_looked_up_elsewhere(&sentinels);
        }
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

    #[tokio::test(start_paused = true)]
    async fn hosts_are_looked_up_each_by_itself() {
        let (lookup, mut context) = (HostLookup::default(), Context::from_waker(Waker::noop()));
        let mut ports =
            [pin!(lookup.addresses("localhost", 7)), pin!(lookup.addresses("localhost", 8))];
        for port in &mut ports {
            assert!(port.as_mut().poll(&mut context).is_pending());
        }
        assert_eq!(Handle::current().metrics().num_alive_tasks(), 2);
        for (attempt, port) in ports.into_iter().zip([7, 8]) {
            assert!(attempt.await.unwrap().iter().all(|found| found.port() == port));
        }
    }

    /// It takes five seconds, and each attempt to connect has one.
    #[tokio::test(start_paused = true)]
    async fn an_answer_that_comes_late_is_found_by_a_later_attempt() {
        let (lookup, asked) = (NameLookup::default(), AtomicU32::default());
        let address = SocketAddr::from(([192, 0, 2, 7], 7));
        let attempt = || {
            let resolve = || {
                asked.fetch_add(1, Ordering::Relaxed);
                async move {
                    sleep(Duration::from_secs(5)).await;
                    Ok(vec![address])
                }
            };
            timeout(Duration::from_secs(1), found(&lookup, resolve))
        };
        for _ in 0..3 {
            assert!(attempt().await.is_err());
        }
        sleep(Duration::from_secs(4)).await;
        assert_eq!(attempt().await.unwrap().unwrap(), [address]);
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        sleep(Duration::from_secs(4)).await;
        assert!(attempt().await.is_err(), "it does not stand for ever");
    }

    #[tokio::test]
    async fn an_address_is_not_looked_up_and_a_name_without_one_is_an_error() {
        let lookup = HostLookup::default();
        let found = lookup.addresses("192.0.2.7", 7).await.unwrap();
        assert_eq!(found, ["192.0.2.7:7".parse().unwrap()]);
        assert!(lookup.addresses("no such host", 7).await.unwrap_err().is_io_error());
    }
}
