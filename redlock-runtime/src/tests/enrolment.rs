//! How a client learns the founders of its group: whose lists count, and which lists it leaves.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::fake::{Fake, Fate, SECOND};
use super::quorum::with_guard;
use super::restart_guard::{DOWN, EXPIRE, client, group, now, started, touch};
use crate::backend::{Cause, Fault, Member, MemorySince, NodeAdmission, RestartGuard, majority};
use crate::clock::Clock;
use crate::error::{NodeError, NodeErrorKind};
use crate::health::NodeHealth;

pub(super) const MILLI: Duration = Duration::from_millis(1);
const ALL: &str = "run0 run1 run2";
const MINUTE: i64 = 60_000_000;

/// A client that has made no call yet.
pub(super) struct Newcomer {
    pub(super) guard: Arc<RestartGuard>,
    pub(super) members: Vec<Arc<Member>>,
}

impl Newcomer {
    pub(super) fn new(nodes: &[Arc<Fake>]) -> Arc<Self> {
        let member =
            |(number, node): (usize, &Arc<Fake>)| Member::new(number, Arc::clone(node) as _);
        Arc::new(Self { guard: guard(), members: nodes.iter().enumerate().map(member).collect() })
    }

    pub(super) async fn enroll(&self) -> Result<(), Fault> {
        self.guard.enroll(&self.members, majority(self.members.len()), SECOND).await
    }

    /// Enrolls while `meanwhile` happens, after the lists were read and before one is written.
    pub(super) async fn enroll_while(
        self: &Arc<Self>,
        slow: &Fake,
        meanwhile: impl FnOnce(),
    ) -> bool {
        slow.always(Some(Fate::Slow(10 * MILLI)));
        let enrolling = tokio::spawn({
            let newcomer = Arc::clone(self);
            async move { newcomer.enroll().await.is_ok() }
        });
        tokio::time::sleep(5 * MILLI).await;
        meanwhile();
        enrolling.await.unwrap()
    }

    /// Which nodes have a vote.
    pub(super) fn votes(&self) -> Vec<bool> {
        self.members.iter().map(|member| self.guard.objection(member).is_none()).collect()
    }
}

fn guard() -> Arc<RestartGuard> {
    RestartGuard::new(Clock::Tokio, "founders".into(), EXPIRE, EXPIRE)
}

/// The list of founders on a node, as other clients have left it.
fn leave(node: &Fake, list: &str) {
    node.state().founders = Some(list.to_owned());
}

/// Nodes of which one was restarted, and was met by others before.
async fn group_with_restarted(found: &str) -> Vec<Arc<Fake>> {
    let nodes = group(3).await;
    for node in &nodes {
        leave(node, ALL);
    }
    leave(&nodes[1], found);
    started(&nodes[1], "run1b", 5 * SECOND);
    nodes
}

/// Its list would be the only one, to a client that comes while the others are out of reach, and
/// would make a founder of a server that was restarted.
#[tokio::test(start_paused = true)]
async fn a_client_that_hears_no_quorum_leaves_no_list() {
    let nodes = group(3).await;
    nodes[1].always(Some(DOWN));
    nodes[2].always(Some(DOWN));
    assert!(Newcomer::new(&nodes).enroll().await.is_err());
    assert_eq!(nodes[0].founders(), None);
}

/// Otherwise another quorum would look new, to a client that does not reach the one with the list.
#[tokio::test(start_paused = true)]
async fn the_founders_count_once_a_quorum_has_their_list() {
    for (fate, is_enough) in [(DOWN, false), (Fate::Slow(SECOND / 2), true)] {
        let nodes = group(3).await;
        let newcomer = Newcomer::new(&nodes);
        let is_enrolled = newcomer.enroll_while(&nodes[2], || {
            nodes[1].always(Some(fate));
            nodes[2].always(Some(fate));
        });
        assert_eq!(is_enrolled.await, is_enough, "{fate:?}");
    }
}

/// It was there with the first servers. Two clients must not trust different ones.
#[tokio::test(start_paused = true)]
async fn the_list_of_a_client_that_was_faster_counts_and_stays() {
    for cause in [Cause::Started, Cause::Restarted] {
        let nodes = group(3).await;
        nodes[1].recalls(MemorySince::new("run1".into(), now(), cause));
        let newcomer = Newcomer::new(&nodes);
        let faster = "run0";
        assert!(newcomer.enroll_while(&nodes[0], || leave(&nodes[1], faster)).await);
        assert_eq!(newcomer.votes(), [true, false, false], "{cause:?}");
        assert_eq!(nodes[1].founders().as_deref(), Some(faster));
    }
}

/// The next client may come when only this node and a restarted one can be reached.
#[tokio::test(start_paused = true)]
async fn a_node_that_has_not_got_the_list_gets_it_with_its_next_answer() {
    let nodes = group(3).await;
    nodes[2].always(Some(DOWN));
    let redlock = client(&nodes);
    touch(&redlock).await;
    nodes[2].always(None);
    for _ in 0..2 {
        tokio::time::sleep(SECOND).await;
        touch(&redlock).await;
    }
    assert_eq!(nodes[2].founders().as_deref(), Some(ALL));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_down_a_moment_ago_is_offered_the_list() {
    let nodes = group(3).await;
    let newcomer = Newcomer::new(&nodes);
    let refused = NodeError::new("c", NodeErrorKind::Unreachable, "refused");
    newcomer.members[2].note::<()>(&Err(Fault::known(vec![refused])));
    assert!(newcomer.enroll().await.is_ok());
    tokio::time::sleep(MILLI).await;
    assert_eq!(nodes[2].founders().as_deref(), Some(ALL));
}

/// They have told that they have no list. Asked once more, in the shorter time for a node that has
/// not answered, they would count as down.
#[tokio::test(start_paused = true)]
async fn nodes_that_have_answered_are_not_asked_again_for_one_that_has_not() {
    let nodes = group(5).await;
    nodes[3].always(Some(Fate::Slow(SECOND * 3 / 10)));
    nodes[4].always(Some(Fate::LostRequest));
    let newcomer = Newcomer::new(&nodes);
    assert!(newcomer.enroll().await.is_ok());
    assert!(matches!(newcomer.members[3].admit(), NodeAdmission::Ask));
}

/// The other nodes came back empty, or were out of reach when the group began.
#[tokio::test(start_paused = true)]
async fn one_that_fails_does_not_end_the_wait_for_a_node_with_the_only_list() {
    let nodes = group(5).await;
    let newcomer = Newcomer::new(&nodes);
    let refused = NodeError::new("n", NodeErrorKind::Unreachable, "refused");
    for member in &newcomer.members[3..] {
        member.note::<()>(&Err(Fault::known(vec![refused.clone()])));
    }
    nodes[3].always(Some(DOWN));
    nodes[4].always(Some(Fate::Slow(20 * MILLI)));
    leave(&nodes[4], "run3 run4");
    assert!(newcomer.enroll().await.is_ok());
    assert_eq!(newcomer.votes(), [false, false, false, true, true]);
}

/// What the first call of a client waits for, of its reply timeout of a second.
#[tokio::test(start_paused = true)]
async fn a_newcomer_waits_for_silent_nodes_as_long_as_there_is_time_to_write() {
    let (third, silent) = (SECOND / 3, Some(Fate::LostRequest));
    let slow = Some(Fate::Slow(10 * MILLI));
    for (list, fates, is_enough, took) in [
        // A list that is missing on all of them is no reason to ask again.
        (false, [slow; 3], true, 20 * MILLI),
        // One that was waited for is not waited for again.
        (true, [None, None, silent], true, third),
        // The silent one may have the only list.
        (false, [None, None, silent], true, third + SECOND / 5),
        // There cannot be enough.
        (true, [Some(DOWN), Some(DOWN), silent], false, Duration::ZERO),
    ] {
        let nodes = group(3).await;
        for (node, fate) in nodes.iter().zip(fates) {
            node.always(fate);
            node.state().founders = list.then(|| ALL.to_owned());
        }
        let begun = Instant::now();
        assert_eq!(Newcomer::new(&nodes).enroll().await.is_ok(), is_enough, "{fates:?}");
        let elapsed = begun.elapsed();
        // The timer counts in whole milliseconds.
        assert!(elapsed.abs_diff(took) < 5 * MILLI, "{list} {fates:?}: {elapsed:?}");
    }
}

/// One of the others can be read and not written, say.
#[tokio::test(start_paused = true)]
async fn a_node_that_was_silent_once_is_waited_for_where_the_others_are_too_few() {
    let nodes = group(3).await;
    for node in &nodes {
        leave(node, ALL);
    }
    nodes[2].always(Some(Fate::Slow(SECOND * 2 / 5)));
    let newcomer = Newcomer::new(&nodes);
    let enrolling = tokio::spawn({
        let newcomer = Arc::clone(&newcomer);
        async move { newcomer.enroll().await }
    });
    tokio::time::sleep(SECOND / 10).await;
    nodes[1].always(Some(DOWN));
    assert_eq!(enrolling.await.unwrap(), Ok(()));
    assert!(matches!(newcomer.members[2].admit(), NodeAdmission::Ask));
}

/// A client that ends with its first call has left its note by then. Lists of founders stay.
#[tokio::test(start_paused = true)]
async fn a_newcomer_notes_on_a_restarted_node_what_it_has_seen() {
    let nodes = group_with_restarted(ALL).await;
    let with_old_note = format!("{ALL} run0b=9000");
    leave(&nodes[0], &with_old_note);
    assert!(Newcomer::new(&nodes).enroll().await.is_ok());
    let found = nodes[1].founders().unwrap();
    assert!(found.starts_with(&format!("{ALL} run1b=5000 run1b=@client:")), "{found}");
    assert_eq!(nodes[0].founders(), Some(with_old_note));
}

/// The next client would believe the longer time.
#[tokio::test(start_paused = true)]
async fn a_newcomer_notes_no_time_from_before_a_clock_was_found_to_differ() {
    let nodes = group_with_restarted(&format!("{ALL} run1b=5000")).await;
    nodes[1].clock_offset(MINUTE);
    assert!(Newcomer::new(&nodes).enroll().await.is_ok());
    let found = nodes[1].founders().unwrap();
    assert!(found.contains(" run1b=0 "), "{found}");
}

/// A minute ago others met a process that a newcomer meets now.
pub(super) async fn group_with_dates() -> Vec<Arc<Fake>> {
    let nodes = group_with_restarted(ALL).await;
    touch(&client(&nodes)).await;
    tokio::time::sleep(60 * SECOND).await;
    started(&nodes[1], "run1b", Duration::ZERO);
    nodes
}

#[tokio::test(start_paused = true)]
async fn a_check_of_the_health_before_any_call_believes_the_dates_of_others() {
    let nodes = group_with_dates().await;
    let health = with_guard(&nodes, Some(guard())).health().await;
    assert!(health.nodes().iter().all(NodeHealth::is_usable), "{health}");
    // Dates of another process say nothing.
    started(&nodes[1], "run1c", Duration::ZERO);
    let health = with_guard(&nodes, Some(guard())).health().await;
    assert!(!health.nodes()[1].is_usable(), "{health}");
}

/// The node did not answer when the lists were read.
#[tokio::test(start_paused = true)]
async fn dates_are_believed_that_come_with_the_answer_to_the_list() {
    let nodes = group_with_dates().await;
    nodes[1].always(Some(Fate::LostRequest));
    let newcomer = Newcomer::new(&nodes);
    assert!(newcomer.enroll_while(&nodes[0], || nodes[1].always(None)).await);
    assert_eq!(newcomer.votes(), [true; 3]);
}
