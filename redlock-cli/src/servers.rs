//! Which servers are meant, from flags, files and variables.

use std::fs;
use std::time::Duration;

use redlock::__operator as operator;
use redlock::deadpool_redis::redis::Client;
use redlock::{LockError, Redlock, RedlockBuilder, Tls};

use crate::args::ServerArgs;
use crate::failure::Failure;

/// How long the only server may take to answer. A cron job that is refused here is not tried again
/// for an hour or a day.
const PATIENCE: Duration = Duration::from_secs(5);

/// The servers of one group, as a client of the library would use them.
#[derive(Debug)]
pub(crate) struct Servers {
    pub(crate) topology: Topology,
    pub(crate) prefix: String,
    tls: Option<Tls>,
}

#[derive(Debug)]
pub(crate) enum Topology {
    /// One server, or several independent masters.
    Masters(Vec<String>),
    /// The master that sentinels watch.
    Sentinel {
        urls: Vec<String>,
        master: String,
    },
    Cluster(Vec<String>),
}

impl Topology {
    /// Does a majority of independent masters make a lock?
    pub(crate) fn is_quorum(&self) -> bool {
        matches!(self, Self::Masters(urls) if urls.len() > 1)
    }
}

impl Servers {
    pub(crate) fn from_args(args: &ServerArgs) -> Result<Self, Failure> {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        let tls = tls(variable)?;
        let urls = urls(args, tls.as_ref(), variable)?;
        // A name without a login is no URL.
        if let Some(master) = &args.sentinel
            && args.is_sentinel_on_line
            && master.contains("://")
        {
            refuse_password("--sentinel", master, tls.as_ref(), "REDLOCK_SENTINEL")?;
        }
        let topology = match &args.sentinel {
            Some(master) => Topology::Sentinel { urls, master: master.clone() },
            None if args.cluster => Topology::Cluster(urls),
            None => Topology::Masters(urls),
        };
        Ok(Self { topology, prefix: args.prefix.clone(), tls })
    }

    /// A client of the library for them.
    pub(crate) fn builder(&self) -> RedlockBuilder {
        let builder = Redlock::builder().prefix(&self.prefix);
        let builder = match &self.topology {
            Topology::Masters(urls) if urls.len() == 1 => {
                builder.urls(urls).reply_timeout(PATIENCE)
            }
            Topology::Masters(urls) => builder.urls(urls),
            Topology::Sentinel { urls, master } => builder.sentinel(urls, master),
            Topology::Cluster(urls) => builder.cluster(urls),
        };
        match &self.tls {
            Some(tls) => builder.tls(tls.clone()),
            None => builder,
        }
    }

    /// What to call the server at a URL, and a client of the Redis library for it.
    pub(crate) fn client(&self, url: &str) -> Result<(String, Client), LockError> {
        operator::server(url, self.tls.as_ref())
    }
}

fn urls(
    args: &ServerArgs,
    tls: Option<&Tls>,
    variable: impl Fn(&'static str) -> Option<String>,
) -> Result<Vec<String>, Failure> {
    if !args.url.is_empty() {
        for url in &args.url {
            refuse_password("--url", url, tls, "REDLOCK_URLS or --url-file")?;
        }
        return Ok(args.url.clone());
    }
    let urls = if let Some(path) = &args.url_file {
        let text = fs::read_to_string(path).map_err(|error| {
            Failure::usage(format!("--url-file {} cannot be read: {error}", path.display()))
        })?;
        let lines = text.lines().map(str::trim);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines.flat_map(operator::split_urls).collect()
    } else if let Some(list) = variable("REDLOCK_URLS") {
        operator::split_urls(&list)
    } else {
        variable("REDIS_URL").map(|url| url.trim().to_owned()).into_iter().collect()
    };
    if urls.is_empty() {
        return Err(Failure::usage(
            "no server is named; set REDIS_URL (or REDLOCK_URLS for several), for example to \
             redis://127.0.0.1:6379, or give --url or --url-file",
        ));
    }
    Ok(urls)
}

/// Everybody on this machine can read the command line.
fn refuse_password(
    option: &str,
    url: &str,
    tls: Option<&Tls>,
    instead: &str,
) -> Result<(), Failure> {
    let (name, client) = operator::server(url, tls)?;
    if client.get_connection_info().redis_settings().password().is_some() {
        return Err(Failure::usage(format!(
            "the {option} of {name} has a password, which everybody on this machine can read in \
             the list of processes; use {instead}"
        )));
    }
    Ok(())
}

/// The files that the variables of the library name.
fn tls(variable: impl Fn(&'static str) -> Option<String>) -> Result<Option<Tls>, Failure> {
    let client = match (variable("REDLOCK_TLS_CERT"), variable("REDLOCK_TLS_KEY")) {
        (None, None) => None,
        (Some(chain), Some(key)) => Some((chain, key)),
        _ => {
            return Err(Failure::usage(
                "REDLOCK_TLS_CERT and REDLOCK_TLS_KEY belong together; set both or none",
            ));
        }
    };
    let ca = variable("REDLOCK_TLS_CA");
    if ca.is_none() && client.is_none() {
        return Ok(None);
    }
    let tls = ca.map_or_else(|| Ok(Tls::new()), |path| Tls::new().ca_file(path))?;
    Ok(Some(match client {
        Some((chain, key)) => tls.client_cert_files(chain, key)?,
        None => tls,
    }))
}
