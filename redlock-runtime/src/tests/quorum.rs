//! Locks on N nodes of which some fail.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::fake::{Fake, Fate, SECOND, client};
use crate::backend::{LockBackend, Quorum, QuorumMember, RestartGuard, Rules, majority};
use crate::client::Redlock;
use crate::error::{LockError, NodeError, NodeErrorKind};
use crate::options::Wait;
use crate::state::{LeaseState, LostReason, Released};

const EXPIRE: Duration = Duration::from_secs(10);
pub(super) const DOWN: Fate = Fate::Refused(NodeErrorKind::Unreachable, false);
const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

pub(super) fn nodes(count: usize) -> Vec<Arc<Fake>> {
    NAMES[..count].iter().map(|name| Fake::new(name)).collect()
}

/// A client of its own on these nodes: another process.
pub(super) fn on(nodes: &[Arc<Fake>]) -> Redlock {
    with_guard(nodes, None)
}

/// A client that judges the nodes.
pub(super) fn with_guard(nodes: &[Arc<Fake>], guard: Option<Arc<RestartGuard>>) -> Redlock {
    client(quorum(nodes, guard, Duration::ZERO), 100)
}

/// A client on other nodes than fakes.
pub(super) fn over(nodes: Vec<Arc<dyn QuorumMember>>) -> Redlock {
    client(Arc::new(quorum_of(nodes, None, Duration::ZERO)), 100)
}

pub(super) fn quorum(
    nodes: &[Arc<Fake>],
    guard: Option<Arc<RestartGuard>>,
    replica_wait: Duration,
) -> Arc<Quorum> {
    let voters = nodes.iter().map(|node| Arc::clone(node) as Arc<dyn QuorumMember>).collect();
    Arc::new(quorum_of(voters, guard, replica_wait))
}

fn quorum_of(
    voters: Vec<Arc<dyn QuorumMember>>,
    guard: Option<Arc<RestartGuard>>,
    replica_wait: Duration,
) -> Quorum {
    let quorum = majority(voters.len());
    Quorum::new(voters, Rules { quorum, guard, replica_wait, reply_timeout: SECOND })
}

/// On how many nodes the key is held.
pub(super) fn held(nodes: &[Arc<Fake>], key: &str) -> usize {
    nodes.iter().filter(|node| node.store.owner(key).is_some()).count()
}

fn always(nodes: &[Arc<Fake>], fate: Option<Fate>) {
    for node in nodes {
        node.always(fate);
    }
}

fn forget(nodes: &[Arc<Fake>], key: &str) {
    for node in nodes {
        node.store.remove(key);
    }
}

/// Lets background work come to its end.
pub(super) async fn later() {
    tokio::time::sleep(5 * SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn a_lock_stands_on_all_nodes_and_leaves_all_of_them() {
    let nodes = nodes(5);
    let redlock = on(&nodes);
    let guard = redlock.lock("k").acquire().await.unwrap();
    later().await;
    assert_eq!(held(&nodes, "k"), 5);
    assert!(on(&nodes).lock("k").try_acquire().await.unwrap().is_none());
    assert_eq!(guard.release().await.unwrap(), Released::Released);
    later().await;
    assert_eq!(held(&nodes, "k"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_minority_that_does_not_answer_costs_its_timeout_once() {
    let nodes = nodes(5);
    nodes[0].always(Some(Fate::LostRequest));
    nodes[3].always(Some(Fate::LostRequest));
    let redlock = on(&nodes);
    let start = Instant::now();
    // Three answer at once: their votes decide, nobody is waited for.
    let guard = redlock.lock("k").expire(EXPIRE).acquire().await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
    tokio::time::sleep(3 * EXPIRE).await;
    assert!(guard.check().is_ok());
    let start = Instant::now();
    assert_eq!(guard.release().await.unwrap(), Released::Released);
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn without_a_quorum_the_failure_names_every_node_and_keeps_to_the_wait() {
    let nodes = nodes(5);
    nodes[0].always(Some(Fate::LostRequest));
    nodes[1].always(Some(DOWN));
    nodes[2].always(Some(DOWN));
    let redlock = on(&nodes);
    let start = Instant::now();
    let error = redlock.lock("k").wait(2 * SECOND).acquire().await.unwrap_err();
    let LockError::Unavailable { nodes: failed, .. } = error else { panic!("{error}") };
    let names: Vec<&str> = failed.iter().map(NodeError::node).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert!(start.elapsed() <= 2 * SECOND + SECOND / 2, "{:?}", start.elapsed());
    later().await;
    assert_eq!(held(&nodes, "k"), 0);
}

#[tokio::test(start_paused = true)]
async fn nodes_that_come_back_vote_again() {
    let nodes = nodes(3);
    nodes[0].always(Some(DOWN));
    let redlock = on(&nodes);
    let guard = redlock.lock("k").expire(EXPIRE).acquire().await.unwrap();
    assert_eq!(held(&nodes, "k"), 2);
    nodes[0].always(None);
    // The next renewal wins the node back, the one after it counts it.
    tokio::time::sleep(2 * EXPIRE).await;
    assert_eq!(held(&nodes, "k"), 3);
    nodes[1].always(Some(DOWN));
    tokio::time::sleep(3 * EXPIRE).await;
    assert_eq!(guard.state(), LeaseState::Held);

    // All were down, all are back: the next call works, without a new client.
    always(&nodes, Some(DOWN));
    assert!(redlock.lock("other").wait(Wait::Never).acquire().await.is_err());
    always(&nodes, None);
    assert!(redlock.lock("other").wait(Wait::Never).acquire().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_lost_when_a_quorum_of_all_nodes_cannot_confirm_it() {
    let nodes = nodes(5);
    let redlock = on(&nodes);
    // Two nodes lost their data: still a quorum, and they are won back.
    let guard = redlock.lock("k").expire(EXPIRE).acquire().await.unwrap();
    forget(&nodes[..2], "k");
    tokio::time::sleep(EXPIRE).await;
    assert!(guard.check().is_ok());
    assert_eq!(held(&nodes, "k"), 5);
    // Three: no quorum any more, known at the next renewal.
    forget(&nodes[..3], "k");
    assert_eq!(guard.lost().await, LostReason::Expired);
    drop(guard);
    // Three do not answer: doubt, then the end before the lease could be over.
    let guard = redlock.lock("k").expire(EXPIRE).acquire().await.unwrap();
    let start = Instant::now();
    always(&nodes[2..], Some(Fate::LostRequest));
    assert_eq!(guard.lost().await, LostReason::Unreachable);
    assert!(start.elapsed() < EXPIRE);
}

/// A node that has lost the lock proves nothing while another one may still have it.
#[tokio::test(start_paused = true)]
async fn a_downgrade_is_lost_only_where_no_quorum_can_have_the_lock() {
    for (gone, silent, is_lost) in [(1, 1, false), (2, 1, true), (2, 0, true), (1, 0, false)] {
        let nodes = nodes(3);
        let guard = on(&nodes).lock("k").expire(EXPIRE).acquire().await.unwrap();
        later().await;
        forget(&nodes[..gone], "k");
        for node in &nodes[gone..gone + silent] {
            node.next_acquires([Fate::LostReply]);
        }
        match guard.downgrade().await {
            Ok(reader) => assert!(gone + silent == 1 && reader.check().is_ok()),
            Err(LockError::Lost { reason: LostReason::Expired, .. }) => assert!(is_lost),
            Err(LockError::Unavailable { nodes, .. }) => {
                assert_eq!((is_lost, nodes.len(), nodes[0].node()), (false, 1, NAMES[gone]));
            }
            Err(error) => panic!("{error}"),
        }
        later().await;
        assert_eq!(held(&nodes, "k"), 0);
    }
}

/// A sixteenth of the lease is too much for a node, unless it has to ask its replicas.
#[tokio::test(start_paused = true)]
async fn a_node_that_waits_for_its_replicas_is_given_that_time_too() {
    for (replica_wait, is_granted) in [(SECOND, true), (Duration::ZERO, false)] {
        let nodes = nodes(3);
        for node in &nodes[1..] {
            node.next_acquires([Fate::Slow(EXPIRE / 16)]);
        }
        let redlock = client(quorum(&nodes, None, replica_wait), 100);
        let request = redlock.lock("k").expire(EXPIRE).wait(Wait::Never);
        assert_eq!(request.acquire().await.is_ok(), is_granted, "{replica_wait:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_is_fit_while_a_quorum_of_it_is() {
    let nodes = nodes(5);
    let quorum = quorum(&nodes, None, Duration::ZERO);
    for down in 0..=5 {
        always(&nodes[..down], Some(DOWN));
        let verified = quorum.verify(SECOND).await.map_err(|fault| fault.nodes.len());
        assert_eq!(verified, if down <= 2 { Ok(()) } else { Err(down) });
    }
}

/// What is kept of it would pile up, attempt by attempt.
#[tokio::test(start_paused = true)]
async fn an_owner_that_got_nothing_is_forgotten() {
    // A group of one has answered when it refuses: no clean-up goes behind it.
    for count in [1, 3] {
        let nodes = nodes(count);
        let _guard = on(&nodes).lock("k").acquire().await.unwrap();
        let quorum = quorum(&nodes, None, Duration::ZERO);
        let redlock = client(Arc::clone(&quorum) as Arc<dyn LockBackend>, 100);
        assert!(redlock.lock("k").try_acquire().await.unwrap().is_none());
        later().await;
        assert_eq!(quorum.grants(), 0, "refused by {count}");
        always(&nodes, Some(DOWN));
        assert!(redlock.lock("k").try_acquire().await.is_err());
        later().await;
        assert_eq!(quorum.grants(), 0, "{count} down");
    }
}

/// A clean-up is on its way to such a node: it shows the lock now, and may lose it at any moment.
#[tokio::test(start_paused = true)]
async fn a_node_that_never_confirmed_its_grant_does_not_count_in_a_renewal() {
    let nodes = nodes(3);
    nodes[2].next_acquires([Fate::LostReply]);
    let redlock = on(&nodes);
    let guard = redlock.lock("k").expire(EXPIRE).acquire().await.unwrap();
    tokio::time::sleep(SECOND).await;
    assert_eq!(held(&nodes, "k"), 3);
    // It is up again, for all that is known.
    redlock.lock("other").acquire().await.unwrap().release().await.unwrap();
    nodes[1].always(Some(DOWN));
    tokio::time::sleep(EXPIRE).await;
    assert_eq!((guard.state(), guard.renewals()), (LeaseState::Lost, 0));
}

/// Once its clean-up has landed, it is asked again.
#[tokio::test(start_paused = true)]
async fn a_node_that_was_frozen_at_the_acquire_counts_in_a_later_renewal() {
    for fate in [Fate::LostRequest, Fate::LostReply] {
        let nodes = nodes(3);
        nodes[2].next_acquires([fate]);
        let redlock = on(&nodes);
        let guard = redlock.lock("k").expire(EXPIRE).acquire().await.unwrap();
        tokio::time::sleep(SECOND).await;
        redlock.lock("other").acquire().await.unwrap().release().await.unwrap();
        tokio::time::sleep(EXPIRE).await;
        assert_eq!(held(&nodes, "k"), 3);
        nodes[1].always(Some(DOWN));
        tokio::time::sleep(2 * EXPIRE).await;
        assert_eq!(guard.state(), LeaseState::Held);
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_is_not_won_back_for_a_holder_that_let_go_meanwhile() {
    let nodes = nodes(3);
    let redlock = on(&nodes);
    let guard = redlock.lock("k").expire(EXPIRE).acquire().await.unwrap();
    forget(&nodes[2..], "k");
    nodes[0].next_renews([Fate::Slow(SECOND / 2)]);
    tokio::time::sleep(EXPIRE * 2 / 3 + SECOND / 10).await;
    guard.release().await.unwrap();
    tokio::time::sleep(SECOND).await;
    assert_eq!(held(&nodes, "k"), 0);
}

/// The acquire was on its way when the release overtook it.
#[tokio::test(start_paused = true)]
async fn what_a_node_grants_after_its_owner_let_go_is_freed() {
    let nodes = nodes(3);
    let redlock = on(&nodes);
    let guard = redlock.lock("k").expire(EXPIRE).acquire().await.unwrap();
    forget(&nodes[2..], "k");
    nodes[2].next_acquires([Fate::Late(SECOND / 2)]);
    tokio::time::sleep(EXPIRE * 2 / 3 + SECOND / 4).await;
    guard.release().await.unwrap();
    tokio::time::sleep(SECOND).await;
    assert_eq!(held(&nodes, "k"), 0);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_failed_leaves_nothing_on_any_node() {
    for fate in [Fate::LostReply, Fate::LostRequest, DOWN] {
        let nodes = nodes(5);
        for node in &nodes[1..4] {
            node.next_acquires([fate]);
        }
        let redlock = on(&nodes);
        let error = redlock.lock("k").wait(Wait::Never).acquire().await.unwrap_err();
        assert!(matches!(error, LockError::Unavailable { .. }), "{error}");
        later().await;
        assert_eq!(held(&nodes, "k"), 0, "{fate:?}");
    }
}

/// Two nodes of three are up, and the counter of one is above this.
async fn with_one_counter_ahead() -> (Vec<Arc<Fake>>, u64) {
    let nodes = nodes(3);
    let now = on(&nodes).lock("other").acquire().await.unwrap().fencing_token();
    let ahead = u64::from(now) + 3_600_000_000;
    nodes[0].store.set_last_token(ahead);
    nodes[2].always(Some(DOWN));
    (nodes, ahead)
}

#[tokio::test(start_paused = true)]
async fn a_token_that_no_quorum_has_is_not_used() {
    // Granted by two, but the higher token does not reach the second.
    for fate in [Fate::LostRequest, DOWN, Fate::Refused(NodeErrorKind::NoPermission, true)] {
        let (nodes, _) = with_one_counter_ahead().await;
        nodes[1].next_raises([fate]);
        let request = on(&nodes).lock("k").wait(Wait::Never);
        let error = request.acquire().await.unwrap_err();
        assert!(matches!(error, LockError::Unavailable { .. }), "{error}");
        later().await;
        assert_eq!(held(&nodes, "k"), 0, "{fate:?}");
        assert!(on(&nodes).lock("k").wait(Wait::Never).acquire().await.is_ok());

        let (nodes, _) = with_one_counter_ahead().await;
        nodes[1].next_raises([fate]);
        assert!(on(&nodes).lock("k").wait(5 * SECOND).acquire().await.is_ok(), "{fate:?}");
    }
}

/// Grants by a quorum with a node whose clock is an hour ahead, then by one without it.
#[tokio::test(start_paused = true)]
async fn the_highest_token_is_written_back_to_the_quorum() {
    let (nodes, ahead) = with_one_counter_ahead().await;
    let first = on(&nodes).lock("k").acquire().await.unwrap();
    let older = first.fencing_token();
    first.release().await.unwrap();
    nodes[0].always(Some(DOWN));
    nodes[2].always(None);
    let second = on(&nodes).lock("k").acquire().await.unwrap();
    assert!(second.fencing_token() > older);
    assert!(u64::from(second.fencing_token()) > ahead);
}

#[tokio::test(start_paused = true)]
async fn tokens_grow_whichever_quorum_grants() {
    let nodes = nodes(5);
    let mut last = None;
    let mut random = fastrand::Rng::with_seed(11);
    for _ in 0..300 {
        let mut down: Vec<usize> = (0..5).collect();
        random.shuffle(&mut down);
        always(&nodes, None);
        for index in &down[..random.usize(..=2)] {
            nodes[*index].always(Some(DOWN));
        }
        let guard = on(&nodes).lock("k").acquire().await.unwrap();
        assert!(Some(guard.fencing_token()) > last);
        last = Some(guard.fencing_token());
        guard.release().await.unwrap();
        always(&nodes, None);
        // What the nodes that were down kept of it ends here.
        forget(&nodes, "k");
    }
}

/// Programs show their client with each line of their logs. Owner values are what releases compare.
#[tokio::test(start_paused = true)]
async fn a_client_is_shown_in_one_short_line_however_many_locks_it_has() {
    let redlock = with_guard(&nodes(3), None);
    let mut guards = Vec::new();
    for key in 0..100 {
        guards.push(redlock.lock(format!("k{key}")).acquire().await.unwrap());
    }
    let shown = format!("{redlock:?}");
    assert!(shown.len() < 500 && shown.contains("needed: 2"), "{shown}");
    assert!(guards.iter().all(|guard| !shown.contains(guard.owner())), "{shown}");
}
