//! What an error of the Redis client means for the command, the lock and the connection.

use deadpool_redis::redis::{ErrorKind, RedisError};

use crate::backend::tls;
use crate::error::{NodeError, NodeErrorKind};
use crate::foreign_text::in_one_line;

/// A classified error reply or broken connection.
#[derive(Debug)]
pub(crate) struct Diagnosis {
    pub(crate) error: NodeError,
    /// The connection can no longer be used, or leads to the wrong place.
    pub(crate) discard: bool,
    /// A server of a cluster knows no master of the key: it was removed, or is cut off from most
    /// of the others. Another server may know the master.
    pub(crate) knows_no_master: bool,
    pub(crate) has_run: HasRun,
    /// Retrying cannot help.
    pub(crate) is_final: bool,
}

/// What an error says of its command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HasRun {
    /// It was not carried out.
    Not,
    /// It may have been carried out.
    Perhaps,
    /// The connection broke: it may have been carried out.
    Broke,
}

impl Diagnosis {
    /// The connection broke.
    pub(crate) fn broke(&self) -> bool {
        self.has_run == HasRun::Broke
    }

    /// The command may have been carried out.
    pub(crate) fn may_have_run(&self) -> bool {
        self.has_run != HasRun::Not
    }
}

pub(crate) fn diagnose(node: &str, error: &RedisError) -> Diagnosis {
    let kind = kind(error);
    let broke = error.is_io_error() || matches!(error.kind(), ErrorKind::Parse);
    let is_final = kind.is_final() || moved(error);
    let has_run = match broke {
        true => HasRun::Broke,
        false if is_refusal(kind, error) => HasRun::Not,
        false => HasRun::Perhaps,
    };
    let discard = broke
        || matches!(
            kind,
            NodeErrorKind::ReadOnly
                | NodeErrorKind::Authentication
                | NodeErrorKind::TooManyClients
                | NodeErrorKind::Protocol
        );
    let knows_no_master = code(error) == Some("CLUSTERDOWN");
    let error = without_arguments(error);
    let said = NodeError::new(node, kind, in_one_line(message(&error)));
    let said = match () {
        () if is_refused_by_one(&error) => said.advising(REFUSED_BY_ONE),
        () if is_misconfigured(&error) => said.advising(MISCONFIGURED),
        () => said,
    };
    Diagnosis { error: said.caused_by(error), discard, knows_no_master, has_run, is_final }
}

/// Does the error prove that the command was not carried out? Only an error that Redis itself gives
/// before or instead of running a script does, and one of the scripts of this library. A proxy
/// answers with errors of its own (`-upstream failure`, `-ERR Connection timed out`) when its
/// connection to the server broke or a limit passed: the command may have run, and may still
/// arrive.
fn is_refusal(kind: NodeErrorKind, error: &RedisError) -> bool {
    match kind {
        _ if is_of_server(kind) => true,
        NodeErrorKind::Authentication
        | NodeErrorKind::Loading
        | NodeErrorKind::TooManyClients
        | NodeErrorKind::NoMaster
        | NodeErrorKind::Cluster => true,
        // No connection was there to send the command over.
        NodeErrorKind::Unreachable => error.kind() == ErrorKind::ClusterConnectionNotFound,
        NodeErrorKind::Refused => match code(error) {
            Some("FENCE" | "NOSCRIPT" | "EXECABORT" | "NOPROTO") => true,
            Some("ERR") => NOT_RUN.iter().any(|words| detail(error).starts_with(words)),
            _ => false,
        },
        _ => false,
    }
}

/// How errors without a code of their own begin with which a server rejects a command unseen.
const NOT_RUN: [&str; 7] = [
    "unknown command",
    "unsupported command",
    "command not allowed",
    "wrong number of arguments",
    "Error compiling script",
    "Protocol error",
    "DB index is out of range",
];

/// Is a command withheld from this user: forbidden, or taken away by `rename-command`? Asked only
/// of commands that a client can do without, as a proxy may answer "unknown command" for a moment.
pub(crate) fn is_withheld(error: &RedisError) -> bool {
    match error.code() {
        Some("NOPERM") => true,
        Some("ERR") => detail(error).starts_with("unknown command"),
        _ => false,
    }
}

/// Does an error of this kind certainly come from the server, so that nothing is on its way to it
/// any more? One without a code of its own may be that of a proxy, which has not passed the command
/// on.
pub(crate) fn is_of_server(kind: NodeErrorKind) -> bool {
    matches!(
        kind,
        NodeErrorKind::NoPermission
            | NodeErrorKind::ReadOnly
            | NodeErrorKind::Busy
            | NodeErrorKind::OutOfMemory
            | NodeErrorKind::CannotPersist
            | NodeErrorKind::NoReplicas
            | NodeErrorKind::WrongType
    )
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

/// Did one of several servers refuse the login, while no other one could be reached? A pool of a
/// cluster tells no more than what the last of its servers has failed with.
fn is_refused_by_one(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Io && detail(error).contains("AuthenticationFailed")
}

const REFUSED_BY_ONE: &str = "one of the servers refuses this user or password: is it escaped in \
                              the URL (`%40` for `@`), and are the others running?";

/// Is it the address itself that is wrong?
fn is_misconfigured(error: &RedisError) -> bool {
    error.kind() == ErrorKind::InvalidClientConfig
        || detail(error).starts_with("DB index is out of range")
}

const MISCONFIGURED: &str = "correct the URL, or the configuration of the pool";

fn kind(error: &RedisError) -> NodeErrorKind {
    match error.kind() {
        _ if tls::is_failure(error) => return NodeErrorKind::Tls,
        ErrorKind::Io | ErrorKind::ClusterConnectionNotFound => return NodeErrorKind::Unreachable,
        ErrorKind::AuthenticationFailed => return NodeErrorKind::Authentication,
        ErrorKind::MasterNameNotFoundBySentinel => return NodeErrorKind::NoMaster,
        ErrorKind::Parse | ErrorKind::UnexpectedReturnType => return NodeErrorKind::Protocol,
        _ => {}
    }
    match code(error) {
        Some("NOAUTH" | "WRONGPASS" | "DENIED") => NodeErrorKind::Authentication,
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
        _ => without_code(detail(error)),
    }
}

/// Of a refused `SELECT`, the client library leaves the code out.
fn without_code(detail: &str) -> NodeErrorKind {
    match detail {
        _ if detail.starts_with("Redis is busy running") => NodeErrorKind::Busy,
        _ if detail.starts_with("Redis is loading") => NodeErrorKind::Loading,
        // Redis 5 says it to each `SELECT` of a replica without its master.
        _ if detail.starts_with("Link with MASTER is down") => NodeErrorKind::ReadOnly,
        _ if detail.starts_with("Authentication required") => NodeErrorKind::Authentication,
        _ if detail.contains("no permissions to run the") => NodeErrorKind::NoPermission,
        _ => NodeErrorKind::Refused,
    }
}

/// The error code. If a script failed on an older server, the code is inside of its message:
/// `ERR Error running script ..: @user_script: 143: -READONLY ..`, or, if the script has passed on
/// what one of its commands was told, `@user_script: 143: -READONLY ..`.
fn code(error: &RedisError) -> Option<&str> {
    const WRAPPED: [&str; 7] =
        ["WRONGTYPE", "OOM", "READONLY", "NOREPLICAS", "NOPERM", "MISCONF", "CLUSTERDOWN"];
    let code = error.code();
    let is_of_script = code.is_some_and(|code| code.starts_with("@user_script"));
    if is_of_script || matches!(code, Some("ERR")) && detail(error).contains("script") {
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
