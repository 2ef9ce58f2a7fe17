use std::time::Duration;

use super::*;
use crate::backend::FencingTokens;
use crate::fencing::FencingToken;
use crate::key::LockKey;
use crate::kind::Kind;

fn unanswered(is_unknown: bool) -> Result<Acquired, Fault> {
    Err(Fault { nodes: Vec::new(), is_unknown, is_final: false })
}

fn granted(was_cut: bool) -> Acquired {
    let fencing_tokens = FencingTokens::one(FencingToken::new(7).unwrap());
    Acquired::Granted { fencing_tokens, was_cut }
}

fn refused(was_cut: bool) -> Acquired {
    Acquired::Refused { holder: None, free_in: None, was_cut, is_split: false }
}

/// A table of one node, that was asked.
fn asked(owner: &Owner) -> GrantTable {
    let grants = GrantTable::new(1);
    grants.begin(owner);
    grants.ask(owner, 0);
    grants
}

#[test]
fn a_node_is_not_asked_again_while_an_acquire_is_on_its_way() {
    let (owner, sent) = (Owner::of_nobody("test"), Moment::from_nanos(5));
    assert_eq!(GrantTable::new(1).ask_again(&owner, 0), None, "before its begin");
    let grants = asked(&owner);
    assert_eq!(grants.ask_again(&owner, 0), None, "no answer yet");
    grants.answered(&owner, 0, Moment::ZERO, &unanswered(false));
    assert_eq!(grants.confirmed(&owner, 0), None);
    let again = grants.ask_again(&owner, 0);
    assert_eq!(again, Some(WinBack { owner: owner.clone(), former: None }));
    grants.answered(&owner, 0, sent, &Ok(granted(true)));
    assert_eq!(grants.confirmed(&owner, 0), Some(sent));
    let left = LeftBehind { may_be_taken: true, may_land_late: true, ..LeftBehind::default() };
    assert_eq!(grants.end(&owner).on(0), left, "the first try may still land");
    assert!(!grants.answered(&owner, 0, sent, &Ok(granted(true))));
    assert_eq!(grants.confirmed(&owner, 0), None);
    assert_eq!(grants.ask_again(&owner, 0), None, "after its end");
    assert_eq!(grants.end(&owner).on(0), LeftBehind::default());
}

/// Its clean-up may arrive at any later time.
#[test]
fn behind_an_acquire_without_an_answer_a_node_is_asked_with_a_fresh_owner() {
    let owner = Owner::of_nobody("test");
    let grants = asked(&owner);
    let key = LockKey::new("", "k").unwrap();
    let (expire, kind) = (Duration::from_secs(1), Kind::Exclusive);
    let claim = Claim { key, owner: owner.clone(), expire, kind };
    let owner_there = || grants.claim_on(0, &claim).owner;
    let mut values = vec![owner.clone()];
    for answer in [unanswered(true), unanswered(true), Ok(granted(false))] {
        grants.answered(&owner, 0, Moment::ZERO, &unanswered(true));
        let WinBack { owner: fresh, former } = grants.ask_again(&owner, 0).unwrap();
        assert_eq!(former.as_ref(), values.last(), "it is let go of");
        assert!(!values.contains(&fresh) && owner_there() == fresh);
        values.push(fresh);
        grants.answered(&owner, 0, Moment::ZERO, &answer);
    }
    assert_eq!(grants.confirmed(&owner, 0), Some(Moment::ZERO));
    // The value stays as long as it is answered.
    let again = grants.ask_again(&owner, 0).unwrap();
    assert_eq!((Some(&again.owner), again.former), (values.last(), None));
    let claims = [claim.clone()];
    assert_eq!(grants.claims_on(0, &claims).unwrap()[0].owner, again.owner);
    let left = grants.end(&owner).on(0);
    assert_eq!((left.claim(&claim).owner, left.may_land_late), (again.owner, true));
    assert!(grants.claims_on(0, &claims).is_none() && owner_there() == owner);
}

#[test]
fn what_may_land_late_is_looked_for_when_its_owner_lets_go() {
    let owner = Owner::of_nobody("test");
    for (answer, is_left) in [
        (Ok(refused(true)), true),
        (Ok(refused(false)), false),
        (unanswered(true), true),
        (unanswered(false), false),
    ] {
        let grants = asked(&owner);
        assert!(grants.answered(&owner, 0, Moment::ZERO, &answer));
        let (may_be_taken, may_land_late) = (is_left, is_left);
        let left = LeftBehind { may_be_taken, may_land_late, ..LeftBehind::default() };
        assert_eq!(grants.end(&owner).on(0), left);
    }
}

#[test]
fn a_node_that_was_never_asked_has_nothing_to_release() {
    let (grants, owner) = (GrantTable::new(2), Owner::of_nobody("test"));
    grants.begin(&owner);
    grants.ask(&owner, 1);
    let ended = grants.end(&owner);
    assert_eq!([0, 1].map(|node| ended.on(node).may_be_taken), [false, true]);
}

fn claim_of(owner: &Owner) -> Claim {
    let (expire, kind) = (Duration::from_secs(1), Kind::Exclusive);
    Claim { key: LockKey::new("", "k").unwrap(), owner: owner.clone(), expire, kind }
}

/// A table whose only node has won the lock back under another owner value, which is returned.
fn won_back(owner: &Owner) -> (GrantTable, Owner) {
    let grants = asked(owner);
    grants.answered(owner, 0, Moment::ZERO, &unanswered(true));
    let WinBack { owner: fresh, .. } = grants.ask_again(owner, 0).unwrap();
    grants.answered(owner, 0, Moment::ZERO, &Ok(granted(false)));
    (grants, fresh)
}

/// The first release may have got no answer, and its repetition has to name the same owner value.
#[tokio::test(start_paused = true)]
async fn a_repeated_release_has_the_owner_values_of_the_first_one() {
    let owner = Owner::of_nobody("test");
    let (claim, value) = (claim_of(&owner), |left: LeftOnNodes| left.on(0).own_value);
    for is_released in [false, true] {
        let (grants, fresh) = won_back(&owner);
        grants.note_release(&claim, &grants.end(&owner));
        assert_eq!(value(grants.end(&owner)), Some(fresh.clone()));
        // The release of another owner forgets only those whose leases are over.
        let other = Owner::of_nobody("other");
        let left = LeftOnNodes {
            nodes: vec![LeftBehind { own_value: Some(fresh.clone()), ..LeftBehind::default() }],
        };
        tokio::time::advance(claim.expire / 2).await;
        grants.note_release(&claim_of(&other), &left);
        assert_eq!(value(grants.end(&owner)), Some(fresh));
        if is_released {
            grants.note_released(&owner);
        } else {
            tokio::time::advance(claim.expire / 2).await;
            grants.note_release(&claim_of(&other), &left);
        }
        assert_eq!(grants.end(&owner).on(0), LeftBehind::default());
    }
}

/// A renewal under the values of the claims would find the lock of the first one gone.
#[test]
fn of_several_locks_each_has_its_own_value_on_a_node() {
    let (owner, other) = (Owner::of_nobody("test"), Owner::of_nobody("test"));
    let (grants, fresh) = won_back(&owner);
    grants.begin(&other);
    let claims = [claim_of(&owner), claim_of(&other)];
    let there = grants.claims_on(0, &claims).expect("one has a value of its own");
    assert_eq!([&there[0].owner, &there[1].owner], [&fresh, &other]);
    assert!(grants.claims_on(0, &claims[1..]).is_none());
}
