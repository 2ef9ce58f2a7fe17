//! The check at startup: is the server fit to hold locks?

use std::time::Duration;

use deadpool_redis::redis;
use deadpool_redis::redis::aio::ConnectionLike;
use deadpool_redis::redis::{RedisResult, Value};
use tokio::time::timeout;

use super::info::{InfoText, field, mode};
use crate::backend::redis::connection::{Source, is_withheld};
use crate::backend::redis::pubsub::silent;
use crate::error::{NodeError, NodeErrorKind};
use crate::shield::tell;

/// The oldest version whose scripts replicate their effects and may read the clock before a write.
const OLDEST: (u32, u32) = (5, 0);

/// How long the servers of a cluster may take. A silent server must not keep a client from the
/// others.
const PARTS: Duration = Duration::from_secs(2);

/// Receives the INFO of a server.
pub(crate) type Met<'a> = dyn Fn(&str) + Sync + 'a;

/// Is the server fit? Of several behind one connection, those that do not answer are left out.
/// `Some`: why it is not fit. `met` gets the INFO of a single server.
pub(crate) async fn probe<S: Source>(
    node: &str,
    connection: &mut S::Connection,
    met: &Met<'_>,
) -> RedisResult<Option<NodeError>> {
    if S::LEADS_TO_ONE {
        return ask(node, connection, met).await;
    }
    let failed = match timeout(PARTS, ask(node, connection, met)).await {
        Ok(Err(error)) if error.code().is_none() => error,
        Ok(verdict) => return verdict,
        Err(_) => silent(),
    };
    if !matches!(timeout(PARTS, S::leads(connection, None)).await, Ok(true)) {
        return Err(failed);
    }
    tell!(warn, node, error = %failed, "a part of the servers does not answer now");
    Ok(None)
}

/// Checks the INFO of a server. A user who may not run INFO is served nevertheless, without the
/// checks.
async fn ask(
    node: &str,
    connection: &mut (impl ConnectionLike + Send),
    met: &Met<'_>,
) -> RedisResult<Option<NodeError>> {
    let reply: RedisResult<Value> = redis::cmd("INFO").query_async(connection).await;
    // A cluster: each of its masters answers.
    if let Ok(Value::Map(masters)) = reply {
        for (address, info) in masters {
            let address: String = redis::from_redis_value(address)?;
            let unfit = judge(&format!("{node} ({address})"), text(info))?;
            if unfit.is_some() {
                return Ok(unfit);
            }
        }
        return Ok(None);
    }
    let info = reply.and_then(text);
    if let Ok(info) = &info {
        met(info);
        if let Some(unfit) = check_mode(node, info) {
            return Ok(Some(unfit));
        }
    }
    judge(node, info)
}

fn text(info: Value) -> RedisResult<String> {
    match info {
        Value::ServerError(error) => Err(error.into()),
        info => Ok(redis::from_redis_value::<InfoText>(info)?.0),
    }
}

fn judge(node: &str, info: RedisResult<String>) -> RedisResult<Option<NodeError>> {
    match info {
        Ok(info) => Ok(check(node, &info)),
        Err(error) if is_withheld(&error) => {
            tell!(
                warn,
                node,
                "this user may not run INFO (by ACL or `rename-command`), so the version and the \
                 eviction policy of the server were not checked; grant +info, or do not rename it"
            );
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Is it a server that has all locks? One of a cluster has those of its slots, and refuses a script
/// for several: a client of it alone could not renew two leases at once.
pub(crate) fn check_mode(node: &str, info: &str) -> Option<NodeError> {
    let (kind, message) = match mode(info) {
        Some("sentinel") => (NodeErrorKind::Sentinel, "this is a sentinel, which has no locks"),
        Some("cluster") => (
            NodeErrorKind::Cluster,
            "this server belongs to a Redis Cluster, and has the locks of its own slots only",
        ),
        _ => return None,
    };
    Some(NodeError::new(node, kind, message))
}

fn check(node: &str, info: &str) -> Option<NodeError> {
    let unfit = |kind, message| Some(NodeError::new(node, kind, message));
    let version = field(info, "redis_version").unwrap_or_default();
    if parse_version(version).is_some_and(|version| version < OLDEST) {
        let message = format!("redis {version} is too old, redlock needs 5.0 or newer");
        let refused = unfit(NodeErrorKind::Refused, message);
        return refused.map(|error| error.advising("upgrade the server, or name another one"));
    }
    if field(info, "role") == Some("slave") {
        return unfit(NodeErrorKind::ReadOnly, "this server is a replica".to_owned());
    }
    if let Some(policy) = field(info, "maxmemory_policy").filter(|policy| evicts(policy)) {
        tell!(
            warn,
            node,
            policy,
            "this server may evict locks while they are held: every policy but `noeviction` does; \
             run `CONFIG SET maxmemory-policy noeviction`, or use a server of its own for locks"
        );
    }
    None
}

/// How many replicas are connected, if they are fewer than `needed`.
pub(crate) fn missing_replicas(info: &str, needed: u32) -> Option<u32> {
    let connected = field(info, "connected_slaves").and_then(|count| count.parse::<u32>().ok());
    connected.filter(|connected| *connected < needed)
}

/// Warns where a client asks for more replicas than there are: it would get no lock.
pub(crate) fn count_replicas(node: &str, info: &str, needed: u32) {
    if let Some(connected) = missing_replicas(info, needed) {
        tell!(
            warn,
            node,
            connected,
            needed,
            "fewer replicas are connected than `min_replicas` asks for: no lock can be taken until \
             they are back"
        );
    }
}

fn evicts(policy: &str) -> bool {
    policy != "noeviction"
}

fn parse_version(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::redis::connection::{Scripted, bulk};

    /// The objection to a server that answers this to INFO.
    async fn found(answer: &str) -> RedisResult<Option<String>> {
        let mut server = Scripted::new([answer]);
        let unfit = probe::<Scripted>("n", &mut server, &|_| ()).await;
        assert_eq!(server.asked(), ["INFO"]);
        unfit.map(|error| error.map(|error| error.to_string()))
    }

    #[tokio::test]
    async fn a_server_is_judged_by_what_it_tells() {
        let (old, new) = (bulk("redis_version:4.0.14"), bulk("redis_version:5.0.0"));
        assert_eq!(found(&new).await.unwrap(), None);
        let refused = found(&old).await.unwrap().unwrap();
        assert!(refused.contains("redis 4.0.14 is too old"), "{refused}");
        assert!(refused.contains("upgrade") && !refused.contains("the log"), "{refused}");
        for withheld in
            ["-NOPERM no info", "-ERR unknown command 'INFO', with args beginning with: "]
        {
            assert_eq!(found(withheld).await.unwrap(), None);
        }
        assert!(found("-NOAUTH first").await.is_err());
        assert!(found("*0").await.is_err());
    }

    /// One master that is unfit, or reports so, is enough.
    #[tokio::test]
    async fn each_master_of_a_cluster_is_judged() {
        let (old, new) = (bulk("redis_version:4.0.14"), bulk("redis_version:5.0.0"));
        let masters = |first: &str, second: &str| {
            format!("%2\r\n{}\r\n{first}\r\n{}\r\n{second}", bulk("a:1"), bulk("b:2"))
        };
        assert_eq!(found(&masters(&new, &new)).await.unwrap(), None);
        for both in [masters(&old, &new), masters(&new, &old)] {
            let unfit = found(&both).await.unwrap().unwrap();
            assert!(unfit.contains("is too old"), "{unfit}");
        }
        assert!(found(&masters(&new, &old)).await.unwrap().unwrap().contains("(b:2)"));
        assert_eq!(found(&masters(&new, "-NOPERM no info")).await.unwrap(), None);
        assert!(found(&masters(&new, "-LOADING soon")).await.is_err());
    }

    /// A sentinel has no locks. One server of a cluster serves its own slots only, and refuses
    /// scripts for keys of several.
    #[tokio::test]
    async fn a_server_that_cannot_decide_alone_is_refused() {
        for server in ["redis", "server"] {
            let of = |mode: &str| bulk(&format!("redis_version:7.2.4\r\n{server}_mode:{mode}"));
            assert_eq!(found(&of("standalone")).await.unwrap(), None);
            for (mode, way_out) in [("sentinel", ".sentinel(urls, name)"), ("cluster", ".cluster(")]
            {
                let text = found(&of(mode)).await.unwrap().unwrap();
                assert!(text.contains("this is a sentinel") != (mode == "cluster"), "{text}");
                assert!(text.contains(way_out) && text.contains(&format!("`--{mode}")), "{text}");
            }
            let masters = format!("%1\r\n{}\r\n{}", bulk("a:1"), of("cluster"));
            assert_eq!(found(&masters).await.unwrap(), None, "a client of the whole cluster");
        }
    }

    #[test]
    fn an_old_server_is_refused_and_a_new_one_is_not() {
        let kind = |info| check("n", info).map(|error| error.kind());
        assert_eq!(kind("redis_version:4.0.14\r\n"), Some(NodeErrorKind::Refused));
        assert_eq!(kind("redis_version:7.0.15\r\nmaxmemory_policy:noeviction\r\n"), None);
        assert_eq!(kind("role:slave\r\n"), Some(NodeErrorKind::ReadOnly));
        assert_eq!(kind("server_name:something else\r\n"), None);
    }

    #[test]
    fn every_policy_but_one_evicts_locks() {
        assert!(!evicts("noeviction"));
        for policy in ["allkeys-lru", "volatile-lru", "volatile-ttl", "allkeys-random"] {
            assert!(evicts(policy));
        }
    }
}
