//! Follows an outage in the background: checks whether the node is back, and which process answers.

use std::time::Duration;

use deadpool_redis::redis;
use tokio::time::{sleep, timeout};

use super::info::InfoText;
use crate::backend::HealthCheck;
use crate::backend::redis::commands::{Deadline, exclusive, no_undo, send_script};
use crate::backend::redis::connection::Source;
use crate::backend::redis::node_core::NodeCore;
use crate::error::NodeError;

/// How often a node that is out is checked.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How long one answer may take.
const REPLY: Duration = Duration::from_secs(1);
/// The same for a cluster, of which each master is asked: all of its clients begin at one moment.
const SHORTEST_PAUSE_OF_MANY: Duration = Duration::from_millis(500);
const LONGEST_PAUSE_OF_MANY: Duration = Duration::from_secs(5);
const REPLY_OF_MANY: Duration = Duration::from_secs(3);

/// Waits for outages, and for connections that break or lead to another process. `check` asks
/// whether an outage is over.
pub(crate) async fn watch<S: Source>(core: &NodeCore<S>, check: &dyn HealthCheck) {
    let health = &core.health;
    let longest = if S::LEADS_TO_ONE { LONGEST_PAUSE } else { LONGEST_PAUSE_OF_MANY };
    loop {
        tokio::select! {
            () = health.news() => {}
            () = core.identity.moves() => health.broke(),
        }
        let mut pause = if S::LEADS_TO_ONE { SHORTEST_PAUSE } else { SHORTEST_PAUSE_OF_MANY };
        loop {
            if !health.is_out() || health.answers_again() {
                if health.take_suspicion() && S::LEADS_TO_ONE {
                    identify(core).await;
                    // The subscription may still be with a server that was left, or is a replica.
                    if core.registry.is_heard() {
                        core.registry.doubt();
                    }
                }
                health.end_if_over();
                if !health.is_out() {
                    break;
                }
            }
            sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
            pause = (pause * 2).min(longest);
            if !S::LEADS_TO_ONE {
                // Also those that have all answered once: nobody else may ask them all.
                check.check_health(REPLY_OF_MANY).await;
            } else if health.is_silent() {
                check.check_health(REPLY).await;
            }
            health.report_lasting();
        }
    }
}

/// Sends a renewal of no lease: only the answer counts.
pub(crate) async fn ping<S: Source>(core: &NodeCore<S>, within: Duration) -> Result<(), NodeError> {
    let none: [crate::backend::Claim; 0] = [];
    let call = exclusive::renew::call(&none);
    let decode = |value: &redis::Value| exclusive::renew::decode(value, 0);
    let deadline = Deadline::after(within);
    let answer = send_script(&core.health, &core.renewals, &call, &deadline, decode, no_undo).await;
    let answer = answer.map_err(|failure| {
        core.health.confirm();
        failure.error
    })?;
    core.heard_time(answer.reply.micros, answer.sent);
    Ok(())
}

/// Finds out which process answers.
async fn identify<S: Source>(core: &NodeCore<S>) {
    let _ = ping(core, REPLY).await;
    // Nothing was asked when a lazy client was built.
    if let Some(run_id) = core.identity.first_met() {
        core.health.assume(&run_id);
    }
    if core.health.is_silent() || !core.health.knows_server() {
        return;
    }
    let info = timeout(REPLY, async {
        let mut loan = core.renewals.borrow().await?;
        redis::cmd("INFO").query_async::<InfoText>(&mut loan.connection).await
    });
    if let Ok(Ok(InfoText(info))) = info.await {
        core.health.meet(&info);
    }
}
