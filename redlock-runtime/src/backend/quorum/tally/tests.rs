use super::*;
use crate::error::NodeErrorKind;
use crate::owner::Owner;

/// An answer that came, among the answers.
type Answer = Option<Result<Acquired, Fault>>;

#[expect(clippy::unnecessary_wraps, reason = "as among the answers")]
fn granted(value: u64) -> Answer {
    Some(Ok(Acquired::granted(FencingToken::new(value).unwrap())))
}

#[expect(clippy::unnecessary_wraps, reason = "as among the answers")]
fn refused(holder: &str) -> Answer {
    Some(Ok(Acquired::refused(holder.to_owned(), Some(Duration::from_secs(1)))))
}

#[expect(clippy::unnecessary_wraps, reason = "as among the answers")]
fn down<T>(is_unknown: bool) -> Option<Result<T, Fault>> {
    let nodes = vec![NodeError::new("n", NodeErrorKind::Unreachable, "down")];
    Some(Err(Fault { nodes, is_unknown, is_final: false }))
}

#[test]
fn a_quorum_of_all_nodes_decides_as_soon_as_it_can() {
    let made = |answers, quorum| decide(&answers, quorum) == Decision::Made;
    let certain = |answers, quorum| decide(&answers, quorum) == Decision::Certain;
    let open = |answers, quorum| decide(&answers, quorum) == Decision::Open;
    assert!(made(vec![granted(1), granted(2), None], 2));
    assert!(open(vec![granted(1), None, None], 2));
    assert!(open(vec![granted(1), refused("x"), None], 2));
    assert!(certain(vec![refused("x"), refused("x"), None], 2));
    assert!(open(vec![refused("x"), down(false), None], 2), "does x have the lock?");
    assert!(open(vec![refused("x"), refused("y"), None], 2), "one of them may have it");
    assert!(certain(vec![refused("x"), refused("y"), refused("z"), None, None], 4));
}

#[test]
fn a_majority_of_the_answers_is_not_a_majority_of_the_nodes() {
    let answers = vec![granted(1), down(false), down(false)];
    let Election::Unavailable(fault) = elect(&answers, 2) else { panic!("{answers:?}") };
    assert_eq!(fault.nodes.len(), 2);
    // The one grant must be cleaned up.
    assert!(fault.is_unknown);
}

/// The others cannot make a quorum, whatever becomes of them.
#[test]
fn what_most_nodes_refuse_for_good_is_final() {
    let lasting = || Some(Err(Fault { is_final: true, ..Fault::known(Vec::new()) }));
    for (answers, is_final) in [
        (vec![lasting(), lasting(), down(false)], true),
        (vec![lasting(), down(false), down(false)], false),
        (vec![lasting(), lasting(), lasting()], true),
    ] {
        let Election::Unavailable(fault) = elect(&answers, 2) else { panic!("{answers:?}") };
        assert_eq!(fault.is_final, is_final, "{answers:?}");
    }
}

/// The next attempt finds the key gone where it was released: that is not how the lease ended.
#[test]
fn what_a_minority_has_released_makes_the_outcome_unknown() {
    for (found, is_unknown) in [(Found::Ours, true), (Found::Unclear, true), (Found::Gone, false)] {
        let fault = undecided(&vec![Some(Ok(found)), down(false), down(false)]);
        assert_eq!((fault.nodes.len(), fault.is_unknown), (2, is_unknown), "{found:?}");
    }
}

/// What got no answer may have been carried out, although the others found nothing.
#[test]
fn an_unanswered_command_makes_the_outcome_unknown() {
    for is_unknown in [true, false] {
        let fault = undecided(&vec![Some(Ok(Found::Gone)), down(is_unknown), down(false)]);
        assert_eq!(fault.is_unknown, is_unknown);
    }
}

/// A part of a call that was cut off may still turn the lock into a read lock.
#[test]
fn a_refused_downgrade_says_nothing_while_a_part_of_it_may_arrive() {
    let refused = |was_cut| {
        Some(Ok(Acquired::Refused { holder: None, free_in: None, was_cut, is_split: false }))
    };
    let found = turned(&vec![granted(1), refused(false), refused(true), None, down(true)]);
    assert_eq!(found, vec![Some(Ok(Found::Ours)), Some(Ok(Found::Gone)), None, None, down(true)]);
}

#[test]
fn a_minority_that_is_down_changes_nothing() {
    let won = elect(&vec![granted(5), down(true), granted(7)], 2);
    let tokens = [(0, 5), (2, 7)].map(|(i, t)| (i, FencingToken::new(t).unwrap())).to_vec();
    assert_eq!(won, Election::Won(tokens));
}

#[test]
fn a_refusal_names_the_holder_and_says_what_must_be_cleaned_up() {
    let election = elect(&vec![refused("web-1"), granted(1), refused("web-1")], 2);
    let free_in = Some(Duration::from_secs(1));
    let holder = Some("web-1".to_owned());
    assert_eq!(election, Election::Refused { holder, free_in, was_cut: true, is_split: false });
    let election = elect(&vec![refused("a"), refused("a"), refused("a")], 2);
    assert!(matches!(election, Election::Refused { was_cut: false, is_split: false, .. }));
}

/// Nodes that were won back know one owner by other last digits.
#[test]
fn an_owner_is_one_holder_whatever_its_value_on_each_node() {
    let owner = Owner::of_nobody("web-1");
    let other = owner.another(1);
    let election = elect(&vec![refused(owner.as_str()), refused(other.as_str()), granted(1)], 2);
    assert!(matches!(election, Election::Refused { is_split: false, .. }), "{election:?}");
}

/// One vote less than a quorum is no lock, and a vote of somebody else says nothing of its holder.
#[test]
fn a_lock_ends_when_its_holder_has_no_quorum_any_more() {
    let left = |holder: &str, secs: Option<u64>| {
        Some(Ok(Acquired::refused(holder.to_owned(), secs.map(Duration::from_secs))))
    };
    for (answers, expected) in [
        (vec![left("x", Some(3)), left("x", Some(2)), left("x", Some(4))], Some(3)),
        (vec![left("x", Some(3)), left("y", Some(1)), left("x", Some(4))], Some(3)),
        (vec![left("x", Some(3)), down(false), left("x", Some(4))], Some(3)),
        // Two of these keys do not end by themselves.
        (vec![left("x", None), left("x", Some(2)), left("x", None)], None),
        (vec![left("x", None), left("x", Some(2)), left("x", Some(3))], Some(3)),
        (vec![left("x", None), left("y", Some(1)), left("x", None)], None),
        // There may be a vote of its own where no answer came.
        (vec![left("x", Some(3)), granted(1), None], Some(3)),
        // Nobody has it.
        (vec![left("x", Some(3)), left("y", Some(1)), left("z", Some(2))], Some(1)),
    ] {
        let election = elect(&answers, 2);
        let Election::Refused { free_in, .. } = election else { panic!("{election:?}") };
        assert_eq!(free_in, expected.map(Duration::from_secs), "{answers:?}");
    }
}

/// A grant, an answer that is still to come, a lost answer, and a try whose connection broke.
#[test]
fn each_reason_to_clean_up_counts_alone() {
    let (holder, free_in) = (Some("x".to_owned()), None);
    let cut = Some(Ok(Acquired::Refused { holder, free_in, was_cut: true, is_split: false }));
    for (reason, expected) in [
        (refused("x"), false),
        (down(false), false),
        (granted(1), true),
        (None, true),
        (down(true), true),
        (cut, true),
    ] {
        let election = elect(&vec![refused("x"), refused("x"), reason.clone()], 2);
        let Election::Refused { was_cut, .. } = election else { panic!("{election:?}") };
        assert_eq!(was_cut, expected, "{reason:?}");
        let election = elect(&vec![down(false), down(false), reason.clone()], 2);
        let Election::Unavailable(fault) = election else { panic!("{election:?}") };
        assert_eq!(fault.is_unknown, expected, "{reason:?}");
    }
}

#[test]
fn a_vote_that_nobody_won_is_split() {
    let election = elect(&vec![refused("a"), refused("b"), granted(1)], 2);
    assert!(matches!(election, Election::Refused { is_split: true, was_cut: true, .. }));
}

/// Nodes count the members of a group one by one.
#[test]
fn a_group_is_one_holder_whatever_its_number() {
    let election = elect(&vec![refused("3 readers"), refused("2 readers"), granted(1)], 2);
    assert!(matches!(election, Election::Refused { is_split: false, .. }), "{election:?}");
    let election = elect(&vec![refused("3 readers"), refused("2 permits"), granted(1)], 2);
    assert!(matches!(election, Election::Refused { is_split: true, .. }), "{election:?}");
}

/// Only where no node named one is the holder not known.
#[test]
fn an_empty_value_of_the_key_is_a_holder() {
    let known = |answers| match elect(&answers, 2) {
        Election::Refused { holder, .. } => holder,
        election => panic!("{election:?}"),
    };
    assert_eq!(known(vec![refused(""), refused(""), granted(1)]).as_deref(), Some(""));
    assert_eq!(known(vec![refused("a"), refused("b"), granted(1)]), None);
}

#[test]
fn verdicts_need_a_quorum_and_losses_need_certainty() {
    let (ours, gone, stolen, open) =
        (Some(Found::Ours), Some(Found::Gone), Some(Found::Stolen), None);
    let of = |found: [Option<Found>; 5]| verdict(found.into_iter(), 3);
    assert_eq!(of([ours, ours, ours, open, gone]), ours);
    assert_eq!(of([ours, ours, gone, open, gone]), None);
    assert_eq!(of([ours, ours, gone, gone, gone]), gone);
    assert_eq!(of([open; 5]), None);
    assert_eq!(of([open, open, stolen, stolen, stolen]), stolen);
    assert_eq!(of([open, open, gone, stolen, stolen]), gone);
    let unclear = Some(Found::Unclear);
    assert_eq!(of([ours, ours, unclear, gone, gone]), unclear);
    assert_eq!(of([ours, unclear, unclear, stolen, stolen]), unclear);
    assert_eq!(of([ours, ours, unclear, open, gone]), None, "it may be ours");
    assert_eq!(of([unclear, unclear, stolen, stolen, stolen]), stolen);
    assert_eq!(of([ours, unclear, open, gone, gone]), unclear, "the open one may be ours");
}

#[test]
fn several_faults_are_final_only_if_all_of_them_are() {
    let fault = |is_final| Fault { nodes: Vec::new(), is_unknown: false, is_final };
    let (lasting, passing) = (fault(true), fault(false));
    assert!(merge(&[&lasting, &lasting]).is_final);
    assert!(!merge(&[&lasting, &passing]).is_final);
    assert!(!merge(&[]).is_final);
}
