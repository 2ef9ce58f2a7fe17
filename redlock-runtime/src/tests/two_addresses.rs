//! Two addresses of a quorum lead to one server, which has one vote.

use std::sync::Arc;
use std::time::Duration;

use super::fake::{Fake, Fate, SECOND};
use super::quorum::{nodes, on, quorum};
use super::restart_guard::{DOWN, EXPIRE, attempt, client, group, now, started, touch};
use super::won_back::claim_of;
use crate::backend::{Acquired, Cause, Found, LockBackend, Member, MemorySince, RestartGuard};
use crate::clock::Clock;
use crate::error::{LockError, NodeErrorKind};
use crate::options::Wait;
use crate::owner::Owner;

#[tokio::test(start_paused = true)]
async fn a_server_under_two_addresses_has_one_vote() {
    let nodes = group(3).await;
    let redlock = client(&nodes);
    touch(&redlock).await;
    started(&nodes[2], "run0", SECOND);
    nodes[1].always(Some(DOWN));
    let LockError::Unavailable { nodes: errors, .. } = attempt(&redlock).await.unwrap_err() else {
        panic!("one server made a quorum of three")
    };
    assert!(errors.iter().any(|error| error.kind() == NodeErrorKind::Duplicate), "{errors:?}");
    assert_eq!(nodes[2].store.owner("k"), None);
}

/// An address moves to the server of another one, which was right all along, and keeps its vote.
#[tokio::test(start_paused = true)]
async fn of_two_addresses_of_a_server_the_one_counts_that_began_with_it() {
    let nodes = group(3).await;
    let redlock = client(&nodes);
    touch(&redlock).await;
    nodes[0].recalls(MemorySince::new("run1".into(), now(), Cause::Restarted));
    assert!(attempt(&redlock).await.is_ok(), "two servers are left");
    nodes[2].always(Some(DOWN));
    assert!(redlock.lock("l").expire(EXPIRE).wait(Wait::Never).acquire().await.is_err());
}

/// The grant of one was counted before the other one turned out to be the same server.
#[tokio::test(start_paused = true)]
async fn an_address_that_is_met_late_makes_no_second_vote() {
    let nodes = group(3).await;
    nodes[2].always(Some(DOWN));
    let redlock = client(&nodes);
    touch(&redlock).await;
    nodes[0].next_acquires([Fate::Slow(Duration::from_millis(20))]);
    let attempt = tokio::spawn(async move { attempt(&redlock).await });
    tokio::time::sleep(Duration::from_millis(10)).await;
    started(&nodes[0], "run1", 100 * SECOND);
    assert!(attempt.await.unwrap().is_err());
}

/// The address moved after its grant was counted, and before the token of the other one was written
/// to it.
#[tokio::test(start_paused = true)]
async fn an_address_that_moves_meanwhile_has_no_fencing_token_of_its_own() {
    let nodes = group(3).await;
    let redlock = client(&nodes);
    touch(&redlock).await;
    nodes[1].always(Some(DOWN));
    nodes[0].store.set_last_token(1 << 52);
    nodes[2].next_raises([Fate::Slow(Duration::from_millis(20))]);
    let attempt = tokio::spawn(async move { attempt(&redlock).await });
    tokio::time::sleep(Duration::from_millis(10)).await;
    started(&nodes[2], "run0", SECOND);
    assert!(attempt.await.unwrap().is_err());
}

/// One of the connections was made before its promotion, and the other one later.
#[tokio::test]
async fn a_server_under_two_addresses_is_one_also_after_its_promotion() {
    let nodes = nodes(3);
    for (node, run_id) in nodes.iter().zip(["R", "R/history", "R2"]) {
        started(node, run_id, Duration::ZERO);
    }
    let member = |(number, node): (usize, &Arc<Fake>)| Member::new(number, Arc::clone(node) as _);
    let members: Vec<_> = nodes.iter().enumerate().map(member).collect();
    let duplicates = members.iter().map(|member| member.twin(&members).is_some());
    assert_eq!(duplicates.collect::<Vec<_>>(), [false, true, false]);
    assert!(members[2].shares("R/later", &members) && !members[2].shares("R2", &members));
}

#[tokio::test(start_paused = true)]
async fn a_server_under_two_addresses_does_not_count_twice_in_renewals() {
    let nodes = group(3).await;
    let redlock = client(&nodes);
    let guard = redlock.lock("k").expire(EXPIRE).acquire().await.unwrap();
    tokio::time::sleep(SECOND).await;
    started(&nodes[2], "run0", SECOND);
    nodes[1].always(Some(DOWN));
    tokio::time::sleep(2 * EXPIRE).await;
    assert!(guard.check().is_err());
}

/// It was not there when the client was built.
#[tokio::test(start_paused = true)]
async fn without_a_restart_guard_a_server_that_is_met_twice_has_one_vote() {
    let nodes = group(3).await;
    let redlock = on(&nodes);
    let guard = redlock.lock("held").expire(EXPIRE).acquire().await.unwrap();
    started(&nodes[2], "run0", SECOND);
    nodes[1].always(Some(DOWN));
    assert!(attempt(&redlock).await.is_err());
    tokio::time::sleep(2 * EXPIRE).await;
    assert!(guard.check().is_err());
}

/// A later owner that is granted the lock by the others would get a lower token.
#[tokio::test(start_paused = true)]
async fn a_counter_that_is_raised_by_way_of_two_addresses_is_one() {
    let nodes = group(3).await;
    let none = Duration::ZERO;
    let guard = RestartGuard::new(Clock::Tokio, "founders".into(), none, none);
    let quorum = quorum(&nodes, Some(guard), none);
    let claim = claim_of(Owner::of_nobody("test"));
    let acquired = quorum.acquire(&claim, SECOND).await.unwrap();
    let Acquired::Granted { fencing_tokens, .. } = acquired else { panic!("{acquired:?}") };
    tokio::time::sleep(SECOND).await;
    started(&nodes[2], "run0", SECOND);
    nodes[1].always(Some(DOWN));
    let fault = quorum.raise(&claim, fencing_tokens.first, SECOND).await.unwrap_err();
    assert_eq!(fault.nodes.len(), 2, "{fault:?}");
    nodes[1].always(None);
    tokio::time::sleep(SECOND).await;
    assert_eq!(quorum.raise(&claim, fencing_tokens.first, SECOND).await, Ok(Found::Ours));
}
