//! Starts a server process and returns when it answers.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::binary::server_binary;
use crate::clock::Clock;
use crate::dir::Dir;
use crate::supervise::Supervised;

/// Longer than any start on a loaded machine; a start takes 10-50 ms.
const START_BOUND: Duration = Duration::from_secs(20);
/// Another process can take a free port before the server binds it.
const PORT_TRIES: u32 = 10;
/// The bus port of a node of a cluster comes so far behind its port.
pub const BUS_OFFSET: u16 = 10_000;
/// What is left of a killed server makes a file or two.
const TRIES_TO_ERASE: u32 = 100;

#[derive(Debug)]
pub struct Settings {
    pub dir: Dir,
    pub config: Vec<String>,
    pub args: Vec<String>,
    /// Another program than the suite's own.
    pub program: Option<PathBuf>,
    pub password: Option<String>,
    pub append_only: bool,
    /// A wall clock that a test can set.
    pub clock: Option<Clock>,
    pub is_cluster: bool,
    /// The port that other servers and clients are told, where it is not the server's own.
    pub announced: Option<u16>,
    /// Certificates and who is trusted, for a second port, which speaks TLS; empty: there is none.
    pub tls: Vec<String>,
    pub tls_port: Option<u16>,
}

impl Settings {
    pub fn new() -> Settings {
        Settings {
            dir: Dir::new("server"),
            config: Vec::new(),
            args: Vec::new(),
            program: None,
            password: None,
            append_only: false,
            clock: None,
            is_cluster: false,
            announced: None,
            tls: Vec::new(),
            tls_port: None,
        }
    }

    pub fn log(&self) -> String {
        let read = |name| fs::read_to_string(self.dir.path().join(name)).unwrap_or_default();
        read("server.log") + &read("stderr.log")
    }

    pub fn erase_data(&self) {
        let data = self.dir.path().join("data");
        // A server that was killed may have a child left that begins to write a file: a snapshot
        // for a replica, say.
        for _ in 0..TRIES_TO_ERASE {
            match fs::remove_dir_all(&data) {
                Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {}
                outcome => return outcome.expect("the data directory is removed"),
            }
        }
        panic!("{} fills up again and again", data.display());
    }

    /// The configuration file is made anew for every start, as a port is part of it.
    fn write_config(&self, port: u16) -> OsString {
        let dir = self.dir.path();
        fs::create_dir_all(dir.join("data")).expect("the data directory is made");
        for log in ["server.log", "stderr.log"] {
            let _ = fs::remove_file(dir.join(log));
        }
        let mut config = format!(
            "bind 127.0.0.1\nport {port}\ndir {0}/data\nlogfile {0}/server.log\n\
             save \"\"\nappendonly no\ndaemonize no\nrepl-diskless-sync-delay 0\n",
            dir.display()
        );
        config.push_str(if self.is_cluster { "cluster-enabled yes\n" } else { "" });
        config.extend(self.announced.map(|port| {
            let who = if self.is_cluster { "cluster" } else { "replica" };
            format!("{who}-announce-ip 127.0.0.1\n{who}-announce-port {port}\n")
        }));
        config.extend(self.tls_port.map(|port| {
            let of_cluster = if self.is_cluster { "tls-cluster yes\n" } else { "" };
            format!("tls-port {port}\ntls-replication yes\n{of_cluster}")
        }));
        for line in self.tls.iter().chain(&self.config) {
            config.push_str(line);
            config.push('\n');
        }
        let file = dir.join("server.conf");
        fs::write(&file, config).expect("the configuration is written");
        file.into_os_string()
    }
}

/// Starts on a free port.
pub async fn launch(settings: &mut Settings) -> (Supervised, u16) {
    for _ in 0..PORT_TRIES {
        let free: fn() -> u16 = if settings.is_cluster { free_cluster_port } else { free_port };
        settings.tls_port = (!settings.tls.is_empty()).then(free);
        let port = free();
        if let Some(child) = attempt(settings, port).await {
            return (child, port);
        }
    }
    panic!("no server in {PORT_TRIES} tries; the last one logged:\n{}", settings.log());
}

/// Starts on the port it had before. A connection of another process may have been given that port
/// meanwhile: it is waited for.
pub async fn relaunch(settings: &Settings, port: u16) -> Supervised {
    let start = Instant::now();
    loop {
        if let Some(child) = attempt(settings, port).await {
            return child;
        }
        let log = settings.log();
        assert!(start.elapsed() < START_BOUND, "no restart on port {port}:\n{log}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// `None` if the server gave up, as it does when it cannot bind the port.
async fn attempt(settings: &Settings, port: u16) -> Option<Supervised> {
    let mut args = vec![settings.write_config(port)];
    args.extend(settings.args.iter().map(OsString::from));
    let stderr = File::create(settings.dir.path().join("stderr.log")).expect("stderr has a file");
    let program = settings.program.as_deref().unwrap_or_else(|| server_binary()).as_os_str();
    let dir = settings.dir.path();
    let envs = settings.clock.as_ref().map(Clock::envs).unwrap_or_default();
    let (mut child, _) = Supervised::spawn(dir, program, &args, &envs, Stdio::from(stderr));
    let start = Instant::now();
    while !is_ready(settings, port).await {
        if let Some(exit) = child.exit() {
            let log = settings.log();
            assert!(log.contains("bind"), "the server ended with {exit:?}:\n{log}");
            return None;
        }
        assert!(start.elapsed() < START_BOUND, "the server does not start:\n{}", settings.log());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Some(child)
}

/// The log proves that it is *our* server which listens, the PING that it answers.
async fn is_ready(settings: &Settings, port: u16) -> bool {
    let log = settings.log();
    let listens = log.contains("eady to accept connections") || log.contains("Sentinel ID is");
    listens && answers_ping(port).await
}

async fn answers_ping(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(loopback(port)).await else { return false };
    let mut reply = [0; 5];
    let exchange = async {
        stream.write_all(b"PING\r\n").await?;
        stream.read_exact(&mut reply).await
    };
    let answered = tokio::time::timeout(Duration::from_secs(1), exchange).await;
    matches!(answered, Ok(Ok(_))) && matches!(&reply, b"+PONG" | b"-NOAU" | b"-NOPE")
}

fn free_port() -> u16 {
    let listener = TcpListener::bind(loopback(0)).expect("a port is free");
    listener.local_addr().expect("a bound socket has an address").port()
}

/// A port whose bus port is free as well. Servers before Redis 7.0 take no other one.
fn free_cluster_port() -> u16 {
    let is_usable = |port: &u16| {
        let bus = port.checked_add(BUS_OFFSET);
        bus.is_some_and(|bus| TcpListener::bind(loopback(bus)).is_ok())
    };
    std::iter::repeat_with(free_port).find(is_usable).expect("it goes on for ever")
}

fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}
