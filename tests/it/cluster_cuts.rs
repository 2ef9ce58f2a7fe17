//! Connections to a server of a cluster break between a command and its answer.

use redlock::{LockGuard, Redlock, Released};

use crate::support::proxy::{Then, command};
use crate::support::{Cluster, Proxy, Raw, Server, eventually, secs, unique_prefix};

/// A cluster whose clients come through proxies, and a lock of it.
struct Site {
    redlock: Redlock,
    other: Redlock,
    /// In front of the master of the lock.
    at: usize,
    proxies: Vec<Proxy>,
    raw: Raw,
    prefix: String,
    _cluster: Cluster,
}

impl Site {
    async fn new() -> Site {
        let (cluster, proxies) = Cluster::start_behind_proxies(secs(60), &[]).await;
        let prefix = unique_prefix();
        let urls: Vec<String> = proxies.iter().map(Proxy::url).collect();
        let build = async || {
            let builder = Redlock::builder().cluster(&urls).prefix(&prefix);
            builder.build().await.unwrap()
        };
        let (redlock, other) = (build().await, build().await);
        let master = cluster.master_of(&format!("{prefix}k")).await.port();
        let at = cluster.nodes().iter().position(|node: &Server| node.port() == master).unwrap();
        let raw = cluster.nodes()[at].raw();
        Site { redlock, other, at, proxies, raw, prefix, _cluster: cluster }
    }

    fn proxy(&self) -> &Proxy {
        &self.proxies[self.at]
    }

    async fn take(&self) -> LockGuard {
        self.redlock.lock("k").expire(secs(60)).wait(secs(50)).acquire().await.unwrap()
    }

    async fn is_awaited(&self) -> bool {
        self.raw.int(&["LLEN", &format!("{{{}k}}:queue", self.prefix)]).await == 1
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_is_sent_again_by_its_owner_only() {
    let site = Site::new().await;
    for (then, expected) in [
        (Then::CutReply, Released::Unknown),
        (Then::ResetReply, Released::Unknown),
        (Then::CutRequest, Released::Released),
    ] {
        // An acquire finds its lock when it is repeated.
        let hits = site.proxy().when(command(&["EVALSHA"]), then.clone());
        let guard = site.take().await;
        assert_eq!(hits.count(), 1);
        let holder = site.raw.get(&format!("{}k", site.prefix)).await;
        assert_eq!(holder.as_deref(), Some(guard.owner()));
        // A release that finds nothing when it is repeated does not know what the first one did.
        let hits = site.proxy().when(command(&["EVALSHA"]), then.clone());
        assert_eq!(guard.release().await, Ok(expected), "{then:?}");
        assert_eq!(hits.count(), 1);
    }
    // Nor does one whose first try handed the lock over.
    let guard = site.take().await;
    let request = site.other.lock("k").wait(secs(50));
    let next = tokio::spawn(async move { request.acquire().await.unwrap() });
    eventually(secs(30), || site.is_awaited()).await;
    site.proxy().when(command(&["EVALSHA"]), Then::CutReply);
    assert_eq!(guard.release().await, Ok(Released::Unknown));
    assert_eq!(next.await.unwrap().release().await, Ok(Released::Released));
}

/// As after a time in which nothing was sent, or behind a proxy that was restarted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_are_all_closed_cost_the_caller_no_attempt() {
    let site = Site::new().await;
    for _ in 0..5 {
        site.take().await.release().await.unwrap();
        for proxy in &site.proxies {
            proxy.cut_all();
        }
        let granted = site.redlock.lock("k").try_acquire().await.unwrap();
        assert!(granted.expect("the lock is free").release().await.is_ok());
    }
}
