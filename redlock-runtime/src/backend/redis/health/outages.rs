//! Sees an outage through in the background: asks whether the node is back, and who answers there.

use std::time::Duration;

use deadpool_redis::redis;
use tokio::time::{sleep, timeout};

use crate::backend::redis::commands::{on_abandoned, reply, send_script};
use crate::backend::redis::connection::Source;
use crate::backend::redis::{Core, renewal};

/// How often a node that is out is asked.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How long one answer may take.
const REPLY: Duration = Duration::from_secs(1);

impl<S: Source> Core<S> {
    /// Waits for outages, and for connections that break.
    pub(crate) async fn watch_health(&self) {
        let health = &self.health;
        loop {
            health.news().await;
            let mut pause = SHORTEST_PAUSE;
            loop {
                if !health.is_out() || health.has_settled() {
                    if health.takes_suspicion() {
                        self.meet().await;
                    }
                    health.end();
                    if !health.is_out() {
                        break;
                    }
                }
                sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
                if health.is_silent() {
                    self.ask().await;
                }
                health.tell_on();
            }
        }
    }

    /// Asks for nothing: what counts is the answer. Of several servers, one that answers would say
    /// nothing about the others.
    async fn ask(&self) {
        if S::LEADS_TO_ONE {
            let call = renewal(&[]);
            let decode = |value: &redis::Value| reply::renewed(value, 0);
            let answer =
                send_script(&self.health, &self.renewals, &call, REPLY, decode, on_abandoned).await;
            if answer.is_err() {
                self.health.confirm();
            }
        }
    }

    async fn meet(&self) {
        self.ask().await;
        if self.health.is_silent() || !self.health.knows_server() {
            return;
        }
        let info = timeout(REPLY, async {
            let mut loan = self.renewals.borrow().await?;
            redis::cmd("INFO").query_async::<String>(&mut loan.connection).await
        });
        if let Ok(Ok(info)) = info.await {
            self.health.meet(&info);
        }
    }
}
