//! Which servers are meant, from flags, files and variables.

use std::collections::BTreeMap;
use std::env::VarError;
use std::fs;
use std::time::Duration;

use redlock::__operator as operator;
use redlock::deadpool_redis::redis::{Client, TlsCertificates};
use redlock::{LockError, Redlock, RedlockBuilder, Tls};

use crate::args::ServerArgs;
use crate::duration;
use crate::failure::{Failure, in_own_words};
use crate::output::{complain, plain};

/// How long a command may take where no other server could answer it. A cron job that is refused
/// here is not tried again for an hour or a day.
const PATIENCE: Duration = Duration::from_secs(5);

/// The servers of one group, as a client of the library would use them.
#[derive(Debug)]
pub(crate) struct Servers {
    pub(crate) topology: Topology,
    pub(crate) prefix: String,
    pub(crate) tls: Option<Tls>,
    /// The longest lease of all their clients, if it was told.
    pub(crate) longest: Option<Duration>,
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
        operator::check_prefix(&args.prefix)?;
        let longest = args.longest_expire.as_deref().map(longest).transpose()?;
        let tls = tls()?;
        let written = Written::find(args)?;
        written.check(args, tls.as_ref())?;
        let urls = written.urls;
        // A name without a login is no URL.
        if let Some(master) = args.sentinel.as_ref().filter(|master| master.contains("://")) {
            let on_line = args.is_sentinel_on_line;
            let option = if on_line { "--sentinel" } else { "REDLOCK_SENTINEL" };
            let server = server_at(&format!("the value of {option}"), master, tls.as_ref())?;
            if on_line {
                refuse_password(option, &server, "REDLOCK_SENTINEL")?;
            }
        }
        if let Some(master) = &args.sentinel {
            operator::check_watched(&urls, master, tls.as_ref())?;
        }
        let topology = match &args.sentinel {
            Some(master) => Topology::Sentinel { urls, master: master.clone() },
            None if args.cluster => Topology::Cluster(urls),
            None => Topology::Masters(urls),
        };
        Ok(Self { topology, prefix: args.prefix.clone(), tls, longest })
    }

    /// A client of the library for them.
    pub(crate) fn builder(&self) -> RedlockBuilder {
        let builder = Redlock::builder().prefix(&self.prefix);
        let builder = match &self.topology {
            Topology::Masters(urls) => builder.urls(urls),
            Topology::Sentinel { urls, master } => builder.sentinel(urls, master),
            Topology::Cluster(urls) => builder.cluster(urls),
        };
        // A quorum does not wait for a silent minority.
        let builder =
            if self.topology.is_quorum() { builder } else { builder.reply_timeout(PATIENCE) };
        let builder = match self.longest {
            Some(longest) => builder.longest_expire(longest),
            None => builder,
        };
        match &self.tls {
            Some(tls) => builder.tls(tls.clone()),
            None => builder,
        }
    }

    /// Advice about a key that was copied with its prefix, as it stands in Redis. It may be meant.
    pub(crate) fn advise(&self, key: &str) {
        if let Some(advice) = about_prefix(&self.prefix, key) {
            complain(&advice);
        }
    }

    /// The files for TLS, for a client that finds further servers by itself.
    pub(crate) fn certificates(&self) -> Result<Option<TlsCertificates>, LockError> {
        self.tls.as_ref().map(operator::certificates).transpose()
    }

    /// What to call the server at a URL, and a client of the Redis library for it.
    pub(crate) fn client(&self, url: &str) -> Result<(String, Client), LockError> {
        operator::server(url, self.tls.as_ref())
    }
}

fn about_prefix(prefix: &str, key: &str) -> Option<String> {
    let bare = key.strip_prefix(prefix)?;
    if prefix.is_empty() || bare.is_empty() {
        return None;
    }
    let (prefix, key, bare) = (plain(prefix), plain(key), plain(bare));
    Some(format!(
        "`{key}` begins with `{prefix}`, the prefix, which redlock adds: this names \
         `{prefix}{key}` in Redis; for `{key}` there, write `{bare}`"
    ))
}

fn longest(text: &str) -> Result<Duration, Failure> {
    duration::parse(text).map_err(|why| {
        Failure::usage(format!("--longest-expire (REDLOCK_LONGEST_EXPIRE) is `{text}`: {why}"))
    })
}

/// Where the URLs of the servers are written. No message may show a URL: it can hold a password.
struct Written {
    urls: Vec<String>,
    place: String,
}

impl Written {
    fn find(args: &ServerArgs) -> Result<Self, Failure> {
        let written = |urls, place: &str| Self { urls, place: place.to_owned() };
        let found = if !args.url.is_empty() {
            written(args.url.clone(), "--url")
        } else if let Some(path) = &args.url_file {
            let place = format!("--url-file {}", path.display());
            let text = fs::read_to_string(path)
                .map_err(|error| Failure::usage(format!("{place} cannot be read: {error}")))?;
            let lines = text.lines().map(str::trim);
            let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
            written(lines.flat_map(operator::split_urls).collect(), &place)
        } else if let Some(list) = variable("REDLOCK_URLS")? {
            written(operator::split_urls(&list), "REDLOCK_URLS")
        } else {
            let url = variable("REDIS_URL")?.map(|url| url.trim().to_owned());
            written(url.into_iter().collect(), "REDIS_URL")
        };
        if !found.urls.is_empty() {
            return Ok(found);
        }
        let missing = match found.place.as_str() {
            "REDIS_URL" => "no server is named".to_owned(),
            place => format!("{place} names no server: there is no URL in it"),
        };
        Err(Failure::usage(format!(
            "{missing}; set REDIS_URL (or REDLOCK_URLS for several), for example to \
             redis://127.0.0.1:6379, or give --url or --url-file"
        )))
    }

    /// Can the URLs be read, and has none of the command line a password?
    fn check(&self, args: &ServerArgs, tls: Option<&Tls>) -> Result<(), Failure> {
        let count = self.urls.len();
        for (number, url) in (1..).zip(&self.urls) {
            let place = match count {
                1 if args.url_file.is_none() => format!("the value of {}", self.place),
                _ => format!("URL {number} of {count} in {}", self.place),
            };
            let server = server_at(&place, url, tls)?;
            if !args.url.is_empty() {
                refuse_password("--url", &server, "REDLOCK_URLS or --url-file")?;
            }
        }
        Ok(())
    }
}

/// The name of a server, and a client for it. An error says where the URL is written.
fn server_at(place: &str, url: &str, tls: Option<&Tls>) -> Result<(String, Client), Failure> {
    operator::server(url, tls).map_err(|error| match error {
        LockError::Config { message, .. } => {
            Failure::usage(format!("{place}: {}", in_own_words(&message)))
        }
        other => other.into(),
    })
}

/// Everybody on this machine can read the command line.
fn refuse_password(
    option: &str,
    (name, client): &(String, Client),
    instead: &str,
) -> Result<(), Failure> {
    if client.get_connection_info().redis_settings().password().is_some() {
        return Err(Failure::usage(format!(
            "the {option} of {name} has a password, which everybody on this machine can read in \
             the list of processes; use {instead}"
        )));
    }
    Ok(())
}

/// The value of a variable, if there is one. One that cannot be read is an error: without it, other
/// servers could be meant.
fn variable(name: &str) -> Result<Option<String>, Failure> {
    match std::env::var(name) {
        Err(VarError::NotUnicode(_)) => {
            Err(Failure::usage(format!("the value of {name} is no UTF-8 text")))
        }
        value => Ok(value.ok().filter(|value| !value.trim().is_empty())),
    }
}

/// The files that the variables of the library name.
fn tls() -> Result<Option<Tls>, Failure> {
    let names = ["REDLOCK_TLS_CERT", "REDLOCK_TLS_KEY", "REDLOCK_TLS_CA"];
    let values = names.into_iter().map(|name| Ok((name, variable(name)?)));
    let values = values.collect::<Result<BTreeMap<_, _>, Failure>>()?;
    let tls = operator::tls(|name| values.get(name).cloned().flatten())?;
    // Otherwise the first URL would be blamed.
    tls.as_ref().map(operator::certificates).transpose()?;
    Ok(tls)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_no_other_server_can_give_has_time() {
        let urls = |n: usize| vec!["redis://127.0.0.1:1".to_owned(); n];
        let sentinel = Topology::Sentinel { urls: urls(3), master: "m".to_owned() };
        for (topology, time) in [
            (Topology::Masters(urls(1)), "5s"),
            (Topology::Masters(urls(3)), "1s"),
            (sentinel, "5s"),
            (Topology::Cluster(urls(3)), "5s"),
        ] {
            let servers =
                Servers { topology, prefix: "lock:".to_owned(), tls: None, longest: None };
            let shown = format!("{:?}", servers.builder());
            assert!(shown.contains(&format!("reply_timeout: {time}")), "{shown}");
        }
    }

    #[test]
    fn advice_can_be_followed_on_a_command_line() {
        let tls = Tls::new();
        for (url, tls, advice) in [
            ("redis://h?timeout=5", None, "leave it out"),
            ("redis://a redis://b", None, "`--url` is there once for each"),
            ("redis://h?ssl=true", None, "and REDLOCK_TLS_CA names a private CA"),
            ("redis://h", Some(&tls), "though REDLOCK_TLS_CA, REDLOCK_TLS_CERT or"),
        ] {
            let told = server_at("URL 1", url, tls).unwrap_err().message;
            assert!(told.contains(advice) && !told.contains("builder"), "{told}");
            assert!(!told.to_lowercase().contains("`tls`"), "{told}");
        }
    }

    #[test]
    fn a_key_with_its_prefix_is_doubted() {
        let advice = about_prefix("lock:", "lock:busy").unwrap();
        assert!(
            advice.contains("`lock:lock:busy`") && advice.ends_with("write `busy`"),
            "{advice}"
        );
        for (prefix, key) in
            [("lock:", "busy"), ("shop:", "lock:busy"), ("", "lock:busy"), ("lock:", "lock:")]
        {
            assert_eq!(about_prefix(prefix, key), None, "{prefix} {key}");
        }
    }
}
