//! Many leases held at once: what they cost, and that none is lost.

use std::time::Duration;

use redlock::{LeaseState, LockGuard, Redlock};
use tokio::task::JoinSet;

use super::pipelined::seconds_since;
use super::run::{say, wait_for_go};
use super::subject::{LEASE, WAIT};
use crate::Failure;
use crate::monotonic;
use crate::plan::{Answer, Plan};

const AT_ONCE: usize = 256;

/// `tasks` is the number of leases; `ready` is said once all are held.
pub async fn measure(plan: &Plan) -> Result<Answer, Failure> {
    let locks = Redlock::builder().url(plan.url.as_str()).max_waiters(AT_ONCE).build().await?;
    locks.lock("warm-up").acquire().await?.release().await?;
    let before = resident_bytes();
    let guards = take(&locks, &plan.key, plan.tasks).await?;
    let after = resident_bytes();
    say("ready");
    wait_for_go().await?;
    let begin = monotonic::now();
    let mut least_left = LEASE;
    while seconds_since(begin) < plan.seconds {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let left = guards.iter().map(|guard| guard.remaining()).min();
        least_left = least_left.min(left.unwrap_or_default());
    }
    let lost = guards.iter().filter(|guard| guard.state() != LeaseState::Held).count();
    let renewals = guards.iter().map(|guard| u64::from(guard.renewals())).sum::<u64>();
    let mut answer = Answer::default();
    let bytes = after.saturating_sub(before) / guards.len().max(1);
    for (name, figure) in [
        ("bytes_per_lease", to_f64(bytes)),
        ("lost", to_f64(lost)),
        ("renewals", to_f64(usize::try_from(renewals)?)),
        ("least_left_s", least_left.as_secs_f64()),
    ] {
        answer.extra.insert(name.to_owned(), figure);
    }
    // The server goes down with them: no 100,000 releases.
    std::mem::forget(guards);
    Ok(answer)
}

async fn take(locks: &Redlock, key: &str, count: u32) -> Result<Vec<LockGuard>, Failure> {
    let mut guards = Vec::with_capacity(usize::try_from(count)?);
    let mut running = JoinSet::new();
    let mut next = 0;
    while next < count || !running.is_empty() {
        while next < count && running.len() < AT_ONCE {
            let request = locks.lock(format!("{key}-{next}")).expire(LEASE).wait(WAIT);
            running.spawn(request.acquire());
            next += 1;
        }
        if let Some(guard) = running.join_next().await {
            guards.push(guard??);
        }
    }
    Ok(guards)
}

/// Of this process; 0 where there is no `/proc`.
fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
    kib.unwrap_or(0) * 1_024
}

#[allow(clippy::cast_precision_loss)]
fn to_f64(number: usize) -> f64 {
    number as f64
}
