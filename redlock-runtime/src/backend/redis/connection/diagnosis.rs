//! What an error of the Redis client means for the command, the lock and the connection.

use deadpool_redis::redis::{ErrorKind, RedisError};

use crate::backend::tls;
use crate::error::{NodeError, NodeErrorKind};

/// A classified error reply or broken connection.
#[derive(Debug)]
pub(crate) struct Diagnosis {
    pub(crate) error: NodeError,
    /// The connection can no longer be used, or leads to the wrong place.
    pub(crate) discard: bool,
    /// The connection broke: the command may have been carried out.
    pub(crate) broke: bool,
    /// Retrying cannot help.
    pub(crate) is_final: bool,
}

pub(crate) fn diagnose(node: &str, error: &RedisError) -> Diagnosis {
    let kind = kind(error);
    let broke = error.is_io_error() || matches!(error.kind(), ErrorKind::Parse);
    let is_final = kind.is_final() || moved(error);
    let discard = broke
        || matches!(
            kind,
            NodeErrorKind::ReadOnly
                | NodeErrorKind::Authentication
                | NodeErrorKind::TooManyClients
                | NodeErrorKind::Protocol
        );
    let error = without_arguments(error);
    let said = NodeError::new(node, kind, message(&error)).caused_by(error);
    Diagnosis { error: said, discard, broke, is_final }
}

/// A server that does not know a command repeats its arguments, and a login has the password among
/// them.
fn without_arguments(error: &RedisError) -> RedisError {
    match detail(error).split_once(", with args beginning with") {
        Some((told, _)) => (error.kind(), "a command was refused", told.to_owned()).into(),
        None => error.clone(),
    }
}

/// Is the slot on another server? This client does not follow redirects.
fn moved(error: &RedisError) -> bool {
    matches!(code(error), Some("MOVED" | "ASK" | "CROSSSLOT"))
}

fn kind(error: &RedisError) -> NodeErrorKind {
    match error.kind() {
        _ if tls::is_failure(error) => return NodeErrorKind::Tls,
        // The error of a cluster client when none of the first servers accepts its login.
        ErrorKind::Io if detail(error).contains("AuthenticationFailed") => {
            return NodeErrorKind::Authentication;
        }
        ErrorKind::Io | ErrorKind::ClusterConnectionNotFound => return NodeErrorKind::Unreachable,
        ErrorKind::AuthenticationFailed => return NodeErrorKind::Authentication,
        ErrorKind::MasterNameNotFoundBySentinel => return NodeErrorKind::NoMaster,
        ErrorKind::Parse | ErrorKind::UnexpectedReturnType => return NodeErrorKind::Protocol,
        _ => {}
    }
    match code(error) {
        Some("NOAUTH" | "WRONGPASS") => NodeErrorKind::Authentication,
        Some("NOPERM") => NodeErrorKind::NoPermission,
        Some("LOADING") => NodeErrorKind::Loading,
        Some("BUSY") => NodeErrorKind::Busy,
        Some("OOM") => NodeErrorKind::OutOfMemory,
        Some("MISCONF") => NodeErrorKind::CannotPersist,
        Some("NOREPLICAS") => NodeErrorKind::NoReplicas,
        // `UNBLOCKED` ends each `WAIT` of a master that becomes a replica.
        Some("READONLY" | "MASTERDOWN" | "UNBLOCKED") => NodeErrorKind::ReadOnly,
        Some("WRONGTYPE") => NodeErrorKind::WrongType,
        Some("MOVED" | "ASK" | "TRYAGAIN" | "CLUSTERDOWN" | "CROSSSLOT") => NodeErrorKind::Cluster,
        _ if detail(error).contains("max number of clients") => NodeErrorKind::TooManyClients,
        _ if is_acl_failure(detail(error)) => NodeErrorKind::NoPermission,
        // Of a refused `SELECT`, the client library leaves the code out.
        _ if detail(error).starts_with("Redis is busy running") => NodeErrorKind::Busy,
        _ => NodeErrorKind::Refused,
    }
}

/// The error code. If a script failed on an older server, the code is inside of its message.
fn code(error: &RedisError) -> Option<&str> {
    const WRAPPED: [&str; 7] =
        ["WRONGTYPE", "OOM", "READONLY", "NOREPLICAS", "NOPERM", "MISCONF", "CLUSTERDOWN"];
    let code = error.code();
    if matches!(code, Some("ERR")) && detail(error).contains("script") {
        let inner = WRAPPED.into_iter().find(|inner| detail(error).contains(inner));
        return inner.or(code);
    }
    code
}

/// The error of a server whose ACL forbids a script's command. It has no code of its own.
fn is_acl_failure(detail: &str) -> bool {
    ["The user executing the script can't", "ACL failure in script"]
        .iter()
        .any(|words| detail.contains(words))
}

fn detail(error: &RedisError) -> &str {
    error.detail().unwrap_or_default()
}

fn message(error: &RedisError) -> String {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        (Some(code), None) => code.to_owned(),
        (None, _) => error.to_string(),
    }
}

#[cfg(test)]
mod tests;
