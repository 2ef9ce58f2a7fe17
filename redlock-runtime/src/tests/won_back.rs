//! Nodes that are won back behind an acquire whose clean-up nobody can answer for: its connection
//! has ended, and it may arrive at any later time.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::fake::{Fake, Fate, SECOND};
use super::quorum::{DOWN, held, later, nodes, on, quorum};
use super::restart_guard::{self, group, started};
use crate::backend::{Acquired, Claim, FencingTokens, Found, LockBackend, Quorum, Release};
use crate::client::Redlock;
use crate::guard::LockGuard;
use crate::key::LockKey;
use crate::kind::Kind;
use crate::owner::{Owner, hold_of};
use crate::state::{LeaseState, Released};

const EXPIRE: Duration = Duration::from_secs(10);

/// Three nodes, the last of which did not answer the acquire of the lock, though it answers now.
async fn with_one_in_doubt(fate: Fate) -> (Vec<Arc<Fake>>, Redlock, LockGuard) {
    let nodes = nodes(3);
    let redlock = on(&nodes);
    let guard = acquired_in_doubt(&nodes[2], &redlock, fate).await;
    (nodes, redlock, guard)
}

/// This node does not answer the acquire.
async fn acquired_in_doubt(node: &Fake, redlock: &Redlock, fate: Fate) -> LockGuard {
    node.loses_clean_ups();
    node.next_acquires([fate]);
    let guard = redlock.lock("k").expire(EXPIRE).acquire().await.unwrap();
    tokio::time::sleep(SECOND).await;
    redlock.lock("other").acquire().await.unwrap().release().await.unwrap();
    guard
}

pub(super) fn claim_of(owner: Owner) -> Claim {
    let key = LockKey::new("", "k").unwrap();
    Claim { key, owner, expire: EXPIRE, kind: Kind::Exclusive }
}

/// What may still arrive for the owner: the acquire that was not answered, and its clean-up.
async fn late_commands_arrive(node: &Fake, guard: &LockGuard) {
    let claim = claim_of(Owner::called(guard.owner()));
    let _ = node.acquire(&claim, SECOND).await;
    node.release(Release::of(&claim), SECOND).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_clean_up_is_never_answered_counts_in_a_later_renewal() {
    for fate in [Fate::LostRequest, Fate::LostReply] {
        let (nodes, _redlock, guard) = with_one_in_doubt(fate).await;
        tokio::time::sleep(EXPIRE).await;
        let owner = nodes[2].store.owner("k").expect("it is won back");
        assert_ne!(owner, guard.owner());
        assert_eq!(hold_of(&owner), hold_of(guard.owner()));
        late_commands_arrive(&nodes[2], &guard).await;
        assert_eq!(nodes[2].store.owner("k"), Some(owner), "they concern nobody");
        nodes[1].always(Some(DOWN));
        tokio::time::sleep(3 * EXPIRE).await;
        assert_eq!(guard.state(), LeaseState::Held, "{fate:?}");
        nodes[1].always(None);
        assert_eq!(guard.release().await, Ok(Released::Released));
        later().await;
        assert_eq!(held(&nodes, "k"), 0);
    }
}

/// What stands there is the vote of the other address.
#[tokio::test(start_paused = true)]
async fn an_address_that_leads_to_another_server_of_the_group_is_not_won_back() {
    for moved in [4, 0] {
        let nodes = group(5).await;
        let redlock = restart_guard::client(&nodes);
        let guard = acquired_in_doubt(&nodes[moved], &redlock, Fate::LostReply).await;
        started(&nodes[moved], "run1", SECOND);
        nodes[moved].take_log();
        tokio::time::sleep(EXPIRE).await;
        assert!(guard.renewals() > 0);
        assert_eq!(nodes[moved].store.owner("k").as_deref(), Some(guard.owner()));
        let log = nodes[moved].take_log();
        assert!(log.iter().all(|line| line.starts_with("renew ")), "{log:?}");
    }
}

/// The release of the former value is repeated, as the acquire without an answer may still arrive.
#[tokio::test(start_paused = true)]
async fn the_vote_of_another_server_outlives_an_address_that_moves_to_it_later() {
    for moved in [2, 0] {
        let nodes = group(3).await;
        let redlock = restart_guard::client(&nodes);
        let guard = acquired_in_doubt(&nodes[moved], &redlock, Fate::LostReply).await;
        while nodes[moved].store.owner("k").is_none_or(|owner| owner == guard.owner()) {
            tokio::time::sleep(SECOND / 100).await;
        }
        assert!(guard.renewals() > 0, "the node was won back");
        started(&nodes[moved], "run1", SECOND);
        nodes[moved].store.set("k", guard.owner(), EXPIRE);
        later().await;
        assert_eq!(nodes[moved].store.owner("k").as_deref(), Some(guard.owner()));
    }
}

/// An owner value of which an acquire had no answer is not used again, either.
#[tokio::test(start_paused = true)]
async fn each_acquire_without_an_answer_costs_a_name() {
    let (nodes, _redlock, guard) = with_one_in_doubt(Fate::LostRequest).await;
    nodes[2].next_acquires([Fate::LostReply, Fate::LostRequest]);
    nodes[2].take_log();
    tokio::time::sleep(4 * EXPIRE).await;
    let log = nodes[2].take_log();
    let acquires: Vec<&str> =
        log.iter().filter_map(|line| line.strip_prefix("acquire k ")).collect();
    let [first, second, third] = acquires[..] else { panic!("{acquires:?}") };
    assert!(first != second && second != third && first != third, "{acquires:?}");
    assert_eq!(nodes[2].store.owner("k").as_deref(), Some(third));
    drop(guard);
    later().await;
    assert_eq!(held(&nodes, "k"), 0);
}

#[tokio::test(start_paused = true)]
async fn to_others_the_names_of_a_hold_are_one_holder() {
    let (nodes, _redlock, guard) = with_one_in_doubt(Fate::LostRequest).await;
    tokio::time::sleep(EXPIRE).await;
    nodes[0].always(Some(DOWN));
    let start = Instant::now();
    // A split vote would be asked for again for two seconds.
    assert!(on(&nodes).lock("k").try_acquire().await.unwrap().is_none());
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert_eq!(guard.state(), LeaseState::Held);
}

/// The reader has an owner of its own, and the values of the writer are let go of.
#[tokio::test(start_paused = true)]
async fn a_node_that_was_won_back_is_downgraded_with_the_others() {
    let (nodes, _redlock, guard) = with_one_in_doubt(Fate::LostRequest).await;
    tokio::time::sleep(EXPIRE).await;
    nodes[1].always(Some(DOWN));
    let reader = guard.downgrade().await.unwrap();
    nodes[1].always(None);
    let other = on(&nodes).lock("k").read().expire(EXPIRE).acquire().await.unwrap();
    assert!(reader.check().is_ok());
    drop((reader, other));
    later().await;
    assert_eq!(held(&nodes, "k"), 0);
}

/// What was not won back yet is freed as well when the late acquire arrives behind the release.
#[tokio::test(start_paused = true)]
async fn an_acquire_that_lands_behind_the_release_is_freed_under_either_name() {
    for is_won_back in [false, true] {
        let (nodes, _redlock, guard) = with_one_in_doubt(Fate::LostRequest).await;
        if is_won_back {
            tokio::time::sleep(EXPIRE).await;
        }
        let owners = [guard.owner().to_owned(), nodes[2].store.owner("k").unwrap_or_default()];
        guard.release().await.unwrap();
        for owner in owners.iter().filter(|owner| !owner.is_empty()) {
            nodes[2].store.set("k", owner, EXPIRE);
            tokio::time::sleep(2 * SECOND).await;
            assert_eq!(held(&nodes, "k"), 0, "{is_won_back}");
        }
    }
}

/// Three nodes that have a lock, the last of them under another owner value.
async fn with_another_name() -> (Vec<Arc<Fake>>, Arc<Quorum>, Claim, FencingTokens) {
    let nodes = nodes(3);
    nodes[2].next_acquires([Fate::LostRequest]);
    let quorum = quorum(&nodes, None, Duration::ZERO);
    let claim = claim_of(Owner::of_nobody("test"));
    let acquired = quorum.acquire(&claim, SECOND).await.unwrap();
    let Acquired::Granted { fencing_tokens, .. } = acquired else { panic!("{acquired:?}") };
    let claims = [claim.clone()];
    for _ in 0..3 {
        tokio::time::sleep(SECOND).await;
        assert_eq!(quorum.renew(&claims, SECOND).await.unwrap(), [Some(Found::Ours)]);
    }
    assert_ne!(nodes[2].store.owner("k").as_deref(), Some(claim.owner.as_str()));
    (nodes, quorum, claim, fencing_tokens)
}

#[tokio::test(start_paused = true)]
async fn a_release_that_is_repeated_knows_the_names() {
    let (nodes, quorum, claim, _) = with_another_name().await;
    for node in &nodes {
        node.always(Some(DOWN));
    }
    assert!(quorum.release(Release::of(&claim), SECOND).await.is_err());
    for node in &nodes[1..] {
        node.always(None);
    }
    let found = quorum.release(Release::of(&claim), SECOND).await;
    assert_eq!((found, held(&nodes[1..], "k")), (Ok(Found::Ours), 0));
}

/// So the keys of one hold agree on a fencing token.
#[tokio::test(start_paused = true)]
async fn the_counter_of_a_node_that_was_won_back_is_raised() {
    let (nodes, quorum, claim, fencing_tokens) = with_another_name().await;
    nodes[1].always(Some(DOWN));
    let raised = quorum.raise(&claim, fencing_tokens.first, SECOND).await;
    assert_eq!(raised, Ok(Found::Ours));
    assert_eq!(quorum.release(Release::of(&claim), SECOND).await, Ok(Found::Ours));
}
