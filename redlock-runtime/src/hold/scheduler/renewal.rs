//! Renews leases that are due, and tells each what its server answered.

use std::sync::Arc;

use super::Scheduler;
use crate::backend::{Fault, Found};
use crate::clock::Moment;
use crate::hold::record::Hold;
use crate::hold::renewal_batch::BATCH;
use crate::shield::shielded;
use crate::telemetry;

impl Scheduler {
    /// Renews one batch: sends one script, and plans each lease by its answer.
    pub(super) async fn renew(self: Arc<Self>, mut batch: Vec<Arc<Hold>>) {
        let within = batch.iter().map(|hold| hold.renewal_reply()).min().unwrap_or_default();
        let client = Arc::clone(&batch[0].client);
        let _permit = client.may_renew(within).await;
        // The time is read before the command leaves: the server may begin the new lease at any
        // time after.
        let sent = self.clock.now();
        let mut claims = Vec::with_capacity(batch.len());
        // A holder may have released since the batch was collected.
        batch.retain(|hold| hold.begin_renewal(sent, &mut claims));
        let Some(due) = batch.iter().map(|hold| hold.due_at()).min() else { return };
        telemetry::renewal_lag(sent.since(due));
        let answer = client.backend.renew(&claims, within).await;
        settle(&batch, sent, &answer);
        let now = self.clock.now();
        // A full batch is renewed earlier than it must be, by a random share, so that leases that
        // were acquired together are not renewed together for ever.
        let head_start = if claims.len() >= BATCH { fastrand::f64() } else { 0.0 };
        self.plan(&batch, now, Some(head_start));
    }
}

fn settle(batch: &[Arc<Hold>], sent: Moment, answer: &Result<Vec<Option<Found>>, Fault>) {
    match answer {
        Ok(outcomes) => {
            let mut outcomes = outcomes.as_slice();
            for hold in batch {
                let own;
                (own, outcomes) = outcomes.split_at(hold.key_count().min(outcomes.len()));
                shielded(|| settle_hold(hold, sent, own));
            }
        }
        Err(fault) => {
            let nodes = fault.nodes_text();
            for hold in batch {
                shielded(|| hold.doubt(&nodes));
            }
        }
    }
}

/// A hold is renewed if all of its keys are, and lost with any of them.
fn settle_hold(hold: &Hold, sent: Moment, outcomes: &[Option<Found>]) {
    let lost = |(key_index, found): (usize, &Option<Found>)| Some((key_index, (*found)?.loss()?));
    if let Some((key_index, reason)) = outcomes.iter().enumerate().find_map(lost) {
        hold.lose_key(key_index, reason);
    } else if outcomes == vec![Some(Found::Ours); hold.key_count()] {
        hold.extend(sent);
    } else {
        hold.doubt("too few nodes answered");
    }
}
