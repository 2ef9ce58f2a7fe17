//! Which server the demo uses: the user's, a private one, or none.

use std::process::Command;

use redlock::Redlock;

use crate::Result;

/// Where the locks stand.
pub(crate) struct Server {
    /// `None`: locks in memory, tasks in place of processes.
    pub(crate) url: Option<String>,
    /// For people; without the URL, which may have a password.
    pub(crate) description: String,
    /// Ends with this value, or with this process, however that ends.
    _private: Option<fault_kit::Server>,
}

impl Server {
    /// The user's server if one is named; it must answer. Else a private one, else none.
    pub(crate) async fn choose(named: Option<String>) -> Result<Self> {
        if let Some(url) = named.filter(|url| !url.trim().is_empty()) {
            drop(Redlock::connect(&url).await?);
            let description = "the server that you named".to_owned();
            return Ok(Self { url: Some(url), description, _private: None });
        }
        for program in ["redis-server", "valkey-server"] {
            if let Ok(about) = Command::new(program).arg("--version").output() {
                let server = fault_kit::Server::builder().program(program.into()).start().await;
                let about = String::from_utf8_lossy(&about.stdout).into_owned();
                let version = about.split_whitespace().find_map(|word| word.strip_prefix("v="));
                let (version, address) = (version.unwrap_or_default(), server.addr());
                let description = format!("{program} {version} on {address} (a private one)");
                return Ok(Self { url: Some(server.url()), description, _private: Some(server) });
            }
        }
        redlock::init(Redlock::builder().memory()).await?;
        let description = "none found: locks in memory, tasks in place of processes".to_owned();
        Ok(Self { url: None, description, _private: None })
    }
}
