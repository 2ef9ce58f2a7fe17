//! Which subject a plan names, and the protocol with the harness.

use std::io::Write;

use super::async_redis_lock::AsyncRedisLock;
use super::attribute::{Attribute, Awaited};
use super::distkit::Distkit;
use super::distributed_lock::DistributedLock;
use super::drive::drive;
use super::guard::Guard;
use super::kinds::{Permits, Read, TwoKeys};
use super::places::{InCluster, InMemory, InPool, ThreeMasters, WithReplica};
use super::plain_set::PlainSet;
use super::raw_scripts::RawScripts;
use super::redis_lock::RedisLock;
use super::rslock::Rslock;
use super::{leases, ping, pipelined, reentry};
use crate::Failure;
use crate::plan::{Answer, Plan};

/// The worker process. Its runtime is what `#[tokio::main]` makes.
pub fn run(plan: &str) -> Result<(), Failure> {
    let plan: Plan = serde_json::from_str(plan)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let answer = runtime.block_on(async move { tokio::spawn(measure(plan)).await })??;
    say(&serde_json::to_string(&answer)?);
    Ok(())
}

async fn measure(plan: Plan) -> Result<Answer, Failure> {
    match plan.subject.as_str() {
        "raw-scripts" => drive::<RawScripts>(&plan).await,
        "raw-set" | "raw-set-valkey" => drive::<PlainSet>(&plan).await,
        "raw-pipelined" => pipelined::measure(&plan).await,
        "raw-ping" => ping::measure(&plan).await,
        "redlock" | "redlock-valkey" => drive::<Attribute>(&plan).await,
        "redlock-pool" => drive::<Attribute<InPool>>(&plan).await,
        "redlock-memory" => drive::<Attribute<InMemory>>(&plan).await,
        "redlock-cluster" => drive::<Attribute<InCluster>>(&plan).await,
        "redlock-min-replicas" => drive::<Attribute<WithReplica>>(&plan).await,
        "redlock-3-masters" => drive::<Attribute<ThreeMasters>>(&plan).await,
        "redlock-await" => drive::<Awaited>(&plan).await,
        "redlock-guard" => drive::<Guard>(&plan).await,
        "redlock-read" => drive::<Read>(&plan).await,
        "redlock-permits" => drive::<Permits>(&plan).await,
        "redlock-2-keys" => drive::<TwoKeys>(&plan).await,
        "redlock-leases" => leases::measure(&plan).await,
        "redlock-reentry" => reentry::measure(&plan).await,
        "rslock" => drive::<Rslock>(&plan).await,
        "redis-lock" => drive::<RedisLock>(&plan).await,
        "distributed-lock-redis" => drive::<DistributedLock>(&plan).await,
        "distkit-read" => drive::<Distkit>(&plan).await,
        "async-redis-lock" => drive::<AsyncRedisLock>(&plan).await,
        other => Err(format!("there is no subject {other}").into()),
    }
}

/// One line to the harness.
pub fn say(line: &str) {
    println!("{line}");
    std::io::stdout().flush().expect("the harness listens");
}

/// One line from the harness.
pub async fn wait_for_go() -> Result<String, Failure> {
    let read = || std::io::stdin().lines().next();
    match tokio::task::spawn_blocking(read).await? {
        None => Err("the harness is gone".into()),
        Some(line) => Ok(line?),
    }
}
