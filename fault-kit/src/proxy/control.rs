//! The handle by which a test switches faults on and off.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use super::connection::serve;
use super::rules::{Match, Rules, Then, Trigger};
use super::shared::{Cut, Shared};
use crate::patience::patient;
use crate::server::Server;

/// A proxy on a thread of its own: a test that blocks its runtime does not stop the wire.
#[derive(Debug)]
pub struct Proxy {
    addr: SocketAddr,
    url: String,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// How often a rule has acted.
#[derive(Debug, Clone)]
pub struct Hits(watch::Receiver<usize>);

impl Hits {
    /// So far.
    pub fn count(&self) -> usize {
        *self.0.borrow()
    }

    /// Waits until the rule has acted once; fails the test after ten seconds.
    pub async fn fired(&self) {
        self.fired_times(1).await;
    }

    /// Waits until the rule has acted `n` times; fails the test after ten seconds.
    pub async fn fired_times(&self, n: usize) {
        let mut hits = self.0.clone();
        let wait = hits.wait_for(|hits| *hits >= n);
        let hit = matches!(patient(Duration::from_secs(10), wait).await, Some(Ok(_)));
        assert!(hit, "the rule acted {} times of {n} in ten seconds", self.count());
    }
}

impl Proxy {
    /// A proxy in front of `server`, passing everything.
    pub fn start(server: &Server) -> Proxy {
        Proxy::before(server.addr(), &server.url_with_password())
    }

    /// A proxy without a server as yet, for one that is told the address of its proxy when it
    /// starts: connections break at once until `lead_to` names the server, which has no password.
    pub fn ahead() -> Proxy {
        let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        Proxy::before(nowhere, &format!("redis://{nowhere}"))
    }

    fn before(upstream: SocketAddr, direct: &str) -> Proxy {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        listener.set_nonblocking(true).expect("the listener becomes non-blocking");
        let addr = listener.local_addr().expect("a bound socket has an address");
        let shared = Arc::new(Shared::new(upstream));
        let (stop, stopped) = oneshot::channel();
        let thread = {
            let shared = shared.clone();
            std::thread::spawn(move || run(listener, &shared, stopped))
        };
        let url = direct.replace(&upstream.to_string(), &addr.to_string());
        Proxy { addr, url, shared, stop: Some(stop), thread: Some(thread) }
    }

    /// Where the proxy listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The server's URL, password included, by way of the proxy.
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// From now on new connections lead to this server, which has the same password; open ones
    /// stay where they are. With `cut_all` it is what a failover looks like behind one address.
    pub fn lead_to(&self, server: &Server) {
        *self.shared.upstream() = server.addr();
    }

    /// Switches every fault off. What a black hole held back is delivered; connections that lost
    /// something stay silent.
    pub fn pass(&self) {
        *self.shared.rules() = Rules::default();
        self.shared.flowing.send_replace(true);
    }

    /// Every request arrives this much later.
    pub fn delay_requests(&self, delay: Duration) {
        self.shared.rules().request_delay = delay;
    }

    /// Every reply arrives this much later.
    pub fn delay_replies(&self, delay: Duration) {
        self.shared.rules().reply_delay = delay;
    }

    /// Requests vanish.
    pub fn drop_requests(&self) {
        self.shared.rules().lose_requests = true;
    }

    /// Requests are executed, their replies vanish.
    pub fn drop_replies(&self) {
        self.shared.rules().lose_replies = true;
    }

    /// The next `n` replies vanish, each on a connection that is silent from then on.
    pub fn drop_next_replies(&self, n: usize) {
        self.shared.rules().lose_next_replies = n;
    }

    /// The next reply vanishes, on a connection that is silent from then on.
    pub fn drop_next_reply(&self) {
        self.drop_next_replies(1);
    }

    /// Every byte is a write of its own, in both directions.
    pub fn split_writes(&self) {
        self.shared.rules().byte_by_byte = true;
    }

    /// Connections are accepted and stay open, but nothing moves in either direction. `pass`
    /// delivers what was held back, as TCP does when a partition heals.
    pub fn black_hole(&self) {
        self.shared.flowing.send_replace(false);
    }

    /// New connections are reset at once; open ones go on.
    pub fn refuse(&self) {
        self.shared.rules().refuse = true;
    }

    /// Closes all open connections (FIN); what is on its way is lost. Returns at once:
    /// `open_connections` tells when it is done.
    pub fn cut_all(&self) {
        self.shared.cut.send_replace(Cut::Fin);
    }

    /// Resets all open connections (RST); otherwise as `cut_all`.
    pub fn reset_all(&self) {
        self.shared.cut.send_replace(Cut::Rst);
    }

    /// Acts on the next request that fits, once.
    pub fn when(&self, matches: Match, then: Then) -> Hits {
        self.rule(matches, 0, 1, then)
    }

    /// Lets `n - 1` fitting requests pass and acts on the one after them.
    pub fn when_nth(&self, n: usize, matches: Match, then: Then) -> Hits {
        self.rule(matches, n - 1, 1, then)
    }

    /// Acts on the next `n` requests that fit.
    pub fn when_times(&self, n: usize, matches: Match, then: Then) -> Hits {
        self.rule(matches, 0, n, then)
    }

    /// Acts on every request that fits, until `pass`.
    pub fn always(&self, matches: Match, then: Then) -> Hits {
        self.rule(matches, 0, usize::MAX, then)
    }

    /// Connections accepted so far.
    pub fn connections(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// Connections that are open now.
    pub fn open_connections(&self) -> usize {
        self.shared.open.load(Ordering::SeqCst)
    }

    /// Pieces written in both directions.
    pub fn writes(&self) -> usize {
        self.shared.writes.load(Ordering::SeqCst)
    }

    /// Requests seen so far, or since `forget`.
    pub fn commands(&self) -> usize {
        self.shared.names().len()
    }

    /// Requests with this name.
    pub fn count(&self, name: &str) -> usize {
        self.shared.names().iter().filter(|seen| seen.eq_ignore_ascii_case(name)).count()
    }

    /// The names of the requests, in order.
    pub fn command_log(&self) -> Vec<String> {
        self.shared.names().clone()
    }

    /// Starts counting commands anew.
    pub fn forget(&self) {
        self.shared.names().clear();
    }

    fn rule(&self, matches: Match, skip: usize, left: usize, then: Then) -> Hits {
        let (hits, seen) = watch::channel(0);
        self.shared.rules().triggers.push(Trigger { matches, skip, left, then, hits });
        Hits(seen)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let joined = thread.join();
            assert!(joined.is_ok() || std::thread::panicking(), "the proxy panicked");
        }
    }
}

fn run(listener: TcpListener, shared: &Arc<Shared>, stopped: oneshot::Receiver<()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
        tokio::select! {
            _ = stopped => {}
            () = accept(listener, shared) => {}
        }
    });
}

async fn accept(listener: tokio::net::TcpListener, shared: &Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        shared.accepted.fetch_add(1, Ordering::SeqCst);
        if shared.rules().refuse {
            let _ = client.set_zero_linger();
            continue;
        }
        let shared = shared.clone();
        let upstream = *shared.upstream();
        tokio::spawn(async move { serve(&shared, client, upstream).await });
    }
}
