//! What the restart guard learns from the dates that clients have left on a node, and leaves there.

use std::sync::Arc;

use super::broadcast::NodeAnswers;
use super::founders::Seen;
use super::member::Member;
use super::other_clocks::OtherClocks;
use super::restart_guard::{NodeGroup, RestartGuard};
use crate::backend::{Cause, FoundersList, MemorySince, Witness, process};

impl RestartGuard {
    /// What this client has seen of a node; `None`: it has not met it.
    pub(super) fn seen(&self, member: &Member) -> Option<Seen> {
        let MemorySince { run_id, since: watched_since, .. } = member.backend.memory_since()?;
        let MemorySince { since, cause, heir_of, .. } = member.memory_since()?;
        let now = self.now();
        let known_for = now.since(since);
        Some(Seen {
            watched_for: now.since(watched_since).min(known_for),
            known_for,
            is_doubted: matches!(cause, Cause::ClockJumped(_) | Cause::ClockDiffers(_)),
            clocks: self.clocks_beside(&run_id),
            heir_of,
            run_id,
        })
    }

    /// Learns from the dates that others have left on a node.
    pub(super) fn believe_date(&self, member: &Member, found: Option<&str>) {
        let Some(MemorySince { run_id, .. }) = member.backend.memory_since() else { return };
        let witness = found.and_then(Witness::find).filter(|witness| witness.run_id == run_id);
        let clocks = self.clocks_beside(&run_id);
        let age = witness.zip(clocks).and_then(|(witness, clocks)| clocks.age(&witness.dates));
        if let Some(age) = age {
            member.note_met(run_id, self.now().minus(age));
        }
    }

    pub(super) fn believe_dates(&self, members: &[Arc<Member>], lists: &NodeAnswers<FoundersList>) {
        for (member, list) in members.iter().zip(lists) {
            if let Some(Ok(list)) = list {
                self.believe_date(member, list.text.as_deref());
            }
        }
    }

    /// The clocks beside that of this process. A server under two addresses has one clock.
    fn clocks_beside(&self, run_id: &str) -> Option<OtherClocks> {
        let NodeGroup { members, quorum } = self.group.get()?;
        let now = self.now();
        let clock = |other: &Arc<Member>| {
            let name = other.backend.memory_since()?.run_id;
            let shown = other.backend.clock_offset()?.shows(now);
            (process(&name) != process(run_id)).then_some((name, shown))
        };
        Some(OtherClocks {
            nodes: members.iter().filter_map(clock).collect(),
            client: self.clock.wall_micros(),
            needed: quorum.saturating_sub(1),
            others: members.len().saturating_sub(1),
        })
    }
}
