//! What owners of a shared kind leave behind, and owners that stand twice in the queue. On a model
//! of a server that runs the shipped scripts.

use std::time::Duration;

use redis_model::Reply;

use super::fake::{MINUTE, SECOND};
use super::step::{
    ABSENT, HOLDERS, LOCK, PRESENT, QUEUE, READ, Step, WRITE, claim, delete, is_there, permit,
};
use crate::backend::simulated;
use crate::backend::{Found, Release};

/// Another program deleted the lock.
#[test]
fn those_of_a_deleted_group_take_no_room_of_the_next_one() {
    let mut step = Step::new();
    assert!(step.enters(&permit(2)) && step.enters(&permit(2)));
    delete(&mut step);
    let both = [permit(2), permit(2)];
    assert!(both.iter().all(|permit| step.enters(permit)), "there are two permits");
    assert!(!step.enters(&permit(2)));
    let waiting = [permit(2), permit(2)];
    for permit in &waiting {
        step.enqueues(permit, PRESENT);
    }
    // Handed to those who wait.
    delete(&mut step);
    step.ask(&simulated::nudge(&permit(2)));
    assert!(is_there(&step, LOCK) && !is_there(&step, QUEUE), "both have it");
    for permit in &waiting {
        step.leaves(permit);
    }
    assert!(!is_there(&step, LOCK), "nobody else has it");
}

/// Sets of holders of keys that are used once would pile up.
#[test]
fn the_last_of_a_group_leaves_no_holders() {
    for kind in [READ, permit(2).kind] {
        for waits in [false, true] {
            let (mut step, first, last) = (Step::new(), claim(kind, SECOND), claim(kind, MINUTE));
            assert!(step.enters(&first) && step.enters(&last));
            if waits {
                step.enqueues(&claim(WRITE, MINUTE), ABSENT);
            }
            step.leaves(&first);
            assert!(is_there(&step, HOLDERS) && is_there(&step, LOCK), "{kind:?}");
            step.leaves(&last);
            assert!(!is_there(&step, HOLDERS) && !is_there(&step, LOCK), "{kind:?} {waits}");
        }
    }
}

/// Its lease ended, and those of others go on.
#[test]
fn who_comes_too_late_with_its_release_is_told() {
    for kind in [READ, permit(2).kind] {
        for waits in [false, true] {
            let (mut step, late, other) = (Step::new(), claim(kind, SECOND), claim(kind, MINUTE));
            assert!(step.enters(&late) && step.enters(&other));
            if waits {
                step.enqueues(&claim(WRITE, MINUTE), PRESENT);
            }
            step.pass(2 * SECOND);
            let (found, _) = step.ask(&simulated::release(Release::of(&late), true));
            assert_eq!(found, Found::Gone, "{kind:?} {waits}");
        }
    }
}

/// Permits were drawn for processes that are gone.
#[test]
fn the_gone_hold_nothing_while_those_behind_them_come_and_go() {
    let (mut step, held) = (Step::new(), claim(WRITE, MINUTE));
    assert!(step.enters(&held));
    for _ in 0..2 {
        step.enqueues(&permit(2), ABSENT);
    }
    let [first, second, third] = [(); 3].map(|()| permit(2));
    for permit in [&first, &second, &third] {
        step.enqueues(permit, PRESENT);
    }
    step.leaves(&held);
    step.leaves(&first);
    assert!(step.looks(&third), "the permit of the first is free");
    step.leaves(&second);
    step.leaves(&third);
    assert!(!is_there(&step, LOCK), "nobody has it");
}

/// A client library that repeats a command by itself makes several entries of one.
#[test]
fn an_owner_that_has_the_lock_or_leaves_stands_nowhere_in_the_queue() {
    for kind in [WRITE, READ] {
        for way in ["looks", "is handed it", "leaves"] {
            let (mut step, held) = (Step::new(), claim(WRITE, MINUTE));
            let [twice, next] = [(); 2].map(|()| claim(kind, MINUTE));
            assert!(step.enters(&held));
            for _ in 0..3 {
                step.enqueues(&twice, PRESENT);
            }
            match way {
                "looks" => delete(&mut step),
                "is handed it" => step.leaves(&held),
                _ => {
                    step.enqueues(&next, PRESENT);
                    step.ask(&simulated::release(Release::leaving(&twice), true));
                    let told = step.told();
                    let is_next = told.len() == 1 && told[0].contains(next.owner.as_str());
                    assert!(is_next, "{kind:?}: {told:?}");
                    step.ask(&simulated::release(Release::leaving(&next), true));
                }
            }
            if way != "leaves" {
                assert!(step.looks(&twice), "{kind:?} {way}");
            }
            assert!(!is_there(&step, QUEUE), "{kind:?} {way}");
        }
    }
}

/// Its first entry was handed the lock, and the second one still stands in the queue.
#[test]
fn an_owner_that_lets_go_of_a_shared_lock_is_not_handed_it_again() {
    for (kind, word) in [(READ, "r"), (permit(2).kind, "p2")] {
        for others in ["nobody", "a holder", "a waiter ahead"] {
            let (mut step, [twice, other]) = (Step::new(), [(); 2].map(|()| claim(kind, MINUTE)));
            assert!(step.enters(&twice));
            let queued = match others {
                "nobody" => vec![&twice],
                "a holder" => {
                    assert!(step.enters(&other));
                    vec![&twice]
                }
                _ => vec![&other, &twice],
            };
            for claim in queued {
                let entry = format!("60000 120000 {word} {PRESENT} {}", claim.owner.as_str());
                step.server.execute(&[b"RPUSH", QUEUE, entry.as_bytes()]);
            }
            let (found, _) = step.ask(&simulated::release(Release::of(&twice), true));
            assert_eq!(found, Found::Ours, "{word}, {others}");
            let told = step.told();
            let is_handed = told.iter().any(|told| told.contains(twice.owner.as_str()));
            assert!(!is_handed, "{word}, {others}: {told:?}");
            assert_eq!(is_there(&step, LOCK), others != "nobody", "{word}, {others}");
        }
    }
}

/// The lease of another one goes on, so that the set does not end with theirs.
#[test]
fn readers_that_die_beside_one_that_lives_do_not_add_up() {
    let (mut step, lives) = (Step::new(), claim(READ, MINUTE));
    assert!(step.enters(&lives));
    for _ in 0..100 {
        assert!(step.enters(&claim(READ, SECOND)));
        step.pass(2 * SECOND);
        assert_eq!(step.ask(&simulated::renew(std::slice::from_ref(&lives))), [Found::Ours]);
    }
    let count = step.server.execute(&[b"ZCOUNT", HOLDERS, b"-inf", b"+inf"]);
    assert!(matches!(count, Reply::Int(..=20)), "{count:?}");
}

/// Readers, or permits, would be quicker each time.
#[test]
fn a_writer_that_polls_keeps_out_each_kind_that_comes_later() {
    for kind in [READ, permit(2).kind] {
        let (mut step, first, wish) = (Step::new(), claim(kind, MINUTE), claim(WRITE, MINUTE));
        assert!(step.enters(&first));
        assert!(step.ask(&simulated::hint(&wish, PRESENT)));
        step.pass(Duration::from_millis(1900));
        assert!(!step.enters(&claim(kind, MINUTE)), "{kind:?}: a writer waits");
        // It does not wait any longer.
        step.ask(&simulated::release(Release::leaving(&wish), true));
        assert!(step.enters(&claim(kind, MINUTE)), "{kind:?}");
    }
}
