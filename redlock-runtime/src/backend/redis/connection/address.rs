//! The address of a node, as a URL names it, and its name without credentials.

mod unread_parts;

use std::net::Ipv6Addr;
use std::time::Duration;

#[cfg(feature = "sentinel")]
use deadpool_redis::redis::RedisResult;
use deadpool_redis::redis::io::tcp::TcpSettings;
use deadpool_redis::redis::io::tcp::socket2::TcpKeepalive;
use deadpool_redis::redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisError};

use crate::backend::tls;
use crate::backend::tls::Tls;
use crate::error::LockError;

/// How connections introduce themselves to servers, from Redis 7.2 on (`CLIENT SETINFO`).
const LIBRARY: &str = env!("CARGO_PKG_NAME");
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// After so much silence the kernel asks whether the server is there, so often, and so many times.
const QUIET: Duration = Duration::from_secs(15);
const PROBE: Duration = Duration::from_secs(5);
const PROBES: u32 = 3;

/// A command leaves at once, also after another one that the server has not acknowledged. A
/// connection whose server is gone without a word ends after half a minute, whether it is quiet or
/// has sent something.
pub(crate) fn tcp_settings() -> TcpSettings {
    let keepalive = TcpKeepalive::new().with_time(QUIET).with_interval(PROBE).with_retries(PROBES);
    let settings = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive);
    #[cfg(any(target_os = "android", target_os = "linux"))]
    let settings = settings.set_user_timeout(QUIET + PROBE * PROBES);
    settings
}

/// Fails for a URL that cannot work, whatever `Tls` comes with it.
pub(crate) fn check_url(url: &str) -> Result<(), LockError> {
    parse(url, None).map(drop)
}

pub(crate) fn parse(url: &str, tls: Option<&Tls>) -> Result<ConnectionInfo, LockError> {
    // The text may be several URLs in the place of one, or have another separator than a comma.
    let are_several = url.matches("://").count() > 1;
    read(url, tls).map_err(|error| match error {
        LockError::Config { message } if are_several => LockError::config(format!(
            "{message}; is it more than one URL? In REDLOCK_URLS they are separated by commas, and \
             on the builder they are `.urls([..])`"
        )),
        other => other,
    })
}

fn read(url: &str, tls: Option<&Tls>) -> Result<ConnectionInfo, LockError> {
    let shown = without_credentials(url);
    let Some((scheme, rest)) = url.split_once("://") else {
        return Err(LockError::config(format!(
            "`{shown}` is not a redis URL: it needs a scheme, as in `redis://127.0.0.1:6379`"
        )));
    };
    let scheme = &*scheme.to_ascii_lowercase();
    let is_secure = match scheme {
        "redis" | "valkey" | "redis+unix" | "valkey+unix" | "unix" => false,
        "rediss" | "valkeys" => {
            tls::require(&shown)?;
            true
        }
        _ if url.starts_with(char::is_whitespace) => {
            let shown = without_credentials(url.trim_start());
            return Err(LockError::config(format!(
                "there is white space before the URL `{shown}`; leave it out"
            )));
        }
        _ => {
            return Err(LockError::config(format!(
                "`{shown}` has another scheme; a redis URL begins with `redis://`, `rediss://` or \
                 `unix://`"
            )));
        }
    };
    if !is_socket(scheme) && has_bare_delimiter(rest) {
        return Err(bare_delimiter(url, &shown));
    }
    if tls.is_some() && !is_secure {
        return Err(LockError::config(format!(
            "`{shown}` does not use TLS, though `tls` is set; write `rediss://`, or leave `tls` out"
        )));
    }
    let info = url.into_connection_info().map_err(|error| not_taken(url, &shown, &error))?;
    // The parser leaves white space out, so that the end of the text does not tell.
    if url.ends_with("#insecure")
        || matches!(info.addr(), ConnectionAddr::TcpTls { insecure: true, .. })
    {
        return Err(LockError::config(format!(
            "`{shown}` switches certificate checks off; use a certificate that can be checked"
        )));
    }
    // Nor does it read these, so that a password, a host or a database would be another one.
    if url.trim().contains(['\t', '\n', '\r']) {
        return Err(LockError::config(format!(
            "`{shown}` has a tab or the end of a line in it, which is not read there; leave it \
             out, or write it as `%09`, `%0A` or `%0D`"
        )));
    }
    unread_parts::check(url, is_socket(scheme), &shown)?;
    let settings = info.redis_settings();
    // The client library would log in as `default`, without a word.
    if settings.password().is_none() && settings.username().is_some_and(|user| user != "default") {
        return Err(LockError::config(format!(
            "`{shown}` names a user without a password; write `user:password@`, with any word as \
             the password of a user that has none (`nopass`)"
        )));
    }
    let info = of_this_library(info);
    match tls {
        Some(tls) => tls::secure(info, tls),
        None => Ok(info),
    }
}

/// Why the client library does not take a URL.
fn not_taken(url: &str, shown: &str, error: &RedisError) -> LockError {
    if unread_parts::has_wildcard(url) {
        return LockError::config(format!(
            "`{shown}` is where a server listens, at all addresses of its machine; name one of \
             these addresses, as in `redis://127.0.0.1:6379`"
        ));
    }
    // It has a detail where the value of this parameter is wrong, which is not shown.
    let why = error.detail().map_or("", |_| ", as its `protocol` is unknown");
    LockError::config(format!(
        "`{shown}` is not a redis URL{why}; write `redis://user:password@host:6379/0`"
    ))
}

fn of_this_library(info: ConnectionInfo) -> ConnectionInfo {
    let settings = info.redis_settings().clone().set_lib_name(LIBRARY, VERSION);
    info.set_redis_settings(settings).set_tcp_settings(tcp_settings())
}

/// A server that is known by a name alone, without a login and without TLS.
#[cfg(feature = "sentinel")]
pub(crate) fn bare(name: &str) -> RedisResult<ConnectionInfo> {
    Ok(of_this_library((name, 0).into_connection_info()?))
}

/// The address of another server, reached in the same way as `like`.
#[cfg(any(feature = "sentinel", feature = "cluster"))]
pub(crate) fn place(like: &ConnectionAddr, (host, port): &(String, u16)) -> ConnectionAddr {
    match like.clone() {
        ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
            ConnectionAddr::TcpTls { host: host.clone(), port: *port, insecure, tls_params }
        }
        _ => ConnectionAddr::Tcp(host.clone(), *port),
    }
}

/// What errors call the node: its address without credentials.
pub(crate) fn name(info: &ConnectionInfo) -> String {
    let scheme = match info.addr() {
        ConnectionAddr::TcpTls { .. } => "rediss",
        ConnectionAddr::Unix(_) => "unix",
        _ => "redis",
    };
    let address = match info.addr() {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
            with_port(host, *port)
        }
        other => other.to_string(),
    };
    match info.redis_settings().db() {
        0 => format!("{scheme}://{address}"),
        db => format!("{scheme}://{address}/{db}"),
    }
}

/// `host:port`; an address of IPv6 stands in brackets.
pub(crate) fn with_port(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Shown in place of text that may be a password.
const HIDDEN: &str = "***";

/// The URL as a message may show it: scheme, host, port and database. Any other part may be a
/// password or a piece of one, even if the URL cannot be parsed. So this hides the text before an
/// `@`, a query, a port or a database that is not a number, and all of a text that does not begin
/// like a URL of Redis. An `@` after a `?` may stand before the host, or in a parameter.
fn without_credentials(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    let scheme = &*scheme.to_ascii_lowercase();
    if !is_shown(scheme) {
        return HIDDEN.to_owned();
    }
    if rest.split_once('?').is_some_and(|(_, query)| query.contains('@')) {
        return format!("{scheme}://{HIDDEN}");
    }
    let (user, rest) = match rest.rsplit_once('@') {
        Some((_, rest)) => ("***@", rest),
        None => ("", rest),
    };
    let end = rest.find(if is_socket(scheme) { &['?'][..] } else { &['/', '?', '#'] });
    let (place, tail) = rest.split_at(end.unwrap_or(rest.len()));
    let place = if is_socket(scheme) { place.to_owned() } else { shown_server(place) };
    let tail = match tail.chars().next() {
        Some(first) if !is_database(tail) => format!("{first}{HIDDEN}"),
        _ => tail.to_owned(),
    };
    format!("{scheme}://{user}{place}{tail}")
}

fn is_shown(scheme: &str) -> bool {
    is_socket(scheme) || matches!(scheme, "redis" | "rediss" | "valkey" | "valkeys" | "http")
}

fn is_socket(scheme: &str) -> bool {
    matches!(scheme, "unix" | "redis+unix" | "valkey+unix")
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_port(text: &str) -> bool {
    text.is_empty() || is_number(text) && text.parse::<u16>().is_ok()
}

/// `/2`, or nothing, before the suffix that switches certificate checks off.
fn is_database(tail: &str) -> bool {
    let database = tail.strip_suffix("#insecure").unwrap_or(tail);
    database.is_empty() || database.strip_prefix('/').is_some_and(is_number)
}

/// `host:port`. A text of another form may be `user:password`, whose host is missing; so may one
/// with a number that no port has.
fn shown_server(server: &str) -> String {
    let is_address = |host: &str| {
        let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        address.is_some_and(|address| address.parse::<Ipv6Addr>().is_ok())
    };
    let is_host = |host: &str| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        host.bytes().all(fits) || is_address(host)
    };
    if is_host(server) {
        return server.to_owned();
    }
    match server.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && is_host(host) && is_port(port) => {
            server.to_owned()
        }
        Some((host, _)) if is_host(host) => format!("{host}:{HIDDEN}"),
        _ => HIDDEN.to_owned(),
    }
}

fn bare_delimiter(url: &str, shown: &str) -> LockError {
    // Perhaps the `@` is that of a password in a parameter which other clients read.
    if unread_parts::names_known(url)
        && let Err(unread) = unread_parts::check(url, false, shown)
    {
        return unread;
    }
    LockError::config(format!(
        "`{shown}` has a `/`, `?` or `#` before its `@`; in a user name or a password write them \
         as `%2F`, `%3F` and `%23`"
    ))
}

/// Is there a `/`, `?` or `#` before the `@`? Such a URL has another host than was meant: a part of
/// its user name or password.
fn has_bare_delimiter(rest: &str) -> bool {
    rest.find(['/', '?', '#']).is_some_and(|end| rest[end..].contains('@'))
}

#[cfg(test)]
mod tests;
