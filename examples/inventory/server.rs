//! Which server the demo uses: the user's, a private one, or none.

use std::io;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use redlock::{LockError, Redlock};
use tempfile::TempDir;

const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];
const STARTS: u32 = 3;
const LONGEST_START: Duration = Duration::from_secs(10);
/// Keeps a server for as long as its stdin is open: however the demo ends, be it by SIGKILL, the
/// server ends too.
const SUPERVISOR: &str =
    r#"trap "" INT TERM HUP; "$@" & server=$!; cat > /dev/null; kill "$server"; wait "$server""#;

/// Where the locks stand.
#[derive(Debug)]
pub(crate) enum Server {
    /// Named by the user.
    Given { url: String },
    /// Started by the demo, ended with this value.
    Private { url: String, version: String, _process: Running },
    /// Locks in memory, tasks in place of processes.
    Embedded { reason: &'static str },
}

impl Server {
    /// The user's server if one is named; it must answer. Else a private one, else none.
    pub(crate) async fn choose(url: Option<&str>) -> Result<Self, LockError> {
        if let Some(url) = url.filter(|url| !url.trim().is_empty()) {
            reach(url).await?;
            if cfg!(unix) {
                return Ok(Self::Given { url: url.to_owned() });
            }
        }
        if !cfg!(unix) {
            return Ok(Self::Embedded { reason: "processes can be frozen on Unix only" });
        }
        for program in PROGRAMS {
            if let Some(server) = start(program).await {
                return Ok(server);
            }
        }
        let reason = "none named, none installed";
        Ok(Self::Embedded { reason })
    }

    /// `None`: locks in memory.
    pub(crate) fn url(&self) -> Option<&str> {
        match self {
            Self::Given { url } | Self::Private { url, .. } => Some(url),
            Self::Embedded { .. } => None,
        }
    }

    /// For people; without the password of a URL.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Given { url } => format!("{} (yours)", without_password(url)),
            Self::Private { url, version, .. } => {
                let address = url.trim_start_matches("redis://");
                format!("{version} on {address} (private, started for this demo)")
            }
            Self::Embedded { reason } => {
                format!("none ({reason}): locks in memory, tasks in place of processes")
            }
        }
    }

    /// What the workers are.
    pub(crate) fn workers(&self) -> &'static str {
        if self.url().is_some() { "processes" } else { "groups" }
    }

    /// For programs.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Given { .. } => "given",
            Self::Private { .. } => "private",
            Self::Embedded { .. } => "memory",
        }
    }
}

/// A private server and its directory.
#[derive(Debug)]
pub(crate) struct Running {
    supervisor: Child,
    _directory: TempDir,
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.supervisor.stdin.take());
        let _ = self.supervisor.wait();
    }
}

/// `None`: this program is not there, or does not start.
async fn start(program: &str) -> Option<Server> {
    let version = version(program)?;
    for _ in 0..STARTS {
        let Ok((process, url)) = spawn(program) else { continue };
        let began = Instant::now();
        while began.elapsed() < LONGEST_START {
            if reach(&url).await.is_ok() {
                return Some(Server::Private { url, version, _process: process });
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    None
}

fn spawn(program: &str) -> io::Result<(Running, String)> {
    let directory = tempfile::tempdir()?;
    // Free now; should somebody take it first, the server does not start and we try another.
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let supervisor = Command::new("sh")
        .args(["-c", SUPERVISOR, "sh", program, "--port", &port.to_string()])
        .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir"])
        .arg(directory.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let url = format!("redis://127.0.0.1:{port}");
    Ok((Running { supervisor, _directory: directory }, url))
}

async fn reach(url: &str) -> Result<(), LockError> {
    Redlock::connect(url).await.map(drop)
}

/// `redis-server 7.0.15`; `None` when there is no such program.
fn version(program: &str) -> Option<String> {
    let output = Command::new(program).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let number = text.split_whitespace().find_map(|word| word.strip_prefix("v="))?;
    Some(format!("{program} {number}"))
}

fn without_password(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{host}"),
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        assert_eq!(without_password("redis://me:p@ss@host:6379/0"), "redis://host:6379/0");
        assert_eq!(without_password("redis://host"), "redis://host");
    }
}
