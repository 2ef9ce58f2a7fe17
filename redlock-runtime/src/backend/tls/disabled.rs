//! Without the feature `tls`: a request for TLS is an error, so that no connection is plain by
//! mistake.

#[cfg(feature = "cluster")]
use deadpool_redis::cluster::ClusterClientBuilder;
#[cfg(feature = "sentinel")]
use deadpool_redis::redis::ConnectionAddr;
use deadpool_redis::redis::{ConnectionInfo, RedisError};

use crate::error::LockError;

/// There is no value of this type.
#[derive(Debug, Clone)]
pub(crate) enum Tls {}

impl Tls {
    /// Variables that would be ignored are an error.
    pub(crate) fn from_variables(
        set: impl Fn(&'static str) -> Option<String>,
    ) -> Result<Option<Self>, LockError> {
        let names = ["REDLOCK_TLS_CA", "REDLOCK_TLS_CERT", "REDLOCK_TLS_KEY"];
        match names.into_iter().find(|name| set(name).is_some()) {
            None => Ok(None),
            Some(name) => {
                Err(LockError::config(format!("{name} is set, but there is no TLS; {ADVICE}")))
            }
        }
    }
}

const ADVICE: &str =
    "build redlock with its feature `tls`: `redlock-runtime = { features = [\"tls\"] }`";

pub(in crate::backend) fn require(shown: &str) -> Result<(), LockError> {
    Err(LockError::config(format!("`{shown}` asks for TLS; {ADVICE}")))
}

pub(in crate::backend) fn provide() {}

pub(in crate::backend) fn secure(
    _: ConnectionInfo,
    tls: &Tls,
) -> Result<ConnectionInfo, LockError> {
    match *tls {}
}

#[cfg(feature = "cluster")]
#[expect(clippy::unnecessary_wraps, reason = "with the feature there are errors")]
pub(in crate::backend) fn certify(
    builder: ClusterClientBuilder,
    tls: Option<&Tls>,
) -> Result<ClusterClientBuilder, LockError> {
    match tls {
        Some(tls) => match *tls {},
        None => Ok(builder),
    }
}

pub(in crate::backend) fn is_failure(_: &RedisError) -> bool {
    false
}

#[cfg(feature = "sentinel")]
pub(in crate::backend) fn of_server(_: &ConnectionAddr, error: RedisError) -> RedisError {
    error
}
