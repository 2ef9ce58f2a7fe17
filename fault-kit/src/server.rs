//! A real Redis or Valkey server, owned by the test that started it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};

use tokio::sync::OnceCell;

use crate::clock::Clock;
use crate::launch::{self, Settings};
use crate::proxy::Proxy;
use crate::raw::Raw;
use crate::supervise::Supervised;

/// A server child on a port of its own. Dropping it kills it, also when a test panics.
#[derive(Debug)]
pub struct Server {
    port: u16,
    child: Mutex<Option<Supervised>>,
    /// Dropped after the child, as the directory is part of it.
    settings: Settings,
}

/// Settings of a server that is not the default one.
#[derive(Debug)]
pub struct ServerBuilder {
    settings: Settings,
}

impl Server {
    /// A server of this test alone: nothing persisted, no password.
    pub async fn start() -> Server {
        Server::builder().start().await
    }

    /// To set what is not the default.
    pub fn builder() -> ServerBuilder {
        ServerBuilder { settings: Settings::new() }
    }

    /// The one server of the whole test process, for tests that need no faults. Use keys that
    /// start with `unique_prefix()`; never flush, freeze or reconfigure it.
    ///
    /// A static is not dropped: its supervisor kills it when this process is gone.
    pub async fn shared() -> &'static Server {
        static SHARED: OnceCell<Server> = OnceCell::const_new();
        SHARED.get_or_init(Server::start).await
    }

    /// Where it listens; the same after a restart.
    pub fn addr(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// The port of `addr`.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The port that other servers are told, and clients that speak TLS if it does: that of a
    /// proxy, the one for TLS, or its own.
    pub fn public_port(&self) -> u16 {
        self.settings.announced.or(self.settings.tls_port).unwrap_or(self.port)
    }

    /// The port of a cluster's node on which the nodes talk to each other.
    pub fn bus_port(&self) -> u16 {
        self.settings.tls_port.unwrap_or(self.port) + launch::BUS_OFFSET
    }

    /// The port of a server built with `tls`.
    pub fn tls_port(&self) -> u16 {
        self.settings.tls_port.expect("the server was built with tls(..)")
    }

    /// Without credentials, of a server built with `tls`.
    pub fn tls_url(&self) -> String {
        format!("rediss://127.0.0.1:{}", self.tls_port())
    }

    /// The process id of the running server.
    pub fn pid(&self) -> u32 {
        self.child().as_ref().expect("the server runs").pid()
    }

    /// Without credentials.
    pub fn url(&self) -> String {
        format!("redis://{}", self.addr())
    }

    /// With the password of `requirepass`, if there is one.
    pub fn url_with_password(&self) -> String {
        match &self.settings.password {
            Some(password) => format!("redis://:{password}@{}", self.addr()),
            None => self.url(),
        }
    }

    /// With the credentials of an ACL user.
    pub fn url_for(&self, user: &str, password: &str) -> String {
        format!("redis://{user}:{password}@{}", self.addr())
    }

    /// Commands for assertions, over a connection of their own.
    pub fn raw(&self) -> Raw {
        Raw::new(&self.url_with_password())
    }

    /// Whether it was started and not killed; a frozen server runs.
    pub fn is_running(&self) -> bool {
        self.child().is_some()
    }

    /// What the server has logged since it was last started.
    pub fn log(&self) -> String {
        self.settings.log()
    }

    /// SIGKILL: connections break, what was not on disk is gone.
    pub fn kill9(&self) {
        let child = self.child().take();
        child.expect("the server runs").kill9();
    }

    /// SIGSTOP: connections stay open, nothing is answered, the clock runs on.
    pub fn freeze(&self) {
        self.child().as_mut().expect("the server runs").freeze();
    }

    /// SIGCONT: everything that was sent meanwhile is executed now.
    pub fn thaw(&self) {
        self.child().as_mut().expect("the server runs").thaw();
    }

    /// Starts a killed server again on its port, with what is on its disk.
    pub async fn start_again(&self) {
        assert!(self.child().is_none(), "the server still runs");
        let child = launch::relaunch(&self.settings, self.port).await;
        *self.child() = Some(child);
    }

    /// A crash and a start without any of the data, on the same port.
    pub async fn restart_empty(&self) {
        self.kill9();
        self.settings.erase_data();
        self.start_again().await;
    }

    /// The same for a server built `with_clock`, whose clock is off by so many seconds when it
    /// boots, and is set right then: as a time daemon does to a machine that comes up.
    pub async fn restart_empty_with_clock_off(&self, secs: i64) {
        self.kill9();
        self.settings.erase_data();
        self.shift_clock(secs);
        self.start_again().await;
        self.shift_clock(-secs);
    }

    /// A crash and a start with all of the data, on the same port.
    pub async fn restart_keeping_data(&self) {
        if !self.settings.append_only {
            self.raw().cmd(&["SAVE"]).await;
        }
        self.kill9();
        self.start_again().await;
    }

    /// Moves the wall clock of a server built `with_clock` by so many seconds, on top of what it
    /// was moved before. What expires on the server does so earlier or later; a restart keeps it.
    pub fn shift_clock(&self, secs: i64) {
        let clock = self.settings.clock.as_ref();
        clock.expect("the server was built with_clock()").shift(secs);
    }

    fn child(&self) -> MutexGuard<'_, Option<Supervised>> {
        self.child.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl ServerBuilder {
    /// One line of the server's configuration file: `.config("maxmemory 2mb")`.
    #[must_use]
    pub fn config(mut self, line: &str) -> Self {
        self.settings.config.push(line.to_owned());
        self
    }

    /// One command line argument after the configuration file.
    #[must_use]
    pub fn arg(mut self, arg: &str) -> Self {
        self.settings.args.push(arg.to_owned());
        self
    }

    /// Another program than the one the suite runs its servers with.
    #[must_use]
    pub fn program(mut self, program: PathBuf) -> Self {
        self.settings.program = Some(program);
        self
    }

    /// A password for the default user.
    #[must_use]
    pub fn requirepass(mut self, password: &str) -> Self {
        self.settings.password = Some(password.to_owned());
        self.config(&format!("requirepass {password}"))
    }

    /// One ACL user: `.acl("lockuser on >secret ~lock:* +@all")`.
    #[must_use]
    pub fn acl(self, user: &str) -> Self {
        self.config(&format!("user {user}"))
    }

    /// The same users in a file of their own, so that `ACL LOAD` and `ACL SAVE` work.
    #[must_use]
    pub fn aclfile(self, users: &[&str]) -> Self {
        let file = self.settings.dir.path().join("users.acl");
        let lines: Vec<String> = users.iter().map(|user| format!("user {user}\n")).collect();
        std::fs::write(&file, lines.concat()).expect("the ACL file is written");
        self.config(&format!("aclfile {}", file.display()))
    }

    /// `noeviction` or `allkeys-lru`, say.
    #[must_use]
    pub fn maxmemory_policy(self, policy: &str) -> Self {
        self.config(&format!("maxmemory-policy {policy}"))
    }

    /// `always`, `everysec` or `no`.
    #[must_use]
    pub fn append_only(mut self, fsync: &str) -> Self {
        self.settings.append_only = true;
        self.config("appendonly yes").config(&format!("appendfsync {fsync}"))
    }

    /// With a wall clock that `shift_clock` moves while the server runs. Linux only; needs `cc`.
    #[must_use]
    pub fn with_clock(mut self) -> Self {
        self.settings.clock = Some(Clock::new(self.settings.dir.path()));
        self
    }

    /// A replica of `master`, once it has been synchronised by the server itself.
    #[must_use]
    pub fn replica_of(self, master: &Server) -> Self {
        self.config(&format!("replicaof 127.0.0.1 {}", master.public_port()))
    }

    /// Other servers, sentinels and clients of a cluster are told to go to `proxy`, which has to
    /// lead here once the server runs.
    #[must_use]
    pub fn announced_as(mut self, proxy: &Proxy) -> Self {
        self.settings.announced = Some(proxy.addr().port());
        self
    }

    /// Not a server of data, but one that watches others.
    #[must_use]
    pub fn sentinel(self) -> Self {
        self.arg("--sentinel")
    }

    /// A node of a cluster, alone as yet.
    #[must_use]
    pub fn cluster(mut self) -> Self {
        self.settings.is_cluster = true;
        self
    }

    /// With a second port, for TLS, and these lines of its configuration, which name the
    /// certificates. Other servers are told that port, and talk to this one over TLS. Without any
    /// line, there is no such port.
    #[must_use]
    pub fn tls(mut self, lines: &[String]) -> Self {
        self.settings.tls = lines.to_vec();
        self
    }

    /// Starts it and returns when it answers.
    pub async fn start(mut self) -> Server {
        let (child, port) = launch::launch(&mut self.settings).await;
        Server { port, settings: self.settings, child: Mutex::new(Some(child)) }
    }
}

/// A key prefix that no other test and no other process of this machine uses.
pub fn unique_prefix() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("it-{}-{n}:", std::process::id())
}
