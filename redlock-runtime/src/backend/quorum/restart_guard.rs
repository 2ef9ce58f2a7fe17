//! The restart guard: a node that may have forgotten leases has no vote until they are over.
//!
//! This is the "delayed restart" of the Redis page (redis.io, "Distributed Locks with Redis", on
//! crash recovery), done by the clients: a server that comes back empty would grant again what it
//! granted a moment ago. What a node granted before it lost its memory is over after the longest
//! lease in use; until then the other nodes decide without it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::founders;
use super::founders::Founders;
use super::member::Member;
use super::odd_clocks::odd_clocks;
use crate::backend::{Cause, Fault, FormerList, FoundersOffer, MemorySince, SharedWork};
use crate::clock::{Clock, Moment};
use crate::error::{NodeError, NodeErrorKind};
use crate::shield::tell;
use crate::{telemetry, validity};

/// Decides which nodes of one quorum have a vote.
#[derive(Debug)]
pub(crate) struct RestartGuard {
    pub(super) clock: Clock,
    pub(super) founders_key: Arc<str>,
    /// The longest lease of other clients, as far as it was named.
    others: Duration,
    /// The lease of this client, before a call has shown one.
    usual: Duration,
    /// The longest lease of this client so far, in nanoseconds.
    learned: AtomicU64,
    pub(super) founders: OnceLock<Founders>,
    pub(super) enrolling: SharedWork<Result<(), Fault>>,
    /// Set by the first call.
    pub(super) group: OnceLock<NodeGroup>,
}

/// The nodes that decide together.
#[derive(Debug)]
pub(super) struct NodeGroup {
    pub(super) members: Vec<Arc<Member>>,
    pub(super) quorum: usize,
}

impl RestartGuard {
    /// `others`: the longest lease of other clients. The leases of this client are learned; until
    /// then the guard goes by its `usual` one.
    pub(crate) fn new(
        clock: Clock,
        founders_key: Arc<str>,
        others: Duration,
        usual: Duration,
    ) -> Arc<Self> {
        Arc::new(Self {
            clock,
            founders_key,
            others,
            usual,
            learned: AtomicU64::new(0),
            founders: OnceLock::new(),
            enrolling: SharedWork::default(),
            group: OnceLock::new(),
        })
    }

    pub(crate) fn now(&self) -> Moment {
        self.clock.now()
    }

    /// Leases of this length are in use from now on.
    pub(crate) fn expect(&self, expire: Duration) {
        let nanos = u64::try_from(expire.as_nanos()).unwrap_or(u64::MAX);
        self.learned.fetch_max(nanos, Ordering::Relaxed);
    }

    /// Compares the clock of this node with those of the others, once it is known: a clock that
    /// differs may have jumped before this client came. An answer brings the server's time, so that
    /// a node that was out of reach at first is compared by its first answer.
    pub(super) fn compare_clock(&self, member: &Member) {
        let Some(NodeGroup { members, quorum }) = self.group.get() else { return };
        let offset = |member: &Member| member.backend.clock_offset()?.middle();
        if member.is_compared() || offset(member).is_none() {
            return;
        }
        // One server under two addresses has one clock.
        let alone = |member: &Arc<Member>| self.twin(member).map_or(offset(member), |_| None);
        let offsets: Vec<_> = members.iter().map(alone).collect();
        let Some(odd) = odd_clocks(&offsets, *quorum) else { return };
        let known = members.iter().zip(offsets).enumerate().filter(|(_, (_, at))| at.is_some());
        for (index, (member, _)) in known {
            let off = odd.iter().find_map(|(other, millis)| (*other == index).then_some(*millis));
            let cause = off.map(Cause::ClockDiffers);
            let known = member.backend.memory_since();
            let suspicion = cause.and_then(|cause| Some(known?.doubted(self.clock.now(), cause)));
            if let (true, Some(cause)) = (member.note_compared(suspicion), cause) {
                let node = member.backend.name();
                tell!(warn, node, "{cause}: set the clocks of all servers by NTP");
                telemetry::node_doubted(node, cause.label());
            }
        }
    }

    /// A fault if the server of this node is that of an earlier one.
    pub(super) fn twin(&self, member: &Member) -> Option<Fault> {
        member.twin(&self.group.get()?.members)
    }

    /// Why this node has no vote now; `None`: it has one.
    pub(crate) fn objection(&self, member: &Member) -> Option<Fault> {
        self.objection_by(self.founders.get(), member)
    }

    /// The same with these founders.
    pub(super) fn objection_by(
        &self,
        founders: Option<&Founders>,
        member: &Member,
    ) -> Option<Fault> {
        self.twin(member).or_else(|| self.gap_by(founders, member))
    }

    /// Why a grant of this node does not count; `None`: it does. The answer itself may have shown
    /// that the server was restarted, or what its clock says.
    pub(crate) fn objection_to_grant(&self, member: &Member) -> Option<Fault> {
        self.objection(member).or_else(|| untold_clock(member))
    }

    /// A fault if leases that this node may have forgotten are not over yet.
    fn gap(&self, member: &Member) -> Option<Fault> {
        self.gap_by(self.founders.get(), member)
    }

    fn gap_by(&self, founders: Option<&Founders>, member: &Member) -> Option<Fault> {
        self.compare_clock(member);
        let memory_since = member.memory_since()?;
        if founders.is_some_and(|founders| founders.has(&memory_since)) {
            return None;
        }
        let (now, end) = (self.clock.now(), self.forgotten_leases_end(memory_since.since));
        if now >= end {
            return None;
        }
        let alone = self.group.get().is_some_and(|group| group.members.len() == 1);
        let error = quarantined(member.backend.name(), &memory_since, now, end.since(now), alone);
        if member.take_news(&memory_since) {
            tell!(warn, node = member.backend.name(), "no vote for now: {}", error.message());
        }
        Some(Fault::known(vec![error]))
    }

    /// When a node granted a lease, at the earliest; [`Moment::NEVER`] if the node may have
    /// forgotten other leases that are not over. A clock that jumps later is no reason to count
    /// such a grant.
    pub(super) fn granted(&self, member: &Member, sent: Moment) -> Moment {
        let counts = self.gap(member).or_else(|| untold_clock(member)).is_none();
        if counts { sent } else { Moment::NEVER }
    }

    /// Has the node remembered every lease since it `granted` one that it still has? A lease that
    /// the node granted after it had forgotten others counts once those are over, in a renewal no
    /// sooner than in an acquire: another owner may still count on the forgotten vote.
    pub(crate) fn remembers(&self, member: &Member, granted: Moment) -> bool {
        let kept_its_keys = |memory_since: MemorySince| {
            matches!(memory_since.cause, Cause::ClockJumped(_) | Cause::ClockDiffers(_))
                && (memory_since.kept_since..memory_since.since).contains(&granted)
        };
        let is_sure = self.twin(member).or_else(|| untold_clock(member)).is_none();
        is_sure && (self.gap(member).is_none() || member.memory_since().is_some_and(kept_its_keys))
    }

    /// Keeps the list of founders on a node for later clients, and with it for how long this client
    /// has watched a node that was restarted.
    pub(crate) fn spread(self: &Arc<Self>, member: &Arc<Member>, within: Duration) {
        let (Some(founders), Some(seen)) = (self.founders.get(), self.seen(member)) else { return };
        let now = self.clock.now();
        // The note is written again when the vote is due: the next client may not live until the
        // pause is over.
        let due = self.forgotten_leases_end(now.minus(seen.known_for)).since(now);
        let is_founder = founders.names(&seen.run_id);
        let pause = founders::pause(seen.watched_for, is_founder);
        let pause = if due.is_zero() { pause } else { pause.min(due) };
        let since = member.memory_since().filter(|_| !is_founder).map(|known| known.since);
        let leases_end = self.forgotten_leases_end(now);
        let ends = now.plus(self.life(Duration::ZERO));
        if !member.begin_writing_founders(&seen.run_id, since, now, pause, leases_end, ends) {
            return;
        }
        let (guard, member, founders) = (Arc::clone(self), Arc::clone(member), founders.clone());
        tokio::spawn(async move {
            let key = &guard.founders_key;
            let written = async {
                let found = member.backend.founders(key, None, within).await?;
                guard.believe_date(&member, found.text.as_deref());
                // `seen` has to be newer than the list, which may have taken long to read: a
                // time from the list would be counted back from too early a moment.
                let Some(seen) = guard.seen(&member).filter(|now| now.run_id == seen.run_id) else {
                    return Ok(found);
                };
                let founders = founders.update(found.text.as_deref(), &seen);
                let run_id = Some(seen.run_id);
                let (life, former) = (guard.life(found.life), FormerList::Replaced);
                let offer = FoundersOffer { run_id, founders, life, former };
                member.backend.founders(key, Some(offer), within).await
            };
            if written.await.is_err() {
                member.lacks_founders(guard.now().plus(founders::RETRY));
            }
        });
    }

    /// When the leases are over that a node granted before `since`.
    pub(super) fn forgotten_leases_end(&self, since: Moment) -> Moment {
        since.plus(self.longest_by_another_clock())
    }

    /// The longest lease, as the slowest clock counts it.
    fn longest_by_another_clock(&self) -> Duration {
        let longest = self.longest();
        longest + validity::drift(longest)
    }

    /// The longest lease that a node may have forgotten.
    fn longest(&self) -> Duration {
        let own = match self.learned.load(Ordering::Relaxed) {
            0 => self.usual,
            learned => Duration::from_nanos(learned),
        };
        own.max(self.others)
    }

    /// For how long a list shall live on a node where one lives on for `found`. If it ended before
    /// a lease, the group that granted the lease would look new; other clients may have longer
    /// leases than this one, so that no list is to end sooner than it would otherwise. (One that
    /// another client prolongs between the question and this answer may; that client prolongs it
    /// again within [`founders::RENEW_EVERY`].)
    pub(super) fn life(&self, found: Duration) -> Duration {
        found.max(founders::LIFE + self.longest_by_another_clock())
    }
}

const ALONE: &str = "; no other server can tell how long it has been up, so that one call has to \
                     wait for so long";

const TELL_TIME: &str = "name the server itself, not a proxy that changes its answers, or do \
                         without the guard: `restart_guard(false)`";

/// A fault if the clock of a node that has granted a lock cannot be compared with the others.
fn untold_clock(member: &Member) -> Option<Fault> {
    if member.backend.clock_offset().is_some() {
        return None;
    }
    let message = "its answers do not tell its time, so that a jump of its clock would be missed";
    let node = NodeError::new(member.backend.name(), NodeErrorKind::Quarantined, message);
    Some(Fault::known(vec![node.advising(TELL_TIME)]))
}

fn quarantined(
    node: &str,
    memory_since: &MemorySince,
    now: Moment,
    left: Duration,
    is_alone: bool,
) -> NodeError {
    let message = format!(
        "{} ({:.1} s ago); it has no vote for another {:.1} s, when the leases it may have \
         forgotten are over{}",
        memory_since.cause,
        now.since(memory_since.since).as_secs_f64(),
        left.as_secs_f64(),
        if is_alone { ALONE } else { "" }
    );
    NodeError::new(node, NodeErrorKind::Quarantined, message)
}
