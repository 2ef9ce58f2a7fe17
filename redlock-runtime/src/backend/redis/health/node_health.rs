//! Whether a node answers, and what operators read about it: one log line when it stops, some while
//! that lasts, and one when it is back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use tokio::sync::Notify;

use super::info::field;
use super::kept_data::KeptData;
use crate::backend::Cause;
use crate::backend::redis::clock::CLOCK;
use crate::backend::redis::commands::Failure;
use crate::clock::Moment;
use crate::error::{NodeError, NodeErrorKind};
use crate::mutex::Mutex;
use crate::report::Reports;
use crate::shield::tell;
use crate::telemetry::{self, NodeGauge};

mod not_back;
#[cfg(feature = "cluster")]
mod of_many;

/// A server that is silent for this long is out. One late reply means little: a caller may block
/// the runtime on which it waits.
const SILENCE: Duration = Duration::from_secs(1);
/// An outage is over once the node has answered for this long without a failure.
const QUIET: Duration = Duration::from_secs(1);
/// The same for several servers behind one name, which are asked less often.
const QUIET_OF_MANY: Duration = Duration::from_secs(5);
/// When an outage that lasts is reported again; each time after twice as long.
const TELL_AGAIN: Duration = Duration::from_secs(60);
const LONGEST_PAUSE: Duration = Duration::from_secs(30 * 60);

/// The health of one node, as the commands of one client observe it.
#[derive(Debug)]
pub(crate) struct OutageLog {
    node: String,
    gauge: NodeGauge,
    /// The client of these commands, as its owner values begin.
    client: Arc<str>,
    reports: Arc<Reports>,
    leads_to_one: bool,
    /// There is no outage, so answers need not be examined further.
    is_calm: AtomicBool,
    state: Mutex<HealthState>,
    /// Notified at the events that [`OutageLog::news`] waits for.
    news: Notify,
}

#[derive(Debug, Default)]
struct HealthState {
    outage: Option<Outage>,
    /// Since when the node answers, except in its outage. `None`: it has not answered yet.
    answers_since: Option<Moment>,
    /// What the wall clock showed at the moment of the last `since`: it stays the same while the
    /// clock is set.
    shown: Option<(Moment, SystemTime)>,
    /// A connection broke, or leads to another process than before.
    is_suspect: bool,
    run_id: Option<String>,
}

#[derive(Debug)]
struct Outage {
    began: Moment,
    /// Since when the node answers again.
    answers: Option<Moment>,
    failed: u64,
    /// When the last failure became known.
    failed_at: Moment,
    kind: NodeErrorKind,
    error: String,
    is_reported: bool,
    /// When the outage is reported the next time, and after which pause.
    tell_again: Moment,
    pause: Duration,
}

impl OutageLog {
    pub(crate) fn new(
        node: &str,
        client: Arc<str>,
        reports: Arc<Reports>,
        leads_to_one: bool,
    ) -> Self {
        let (gauge, state, news) = (NodeGauge::new(node), Mutex::default(), Notify::new());
        let is_calm = AtomicBool::new(false);
        Self { node: node.to_owned(), gauge, client, reports, leads_to_one, is_calm, state, news }
    }

    pub(crate) fn node(&self) -> &str {
        &self.node
    }

    /// A command was answered. Of several servers, another one may be out.
    pub(crate) fn heard(&self) {
        if self.is_calm.load(Ordering::Relaxed) {
            return;
        }
        self.learn_answer(|_| self.leads_to_one);
    }

    fn learn_answer(&self, speaks_of_all: impl FnOnce(&Outage) -> bool) {
        let mut state = self.state.lock();
        if let Some(outage) = &mut state.outage {
            if outage.answers.is_none() && speaks_of_all(outage) {
                outage.answers = Some(CLOCK.now());
            }
            return;
        }
        state.answers_since.get_or_insert_with(|| CLOCK.now());
        self.is_calm.store(true, Ordering::Relaxed);
        // Under the mutex, as all changes of the gauge: none overtakes another one.
        self.gauge.note_answers();
    }

    /// A connection broke that had worked before, or leads to another process.
    pub(crate) fn broke(&self) {
        self.state.lock().is_suspect = true;
        self.news.notify_one();
    }

    /// A command that began at `began` failed. An outage that lasts becomes a part of the error.
    pub(crate) fn failed(&self, mut failure: Failure, began: Moment) -> Failure {
        if !failure.error.is_outage() {
            self.answered_with(&failure.error);
            return failure;
        }
        // If the node has answered for long enough since, it is another outage.
        self.end_if_over();
        let now = CLOCK.now();
        let lasts = {
            let mut state = self.state.lock();
            self.is_calm.store(false, Ordering::Relaxed);
            state.is_suspect = true;
            let outage = state.outage.get_or_insert_with(|| Outage::new(began));
            outage.answers = None;
            outage.failed += 1;
            outage.failed_at = now;
            (outage.kind, outage.error) = (failure.error.kind(), failure.error.to_string());
            outage.is_reported.then(|| now.since(outage.began))
        };
        self.news.notify_one();
        if let Some(lasts) = lasts.filter(|lasts| *lasts >= SILENCE) {
            failure.error.add(&format!(", for {} now", seconds(lasts)));
        }
        failure
    }

    /// The background thread, which no caller blocks, got no answer either: reports that the outage
    /// began.
    pub(crate) fn confirm(&self) {
        let now = CLOCK.now();
        let (what, error) = {
            let mut state = self.state.lock();
            let Some(outage) = state.outage.as_mut().filter(|outage| outage.answers.is_none())
            else {
                return;
            };
            let is_late = outage.kind == NodeErrorKind::NoReply;
            if is_late && now.since(outage.began) < SILENCE || !outage.becomes_known(now) {
                return;
            }
            // Under the mutex: the end of an outage must not be counted before its beginning.
            self.gauge.note_out();
            (word(outage.kind), outage.error.clone())
        };
        let (node, client) = (&self.node, &self.client);
        if self.leads_to_one {
            tell!(
                warn,
                node,
                %client,
                error,
                "{what}: until it is back, it grants, renews and releases no lock"
            );
        } else {
            tell!(
                warn,
                node,
                %client,
                error,
                "{what}: all of it, or a part; until that is back, it grants, renews and releases \
                 no lock"
            );
        }
    }

    /// The node did not answer when the client was built. The caller gets that as an error.
    pub(crate) fn failed_at_startup(&self, error: &NodeError) {
        if error.is_outage() {
            let now = CLOCK.now();
            let mut state = self.state.lock();
            let outage = state.outage.get_or_insert_with(|| Outage::new(now));
            if outage.becomes_known(now) {
                self.gauge.note_out();
            }
            drop(state);
            self.news.notify_one();
        }
    }

    /// Waits for an outage to begin, or for a call of [`broke`](Self::broke).
    pub(crate) async fn news(&self) {
        self.news.notified().await;
    }

    pub(crate) fn is_out(&self) -> bool {
        self.state.lock().outage.is_some()
    }

    /// Is the node out, and not answering again yet?
    pub(crate) fn is_silent(&self) -> bool {
        self.state.lock().outage.as_ref().is_some_and(|outage| outage.answers.is_none())
    }

    /// Since when the node answers, or does not.
    pub(crate) fn since(&self) -> SystemTime {
        let mut state = self.state.lock();
        let of_outage = state.outage.as_ref().map(|outage| outage.answers.unwrap_or(outage.began));
        let since = of_outage.or(state.answers_since).unwrap_or_else(|| CLOCK.now());
        let known = state.shown.filter(|(known, _)| *known == since);
        let shown = known.unwrap_or_else(|| (since, CLOCK.wall_time(since)));
        state.shown = Some(shown);
        shown.1
    }

    /// Shows an outage that lasts, and reports it when that is due.
    pub(crate) fn report_lasting(&self) {
        let now = CLOCK.now();
        let due = {
            let mut state = self.state.lock();
            let Some(outage) = &mut state.outage else { return };
            if outage.answers.is_some() || !outage.is_reported {
                return;
            }
            // Another client may have shown something else at the moment in which it began.
            self.gauge.note_out();
            outage
                .take_due_report(now)
                .then(|| (word(outage.kind), outage.error.clone(), now.since(outage.began)))
        };
        let Some((what, error, lasts)) = due else { return };
        let (node, client) = (&self.node, &self.client);
        tell!(warn, node, %client, error, "{what} for {} now", seconds(lasts));
    }

    /// Has the node answered for long enough?
    pub(crate) fn answers_again(&self) -> bool {
        self.state.lock().outage.as_ref().is_some_and(|outage| outage.is_over(self.quiet()))
    }

    /// Ends the outage, and reports that, if the node has answered for long enough.
    pub(crate) fn end_if_over(&self) {
        let outage = {
            let mut state = self.state.lock();
            let quiet = self.quiet();
            let Some(outage) = state.outage.take_if(|outage| outage.is_over(quiet)) else { return };
            state.answers_since = outage.answers;
            self.is_calm.store(true, Ordering::Relaxed);
            self.gauge.note_answers();
            if !outage.is_reported {
                return;
            }
            outage
        };
        // Leases that were lost meanwhile are reported before the end.
        self.reports.flush();
        let lasted = outage.answers.unwrap_or(outage.began).since(outage.began);
        let (node, client, failed) = (&self.node, &self.client, outage.failed);
        tell!(info, node, %client, failed, "back after {}", seconds(lasted));
    }

    /// May another process answer than at the last call of this function?
    pub(crate) fn take_suspicion(&self) -> bool {
        std::mem::take(&mut self.state.lock().is_suspect)
    }

    /// Is it known which process answered before?
    pub(crate) fn knows_server(&self) -> bool {
        self.state.lock().run_id.is_some()
    }

    /// If it is not known which process answered before, it was this one.
    pub(crate) fn assume(&self, run_id: &str) {
        self.state.lock().run_id.get_or_insert_with(|| run_id.to_owned());
    }

    /// Learns from INFO which process answers, and reports if it is another one than before. Not
    /// for servers that a restart guard watches: `ServerIdentity` counts their restarts.
    pub(crate) fn meet(&self, info: &str) {
        let Some(run_id) = field(info, "run_id").filter(|run_id| !run_id.is_empty()) else {
            return;
        };
        let known = self.state.lock().run_id.replace(run_id.to_owned());
        if known.is_none_or(|known| known == run_id) {
            return;
        }
        let kept = KeptData::of(info);
        if kept != KeptData::Log {
            telemetry::node_doubted(&self.node, Cause::Restarted.label());
        }
        let (node, client) = (&self.node, &self.client);
        match kept {
            KeptData::Nothing => tell!(
                warn,
                node,
                %client,
                "restarted without its data, or replaced: leases that were granted before are \
                 gone, and others may be granted the same locks; see `restart_guard`"
            ),
            KeptData::Part => tell!(
                warn,
                node,
                %client,
                "restarted, or replaced: leases may be gone that it had not saved, or that had not \
                 reached it as a replica; see `restart_guard`"
            ),
            KeptData::Log => tell!(info, node, %client, "restarted with the data of its log"),
        }
    }

    /// The process that was met last, by its INFO.
    pub(crate) fn run_id(&self) -> Option<Arc<str>> {
        self.state.lock().run_id.as_deref().map(Arc::from)
    }

    fn quiet(&self) -> Duration {
        if self.leads_to_one { QUIET } else { QUIET_OF_MANY }
    }
}

impl Outage {
    fn new(began: Moment) -> Self {
        Self {
            began,
            answers: None,
            failed: 0,
            failed_at: began,
            kind: NodeErrorKind::Unreachable,
            error: String::new(),
            is_reported: false,
            tell_again: Moment::NEVER,
            pause: TELL_AGAIN,
        }
    }

    /// Marks the outage as reported. `false`: it was before.
    fn becomes_known(&mut self, now: Moment) -> bool {
        if !self.is_reported {
            self.tell_again = now.plus(self.pause);
        }
        !std::mem::replace(&mut self.is_reported, true)
    }

    /// Sets the next time of a report, if one is due now. `false`: none is.
    fn take_due_report(&mut self, now: Moment) -> bool {
        if now < self.tell_again {
            return false;
        }
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        self.tell_again = now.plus(self.pause);
        true
    }

    fn is_over(&self, quiet: Duration) -> bool {
        self.answers.is_some_and(|answers| CLOCK.now().since(answers) >= quiet)
    }
}

fn word(kind: NodeErrorKind) -> &'static str {
    match kind {
        NodeErrorKind::Unreachable | NodeErrorKind::NoReply => "unreachable",
        _ => "unusable",
    }
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests;
