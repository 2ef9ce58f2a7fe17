//! The address of a node: a URL becomes a pool, and a name without credentials.

use std::net::Ipv6Addr;
use std::time::Duration;

use deadpool_redis::redis::io::tcp::TcpSettings;
use deadpool_redis::redis::io::tcp::socket2::TcpKeepalive;
use deadpool_redis::redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisError,
};
use deadpool_redis::{Manager, Pool, Runtime};

use crate::backend::tls;
use crate::backend::tls::Tls;
use crate::error::LockError;

/// How connections introduce themselves to servers, from Redis 7.2 on (`CLIENT SETINFO`).
const LIBRARY: &str = env!("CARGO_PKG_NAME");
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Commands that one connection queues before callers wait for room.
const PIPELINE_DEPTH: usize = 1024;
/// After so much silence the kernel asks whether the server is there, so often, and so many times.
const QUIET: Duration = Duration::from_secs(15);
const PROBE: Duration = Duration::from_secs(5);
const PROBES: u32 = 3;

/// The name of the node at `url`, the pool for its connections, and a client for subscriptions.
pub(crate) fn open(url: &str, tls: Option<&Tls>) -> Result<(String, Pool, Client), LockError> {
    let info = parse(url, tls)?;
    let name = name(&info);
    let failed = |error: RedisError| LockError::config(format!("{name}: {error}"));
    let client = Client::open(info.clone()).map_err(failed)?;
    let manager = Manager::new_with_config(info, settings()).map_err(failed)?;
    let pool = Pool::builder(manager)
        .runtime(Runtime::Tokio1)
        .build()
        .map_err(|error| LockError::config(format!("{name}: {error}")))?;
    Ok((name, pool, client))
}

/// A command leaves at once, also behind another one that the server has not acknowledged. A
/// connection whose server is gone without a word ends after half a minute, whether it is quiet or
/// has sent something.
pub(crate) fn tcp_settings() -> TcpSettings {
    let keepalive = TcpKeepalive::new().with_time(QUIET).with_interval(PROBE).with_retries(PROBES);
    let settings = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive);
    #[cfg(any(target_os = "android", target_os = "linux"))]
    let settings = settings.set_user_timeout(QUIET + PROBE * PROBES);
    settings
}

/// Without timeouts: every connect and every command has a timeout of this library, whose error
/// says what it was for.
pub(crate) fn settings() -> AsyncConnectionConfig {
    AsyncConnectionConfig::new()
        .set_response_timeout(None)
        .set_connection_timeout(None)
        .set_pipeline_buffer_size(PIPELINE_DEPTH)
}

/// Fails for a URL that cannot work, whatever `Tls` comes with it.
pub(crate) fn check_url(url: &str) -> Result<(), LockError> {
    parse(url, None).map(drop)
}

pub(crate) fn parse(url: &str, tls: Option<&Tls>) -> Result<ConnectionInfo, LockError> {
    // Several URLs in the place of one, or with another separator.
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
    let is_secure = match scheme {
        "redis" | "valkey" | "redis+unix" | "valkey+unix" | "unix" => false,
        "rediss" | "valkeys" => {
            tls::prepare(&shown)?;
            true
        }
        _ => {
            return Err(LockError::config(format!(
                "`{shown}` has another scheme; a redis URL begins with `redis://`, `rediss://` or \
                 `unix://`"
            )));
        }
    };
    if !is_socket(scheme) && has_bare_delimiter(rest) {
        return Err(LockError::config(format!(
            "`{shown}` has a `/`, `?` or `#` before its `@`; in a user name or a password write \
             them as `%2F`, `%3F` and `%23`"
        )));
    }
    if tls.is_some() && !is_secure {
        return Err(LockError::config(format!(
            "`{shown}` does not use TLS, though `tls` is set; write `rediss://`, or leave `tls` out"
        )));
    }
    let info = url.into_connection_info().map_err(|error| {
        let why = error.detail().map(|detail| format!(" ({detail})")).unwrap_or_default();
        LockError::config(format!(
            "`{shown}` is not a redis URL{why}; write `redis://user:password@host:6379/0`"
        ))
    })?;
    // The parser leaves white space out, so that the end of the text does not tell.
    if url.ends_with("#insecure")
        || matches!(info.addr(), ConnectionAddr::TcpTls { insecure: true, .. })
    {
        return Err(LockError::config(format!(
            "`{shown}` switches certificate checks off; use a certificate that can be checked"
        )));
    }
    let settings = info.redis_settings();
    // The client library would log in as `default`, without a word.
    if settings.password().is_none() && settings.username().is_some_and(|user| user != "default") {
        return Err(LockError::config(format!(
            "`{shown}` names a user without a password; write `user:password@`, with any word as \
             the password of a user that has none (`nopass`)"
        )));
    }
    let settings = settings.clone().set_lib_name(LIBRARY, VERSION);
    let info = info.set_redis_settings(settings).set_tcp_settings(tcp_settings());
    match tls {
        Some(tls) => tls::secure(info, tls),
        None => Ok(info),
    }
}

fn name(info: &ConnectionInfo) -> String {
    let scheme = match info.addr() {
        ConnectionAddr::TcpTls { .. } => "rediss",
        ConnectionAddr::Unix(_) => "unix",
        _ => "redis",
    };
    match info.redis_settings().db() {
        0 => format!("{scheme}://{}", info.addr()),
        db => format!("{scheme}://{}/{db}", info.addr()),
    }
}

/// Shown in place of text that may be a password.
const HIDDEN: &str = "***";

/// The URL as a message may show it: scheme, host, port and database. Any other part may be a
/// password or a piece of one, even if the URL cannot be parsed. So this hides the text before an
/// `@`, a query, a port or a database that is no number, and all of a text that does not begin like
/// a URL of Redis.
fn without_credentials(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://").filter(|(scheme, _)| is_shown(scheme)) else {
        return HIDDEN.to_owned();
    };
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

/// `/2`, or nothing, before the suffix that switches certificate checks off.
fn is_database(tail: &str) -> bool {
    let database = tail.strip_suffix("#insecure").unwrap_or(tail);
    database.is_empty() || database.strip_prefix('/').is_some_and(is_number)
}

/// `host:port`. A text of another form may be `user:password`, whose host is missing.
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
        Some((host, port)) if is_host(host) && is_number(port) => server.to_owned(),
        Some((host, _)) if is_host(host) => format!("{host}:{HIDDEN}"),
        _ => HIDDEN.to_owned(),
    }
}

/// Is there a `/`, `?` or `#` before the `@`? Such a URL has another host than was meant: a part of
/// its user name or password.
fn has_bare_delimiter(rest: &str) -> bool {
    rest.find(['/', '?', '#']).is_some_and(|end| rest[end..].contains('@'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(url: &str) -> String {
        open(url, None).map(|(name, ..)| name).unwrap_err().to_string()
    }

    #[test]
    fn the_name_of_a_node_has_no_credentials() {
        let (name, pool, _) = open("redis://user:s3cret@example.com:6380/2", None).unwrap();
        assert_eq!(name, "redis://example.com:6380/2");
        assert!(!format!("{pool:?}").contains("s3cret"));
    }

    #[test]
    fn what_is_no_password_is_shown() {
        for shown in [
            "redis://h",
            "redis://h:6379",
            "redis://h:6379/2",
            "rediss://h:6379/#insecure",
            "redis://[::1]",
            "redis://[::1]:6379/2",
            "unix:///run/a:b.sock",
        ] {
            assert_eq!(without_credentials(shown), shown);
        }
        for (url, shown) in [
            ("redis://u:p@h:6379/2", "redis://***@h:6379/2"),
            ("redis://u:p@[::1]", "redis://***@[::1]"),
            ("u:secret", "***"),
            ("secret", "***"),
            ("redis://u:secret", "redis://u:***"),
            ("redis://h/secret", "redis://h/***"),
            ("redis://h#secret", "redis://h#***"),
            ("redis://h:1?x=secret", "redis://h:1?***"),
            ("unix:///run/redis.sock?pass=secret", "unix:///run/redis.sock?***"),
            ("a-word://h", "***"),
        ] {
            assert_eq!(without_credentials(url), shown);
        }
    }

    #[test]
    fn the_name_of_a_node_begins_with_its_scheme() {
        let name = |url| name(&parse(url, None).unwrap());
        assert_eq!(name("valkey://h"), "redis://h:6379");
        assert_eq!(name("redis+unix:///run/redis.sock"), "unix:///run/redis.sock");
        #[cfg(feature = "tls")]
        assert_eq!(name("valkeys://h"), "rediss://h:6379");
    }

    #[cfg(feature = "tls")]
    #[test]
    fn certificates_are_for_urls_with_tls() {
        let tls = Tls::new();
        assert!(parse("rediss://h", Some(&tls)).is_ok());
        let error = parse("redis://h", Some(&tls)).unwrap_err().to_string();
        assert!(error.contains("does not use TLS"), "{error}");
    }

    #[test]
    fn bad_urls_say_what_to_write() {
        assert!(message("127.0.0.1:6379").contains("it needs a scheme"));
        assert!(message("http://127.0.0.1").contains("begins with `redis://`"));
        assert!(message("redis://127.0.0.1:notaport").contains("is not a redis URL"));
        assert!(message("rediss://127.0.0.1/#insecure").contains("rediss://127.0.0.1"));
        assert!(message("redis://locks@127.0.0.1").contains("a user without a password"));
        assert!(message("unix:///run/redis.sock?user=locks").contains("a user without a password"));
        assert!(parse("redis://default@127.0.0.1", None).is_ok());
    }

    #[cfg(feature = "tls")]
    #[test]
    fn certificates_are_checked_whatever_stands_around_the_url() {
        for url in ["rediss://h/#insecure", "rediss://h/#insecure\n", "rediss://h/#insec\ture"] {
            let message = message(url);
            assert!(message.contains("switches certificate checks off"), "{url:?}: {message}");
        }
    }

    #[cfg(not(feature = "tls"))]
    #[test]
    fn tls_without_the_feature_says_which_one() {
        let message = message("rediss://127.0.0.1:6379");
        assert!(message.contains("features = [\"tls\"]"), "{message}");
    }

    /// Without a provider the first connection would panic.
    #[cfg(feature = "tls")]
    #[tokio::test]
    async fn tls_to_a_server_without_it_is_a_typed_error() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            let _ = tokio::io::AsyncWriteExt::write_all(&mut socket, b"-ERR no TLS\r\n").await;
        });
        let error =
            crate::client::Redlock::connect(format!("rediss://{address}")).await.unwrap_err();
        assert!(matches!(error, LockError::Unavailable { .. }), "{error}");
        assert!(error.to_string().contains(&format!("rediss://{address}")), "{error}");
        server.await.unwrap();
    }

    #[test]
    fn no_message_shows_a_password() {
        for url in [
            "redis://:s3cret@",
            "user:s3cret@host",
            "http://u:s3cret@host",
            "redis://u:s3cret@host:port",
            "redis://u:s3@cret@host:port",
            "unix:///run/x?pass=s3cret&db=x",
            "redis://:s3cret",
            "redis://u:s3cret/0",
            "u:s3cret",
            "u:s3cret://host",
            "redis://u:s3cret]",
            "redis://***@u:s3cret]",
            "redis://u:3/s3cret",
        ] {
            if let Err(error) = open(url, None) {
                let shown = format!("{error} {error:?}");
                assert!(!shown.contains("cret"), "{url}: {shown}");
            }
        }
    }

    /// Wherever a text contains a password, and whatever surrounds it.
    #[test]
    fn no_part_of_a_password_is_shown_whatever_surrounds_it() {
        const PIECES: [&str; 20] = [
            "s3cret",
            "s3cret",
            ":",
            "@",
            "/",
            "?",
            "#",
            ",",
            "://",
            "%",
            "%40",
            "[",
            "]",
            "=",
            "&",
            " ",
            "\\",
            "7",
            "#insecure",
            "redis://",
        ];
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..50_000 {
            let count = random.usize(1..6);
            let password: String = (0..count).map(|_| PIECES[random.usize(..20)]).collect();
            let user = ["", ":", "user:", "7:", "user"][random.usize(..5)];
            // If no `@` follows it, the part after an `@` in the password looks like a host, and so
            // does a password alone after a scheme.
            let is_cut = password.contains('@') || !user.contains(':');
            let host = ["@", "@h", "@h:1", "@h:1/0", "@[::1]:1", "@h:x", "@h/x", "", ":1"];
            let host = host[random.usize(..if is_cut { 7 } else { 9 })];
            let scheme = ["redis://", "rediss://", "http://", "redis:", ""][random.usize(..5)];
            let url = format!("{scheme}{user}{password}{host}");
            let shown = match open(&url, None) {
                Ok((name, ..)) => name,
                Err(error) => format!("{error} {error:?}"),
            };
            assert!(!shown.contains("s3c") && !shown.contains("cret"), "{url}: {shown}");
        }
    }
}
