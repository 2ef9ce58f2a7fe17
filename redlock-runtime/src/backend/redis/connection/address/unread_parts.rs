//! The parts of a URL that the client library leaves unread.

use deadpool_redis::redis::parse_redis_url;

use crate::error::LockError;

/// Rejects the parts of a URL that the client library would leave unread, or read as something
/// else, without a word: another database than the one that was meant has other locks.
pub(super) fn check(url: &str, is_socket: bool, shown: &str) -> Result<(), LockError> {
    let Some(parsed) = parse_redis_url(url) else { return Ok(()) };
    let read: &[&str] = if is_socket { &["db", "user", "pass", "protocol"] } else { &["protocol"] };
    let unread = parsed.query_pairs().find(|(name, _)| !read.contains(&&**name));
    if let Some((name, _)) = unread {
        // Any other word may be a piece of a password.
        let told = KNOWN_PARAMETERS.iter().find(|(known, _)| *known == name);
        let named =
            told.map_or_else(|| "a parameter".to_owned(), |(known, _)| format!("`{known}`"));
        let instead = told.map_or(Instead::Nothing, |(_, instead)| *instead);
        let advice = instead.advice(is_socket);
        return Err(LockError::config(format!(
            "`{shown}` has {named} after its `?`, which is not read there; {advice}"
        )));
    }
    if is_socket && parsed.query().is_some_and(|query| query.contains('+')) {
        return Err(LockError::config(format!(
            "`{shown}` has a `+` after its `?`, where it would be read as a space; write `%2B`, \
             and a space as `%20`"
        )));
    }
    if parsed.fragment().is_some_and(|fragment| !fragment.is_empty()) {
        return Err(LockError::config(format!(
            "`{shown}` has a `#`, and what follows it is not read; {}, and a `#` as `%23`",
            Instead::Database.advice(is_socket)
        )));
    }
    Ok(())
}

/// Is the host one at which a server listens, and to which no client can connect?
pub(super) fn has_wildcard(url: &str) -> bool {
    let parsed = parse_redis_url(url);
    let host = parsed.as_ref().and_then(|url| url.host_str());
    host.is_some_and(|host| matches!(host, "0.0.0.0" | "[::]"))
}

/// Is there a parameter that other clients know?
pub(super) fn names_known(url: &str) -> bool {
    let is_known = |name: &str| KNOWN_PARAMETERS.iter().any(|(known, _)| *known == name);
    parse_redis_url(url).is_some_and(|url| url.query_pairs().any(|(name, _)| is_known(&name)))
}

/// What to write in place of a parameter.
#[derive(Clone, Copy)]
enum Instead {
    Database,
    Login,
    Tls,
    Nothing,
}

/// The parameters that other clients know.
const KNOWN_PARAMETERS: [(&str, Instead); 14] = [
    ("db", Instead::Database),
    ("database", Instead::Database),
    ("user", Instead::Login),
    ("username", Instead::Login),
    ("pass", Instead::Login),
    ("password", Instead::Login),
    ("ssl", Instead::Tls),
    ("tls", Instead::Tls),
    ("ssl_cert_reqs", Instead::Tls),
    ("ssl_ca_certs", Instead::Tls),
    ("timeout", Instead::Nothing),
    ("socket_timeout", Instead::Nothing),
    ("max_connections", Instead::Nothing),
    ("client_name", Instead::Nothing),
];

impl Instead {
    fn advice(self, is_socket: bool) -> &'static str {
        match self {
            Self::Database if is_socket => {
                "write the number of the database as `?db=2`, as in `unix:///run/redis.sock?db=2`"
            }
            Self::Database => {
                "write the number of the database after the address, as in \
                 `redis://host:6379/2`"
            }
            Self::Login if is_socket => {
                "write user and password as `user` and `pass`, as in \
                 `unix:///run/redis.sock?user=USER&pass=PASSWORD`"
            }
            Self::Login => "write user and password as in `redis://user:password@host:6379`",
            Self::Tls => "TLS is `rediss://`, and `Tls` adds a private CA",
            Self::Nothing => "leave it out: options are set on the builder",
        }
    }
}
