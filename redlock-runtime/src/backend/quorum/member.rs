//! One node of a quorum, and whether it is worth waiting for.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::founders;
use crate::backend::{Cause, Fault, MemorySince, QuorumMember, process};
use crate::clock::Moment;
use crate::error::{NodeError, NodeErrorKind};
use crate::mutex::Mutex;

/// How often a node that is down gets a command.
const PROBE_EVERY: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct Member {
    /// Its index among the nodes.
    pub(crate) number: usize,
    pub(crate) backend: Arc<dyn QuorumMember>,
    down: Mutex<Option<Down>>,
    memory: Mutex<GuardMemory>,
}

/// What the restart guard keeps about a node.
#[derive(Debug, Default)]
struct GuardMemory {
    /// A gap that only the comparison with other nodes shows.
    suspicion: Option<MemorySince>,
    /// Its clock was compared with those of the others.
    is_compared: bool,
    /// The gap that was reported last.
    reported: Option<Moment>,
    /// The list of founders that was written last.
    written: Option<Written>,
    /// A process that other clients have met since then, as their dates show.
    met: Option<(Arc<str>, Moment)>,
    /// Why it has not told its founders, if it was asked for them.
    untold: Option<Untold>,
}

/// Why a node has not told its founders.
#[derive(Debug, Clone)]
pub(crate) enum Untold {
    /// It has not answered yet.
    Silent,
    Failed(Fault),
}

/// A list of founders that was written on a node.
#[derive(Debug)]
struct Written {
    /// The server process that got the list.
    run_id: Arc<str>,
    at: Moment,
    /// Since when the list says that it remembers its leases; `None`: it is a founder.
    since: Option<Moment>,
    /// When it is to be renewed.
    until: Moment,
    /// When the list ends, at the earliest.
    ends: Moment,
}

#[derive(Debug)]
struct Down {
    fault: Fault,
    next_probe: Instant,
}

/// What to do with a node for one command.
#[derive(Debug)]
pub(crate) enum NodeAdmission {
    /// Send the command, and wait for its answer.
    Ask,
    /// The node was down: send the command, and wait only if the others are too few.
    Probe(Fault),
    /// The node is down, and got a command a moment ago.
    Skip(Fault),
}

impl Member {
    pub(crate) fn new(number: usize, backend: Arc<dyn QuorumMember>) -> Arc<Self> {
        Arc::new(Self { number, backend, down: Mutex::new(None), memory: Mutex::default() })
    }

    /// A fault if its server is that of another one of these `members`. One server has one vote: of
    /// the member that began with it, or of the first of several.
    pub(crate) fn twin(&self, members: &[Arc<Self>]) -> Option<Fault> {
        let own = self.backend.run_id()?;
        let order = |member: &Self| {
            let memory_since = member.backend.memory_since();
            (memory_since.is_some_and(|known| known.cause != Cause::Started), member.number)
        };
        let is_own = |run_id: Arc<str>| process(&run_id) == process(&own);
        let others = members.iter().filter(|other| other.number != self.number);
        let first = others
            .filter(|other| other.backend.run_id().is_some_and(is_own))
            .find(|other| order(other) < order(self))?;
        let message = format!("{} leads to the same server", first.backend.name());
        let node = NodeError::new(self.backend.name(), NodeErrorKind::Duplicate, message);
        Some(Fault::known(vec![node]))
    }

    /// Does another one of these `members` lead to this process?
    pub(crate) fn shares(&self, run_id: &str, members: &[Arc<Self>]) -> bool {
        let is_same = |known: Arc<str>| process(&known) == process(run_id);
        let others = members.iter().filter(|other| other.number != self.number);
        others.filter_map(|other| other.backend.run_id()).any(is_same)
    }

    pub(crate) fn admit(&self) -> NodeAdmission {
        let mut down = self.down.lock();
        let Some(down) = &mut *down else { return NodeAdmission::Ask };
        let now = Instant::now();
        if now < down.next_probe {
            return NodeAdmission::Skip(down.fault.clone());
        }
        down.next_probe = now + PROBE_EVERY;
        NodeAdmission::Probe(down.fault.clone())
    }

    /// Learns from an answer. A node that answers with an error is not down: it costs no wait. An
    /// objection of the restart guard is not an answer, nor is the error of a command that was not
    /// sent: the node was not asked, and the next command may be the probe.
    pub(crate) fn note<T>(&self, answer: &Result<T, Fault>) {
        let has = |fault: &Fault, kinds: [NodeErrorKind; 2]| {
            fault.nodes.iter().any(|node| kinds.contains(&node.kind()))
        };
        let was_not_asked = |fault: &Fault| {
            has(fault, [NodeErrorKind::Quarantined, NodeErrorKind::Duplicate])
                || fault.nodes.iter().any(NodeError::is_unsent)
        };
        let now = Instant::now();
        let mut down = self.down.lock();
        match answer {
            Err(fault) if was_not_asked(fault) => {
                if let Some(down) = &mut *down {
                    down.next_probe = now;
                }
            }
            Err(fault) if has(fault, [NodeErrorKind::Unreachable, NodeErrorKind::NoReply]) => {
                *down = Some(Down { fault: fault.clone(), next_probe: now + PROBE_EVERY });
            }
            _ => *down = None,
        }
    }

    /// Since when the node remembers what it granted, by its own answer or by comparison with
    /// others: the later of the two in each respect, which doubts more.
    pub(crate) fn memory_since(&self) -> Option<MemorySince> {
        let own = self.backend.memory_since().map(|own| self.met_before(own));
        let suspicion = self.memory.lock().suspicion.clone();
        let known = || own.iter().chain(&suspicion);
        let kept_since = known().map(|known| known.kept_since).max()?;
        let latest = known().max_by_key(|known| known.since)?;
        Some(MemorySince { kept_since, ..latest.clone() })
    }

    /// A client that knew another process at this address relies on what it has seen itself: the
    /// address may have moved away in between.
    fn met_before(&self, own: MemorySince) -> MemorySince {
        let memory = self.memory.lock();
        let met = memory.met.as_ref().filter(|(run_id, _)| *run_id == own.run_id);
        match met {
            Some((_, since)) if own.cause == Cause::Started && *since < own.since => {
                MemorySince { since: *since, ..own }
            }
            _ => own,
        }
    }

    /// Other clients have met this process `since` then, at the latest.
    pub(crate) fn note_met(&self, run_id: Arc<str>, since: Moment) {
        let met = &mut self.memory.lock().met;
        if met.as_ref().is_none_or(|(known, before)| *known != run_id || since < *before) {
            *met = Some((run_id, since));
        }
    }

    /// It is asked for its founders.
    pub(crate) fn asked_for_founders(&self) {
        self.memory.lock().untold = Some(Untold::Silent);
    }

    /// It has told its founders, or failed to.
    pub(crate) fn note_founders<T>(&self, answer: &Result<T, Fault>) {
        self.memory.lock().untold = answer.as_ref().err().cloned().map(Untold::Failed);
    }

    /// Why it has not told its founders. `None`: it was not asked for them, or told them.
    pub(crate) fn untold(&self) -> Option<Untold> {
        self.memory.lock().untold.clone()
    }

    /// Was its clock compared with those of the others?
    pub(crate) fn is_compared(&self) -> bool {
        self.memory.lock().is_compared
    }

    /// Notes that its clock was compared. `false`: another caller was faster.
    pub(crate) fn note_compared(&self, suspicion: Option<MemorySince>) -> bool {
        let mut memory = self.memory.lock();
        let is_first = !std::mem::replace(&mut memory.is_compared, true);
        if is_first {
            memory.suspicion = suspicion;
        }
        is_first
    }

    /// Was this gap not reported yet? It counts as reported from here on.
    pub(crate) fn take_news(&self, memory_since: &MemorySince) -> bool {
        self.memory.lock().reported.replace(memory_since.since) != Some(memory_since.since)
    }

    /// Is the list of founders to be written on this process, so that it lives until it `ends`? It
    /// counts as written from here on, until it is due again. This is earlier if the process is
    /// doubted meanwhile: what it remembers begins later then (`since`). A clock may jump with
    /// every answer; so the list is not written twice within a second for that. It is due at once
    /// if it ends before the leases that begin now (`leases_end`).
    pub(crate) fn begin_writing_founders(
        &self,
        run_id: &Arc<str>,
        since: Option<Moment>,
        now: Moment,
        pause: Duration,
        leases_end: Moment,
        ends: Moment,
    ) -> bool {
        let written = &mut self.memory.lock().written;
        let stands = written.as_ref().is_some_and(|written| {
            written.run_id == *run_id
                && (since <= written.since || now < written.at.plus(founders::WATCH_AT_LEAST))
                && now < written.until
                && leases_end <= written.ends
        });
        if !stands {
            let run_id = Arc::clone(run_id);
            *written = Some(Written { run_id, at: now, since, until: now.plus(pause), ends });
        }
        !stands
    }

    /// The list was not written. It is due again at `next`.
    pub(crate) fn lacks_founders(&self, next: Moment) {
        if let Some(written) = &mut self.memory.lock().written {
            written.until = written.until.min(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::FaultyNode;

    fn at(seconds: u64) -> Moment {
        Moment::from_nanos(seconds * 1_000_000_000)
    }

    fn memory_since(run_id: &str, seconds: u64, cause: Cause) -> MemorySince {
        MemorySince::new(run_id.into(), at(seconds), cause)
    }

    /// A node, and the member that leads to it, of which the client knows this.
    fn met(known: MemorySince) -> (Arc<FaultyNode>, Arc<Member>) {
        let node = FaultyNode::new("n");
        node.state().memory_since = Some(known);
        (Arc::clone(&node), Member::new(0, node))
    }

    fn since(member: &Member) -> Moment {
        member.memory_since().unwrap().since
    }

    #[test]
    fn the_earliest_date_of_the_process_that_was_met_counts() {
        let (_node, member) = met(memory_since("a", 100, Cause::Started));
        for (run_id, date, expected) in [
            ("b", 10, 100),
            // It is later than what the client has seen itself.
            ("a", 110, 100),
            ("a", 50, 50),
            ("a", 70, 50),
        ] {
            member.note_met(run_id.into(), at(date));
            assert_eq!(since(&member), at(expected), "{run_id} {date}");
        }
    }

    /// The process may have answered elsewhere meanwhile, or its clock has jumped since then.
    #[test]
    fn a_client_that_has_seen_more_than_one_process_or_a_jump_believes_no_dates() {
        for cause in [Cause::Restarted, Cause::Replaced, Cause::ClockJumped(60_000)] {
            let (_node, member) = met(memory_since("a", 100, cause));
            member.note_met("a".into(), at(50));
            assert_eq!(since(&member), at(100), "{cause:?}");
        }
    }

    #[test]
    fn what_the_first_comparison_has_shown_stays_until_the_process_ends() {
        let (node, member) = met(memory_since("a", 100, Cause::Started));
        let differs = memory_since("a", 100, Cause::Started);
        assert!(member.note_compared(Some(differs.doubted(at(120), Cause::ClockDiffers(60_000)))));
        assert!(!member.note_compared(None), "another caller was faster");
        assert_eq!(since(&member), at(120));
        node.state().memory_since = Some(memory_since("b", 200, Cause::Restarted));
        assert_eq!(since(&member), at(200));
    }

    #[test]
    fn a_gap_is_news_once() {
        let (_node, member) = met(memory_since("a", 100, Cause::Started));
        let is_news = |seconds| member.take_news(&memory_since("a", seconds, Cause::Restarted));
        assert_eq!([100, 100, 200, 200].map(is_news), [true, false, true, false]);
    }

    #[test]
    fn a_list_stands_until_it_is_due_or_says_too_much() {
        let (_node, member) = met(memory_since("a", 100, Cause::Started));
        // The list lives for 1000 s longer than the lease.
        let takes = |run_id: &str, since, now, lease| {
            let (pause, leases_end) = (Duration::from_secs(100), at(now + lease));
            let ends = at(now + lease + 1000);
            let since = Some(at(since));
            member.begin_writing_founders(&run_id.into(), since, at(now), pause, leases_end, ends)
        };
        assert!(takes("a", 5, 200, 0));
        assert!(!takes("a", 5, 202, 0) && !takes("a", 4, 202, 0));
        // The process was doubted; but not twice within a second.
        assert!(takes("a", 6, 202, 0) && !takes("a", 7, 202, 0) && takes("a", 7, 203, 0));
        // It is due.
        assert!(!takes("a", 7, 302, 0) && takes("a", 7, 303, 0));
        assert!(takes("b", 7, 304, 0), "another process");
        // It would end before a lease.
        assert!(!takes("b", 7, 305, 999) && takes("b", 7, 306, 999));
        assert!(!takes("b", 7, 307, 1998) && takes("b", 7, 308, 1998));
        // It was not written, and is not due later for that.
        member.lacks_founders(at(310));
        assert!(!takes("b", 7, 309, 0) && takes("b", 7, 310, 0));
        member.lacks_founders(at(900));
        assert!(!takes("b", 7, 409, 0) && takes("b", 7, 410, 0));
    }
}
