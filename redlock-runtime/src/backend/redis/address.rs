//! Where a node is: a URL becomes a pool, and a name without credentials.

use deadpool_redis::redis::io::tcp::TcpSettings;
use deadpool_redis::redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisError,
};
use deadpool_redis::{Manager, Pool, Runtime};

use crate::backend::tls::{self, Tls};
use crate::error::LockError;

/// Commands that one connection queues before callers wait for room.
const PIPELINE_DEPTH: usize = 1024;

/// The name of the node at `url`, the pool for its connections, and what else leads to it.
pub(super) fn open(url: &str, tls: Option<&Tls>) -> Result<(String, Pool, Client), LockError> {
    let info = parse(url, tls)?;
    let name = name(&info);
    let info = info.set_tcp_settings(TcpSettings::default().set_nodelay(true));
    // Every command has a timeout of ours, which knows what it was for.
    let config = AsyncConnectionConfig::new()
        .set_response_timeout(None)
        .set_connection_timeout(None)
        .set_pipeline_buffer_size(PIPELINE_DEPTH);
    let failed = |error: RedisError| LockError::config(format!("{name}: {error}"));
    let client = Client::open(info.clone()).map_err(failed)?;
    let manager = Manager::new_with_config(info, config).map_err(failed)?;
    let pool = Pool::builder(manager)
        .runtime(Runtime::Tokio1)
        .build()
        .map_err(|error| LockError::config(format!("{name}: {error}")))?;
    Ok((name, pool, client))
}

pub(super) fn parse(url: &str, tls: Option<&Tls>) -> Result<ConnectionInfo, LockError> {
    let shown = without_credentials(url);
    let Some((scheme, _)) = url.split_once("://") else {
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
    if tls.is_some() && !is_secure {
        return Err(LockError::config(format!(
            "`{shown}` does not use TLS, though `tls` is set; write `rediss://`, or leave `tls` out"
        )));
    }
    if url.ends_with("#insecure") {
        return Err(LockError::config(format!(
            "`{shown}` switches certificate checks off; use a certificate that can be checked"
        )));
    }
    let info = url.into_connection_info().map_err(|error| {
        let why = error.detail().map(|detail| format!(" ({detail})")).unwrap_or_default();
        LockError::config(format!(
            "`{shown}` is not a redis URL{why}; write `redis://user:password@host:6379/0`"
        ))
    })?;
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

/// The URL with whatever stands before an `@` cut out: it may be a password, also in a URL that
/// does not parse. The same goes for a scheme and a port that cannot be any.
fn without_credentials(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let rest = rest.rsplit_once('@').map_or(rest.to_owned(), |(_, host)| format!("***@{host}"));
    // A query may carry a password too (`unix:///run/redis.sock?pass=..`).
    let rest = match rest.split_once('?') {
        Some((path, _)) => format!("{path}?***"),
        None => rest,
    };
    // `redis://user:password` without a host, or `user:password`.
    let rest = match rest.rsplit_once(':') {
        Some((host, port)) if !is_port(host, port) && !host.starts_with('/') => {
            format!("{host}:***")
        }
        _ => rest,
    };
    match scheme {
        "" => rest,
        _ if scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'+') => {
            format!("{scheme}://{rest}")
        }
        _ => format!("***://{rest}"),
    }
}

/// Digits, with the database behind them; or the end of an IPv6 address.
fn is_port(host: &str, text: &str) -> bool {
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let text = text.trim_end_matches("#insecure");
    let (port, database) = text.split_once('/').unwrap_or((text, ""));
    let is_bracketed = || port.ends_with(']') && host.trim_start_matches("***@").starts_with('[');
    is_number(database) && (is_number(port) || is_bracketed())
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
            "h:6379",
        ] {
            assert_eq!(without_credentials(shown), shown);
        }
        for (url, shown) in [
            ("redis://u:p@h:6379/2", "redis://***@h:6379/2"),
            ("redis://u:p@[::1]", "redis://***@[::1]"),
            ("u:secret", "u:***"),
            ("unix:///run/redis.sock?pass=secret", "unix:///run/redis.sock?***"),
            ("a word://h", "***://h"),
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
        let error = crate::Redlock::connect(format!("rediss://{address}")).await.unwrap_err();
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
}
