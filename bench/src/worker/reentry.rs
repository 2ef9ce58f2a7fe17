//! An annotated function that is called by one that holds its lock already.

use redlock::{LockError, Redlock, redis_lock};

use super::pipelined::seconds_since;
use super::run::{say, wait_for_go};
use crate::Failure;
use crate::monotonic;
use crate::plan::{Answer, Plan, Tally};

const CALLS: u32 = 100_000;

#[redis_lock(key = "reentry-<id>", client = locks)]
async fn outer(locks: &Redlock, id: u64, seconds: f64) -> Result<(u64, f64), LockError> {
    let (mut calls, mut nanos) = (0, 0.0);
    let begin = monotonic::now();
    while seconds_since(begin) < seconds {
        let batch = monotonic::now();
        for n in 0..CALLS {
            std::hint::black_box(inner(locks, id, std::hint::black_box(n)).await?);
        }
        nanos += seconds_since(batch) * 1e9;
        calls += u64::from(CALLS);
        tokio::task::yield_now().await;
    }
    Ok((calls, nanos))
}

#[redis_lock(key = "reentry-<id>", client = locks)]
async fn inner(locks: &Redlock, id: u64, n: u32) -> Result<u32, LockError> {
    Ok(n ^ u32::try_from(id).unwrap_or(0))
}

#[allow(clippy::cast_precision_loss)]
pub async fn measure(plan: &Plan) -> Result<Answer, Failure> {
    let locks = Redlock::connect(plan.url.as_str()).await?;
    outer(&locks, 41, plan.warm_up_s).await?;
    say("ready");
    wait_for_go().await?;
    let (calls, nanos) = outer(&locks, 42, plan.seconds).await?;
    let tally = Tally { holds: calls, ..Tally::default() };
    let mut answer = Answer { workers: vec![tally], ..Answer::default() };
    answer.extra.insert("ns_per_call".to_owned(), nanos / calls as f64);
    Ok(answer)
}
