//! Who has a lock of a shared kind, and who has had it: by commands that are sent again, or late,
//! and where others have written to the keys. On a model of a server that runs the shipped scripts.

use redis_model::Reply;

use super::fake::{MINUTE, SECOND};
use super::step::{
    ABSENT, DYING, HOLDERS, LOCK, PRESENT, QUEUE, READ, Step, WRITE, claim, delete, is_there,
    permit, reader, writer,
};
use crate::backend::simulated::{self, SimulatedReply};
use crate::backend::{Acquired, Claim, Downgraded, Enqueued, Found, Look, Release};
use crate::key::LockKey;

/// How long a key still lasts, in ms.
fn left(step: &Step, key: &[u8]) -> Option<u64> {
    step.server.keyspace().ends(key).map(|end| end - step.now / 1000)
}

/// Takes its expiry away.
fn persist(step: &mut Step) {
    let Reply::Bulk(marker) = step.server.execute(&[b"GET", LOCK]) else { panic!("it is there") };
    step.server.execute(&[b"SET", LOCK, &marker]);
    assert_eq!(left(step, LOCK), None);
}

fn renews(step: &mut Step, claim: &Claim) -> Found {
    step.ask(&simulated::renew(std::slice::from_ref(claim)))[0]
}

fn release(step: &mut Step, claim: &Claim) -> (Found, bool) {
    step.ask(&simulated::release(Release::of(claim), true))
}

/// Its group was deleted, and its lease is still written down.
#[test]
fn a_lease_of_a_deleted_group_is_no_right_to_the_lock_of_a_writer() {
    for kind in [READ, permit(2).kind] {
        let (mut step, old, held) = (Step::new(), claim(kind, MINUTE), writer());
        assert!(step.enters(&old));
        delete(&mut step);
        assert!(step.enters(&held));
        assert!(!step.enters(&old), "{kind:?}");
        let answer = step.ask(&simulated::look(&old, 1, Look::by_clock(0)));
        assert_eq!(answer, Enqueued::Unknown, "{kind:?}");
        assert_eq!(renews(&mut step, &old), Found::Stolen, "{kind:?}");
        assert_eq!(release(&mut step, &old).0, Found::Stolen, "{kind:?}");
        let answer = step.ask(&simulated::downgrade(&writer(), &old));
        assert_eq!(answer, Downgraded::Lost(Found::Stolen), "{kind:?}");
        assert_eq!(renews(&mut step, &held), Found::Ours, "{kind:?}");
    }
}

/// The lease of another one goes on, and a writer waits.
#[test]
fn whoever_comes_after_its_lease_comes_as_anybody_else() {
    for kind in [READ, permit(2).kind] {
        let (mut step, late, other) = (Step::new(), claim(kind, SECOND), claim(kind, MINUTE));
        assert!(step.enters(&late) && step.enters(&other));
        step.enqueues(&writer(), PRESENT);
        assert!(step.enters(&late), "{kind:?}: a command that is sent again");
        step.pass(2 * SECOND);
        assert_eq!(renews(&mut step, &late), Found::Gone, "{kind:?}");
        assert!(!step.enters(&late), "{kind:?}: a writer waits");
        assert!(step.enters(&other), "{kind:?}: it has the lock");
        assert_eq!(release(&mut step, &late).0, Found::Gone, "{kind:?}");
        assert_eq!(release(&mut step, &other), (Found::Ours, true), "{kind:?}");
    }
}

/// It was handed the lock, and has not claimed it. Its release hands the lock over.
#[test]
fn whoever_releases_after_its_lease_has_not_had_the_lock_until_then() {
    for kind in [READ, permit(2).kind] {
        let (mut step, held, late, next) = (Step::new(), writer(), claim(kind, MINUTE), writer());
        assert!(step.enters(&held));
        step.enqueues(&late, PRESENT);
        step.leaves(&held);
        step.enqueues(&next, PRESENT);
        persist(&mut step);
        step.told();
        step.pass(2 * SECOND);
        assert_eq!(release(&mut step, &late).0, Found::Gone, "{kind:?}");
        let told = step.told();
        assert!(told.len() == 1 && told[0].contains(next.owner.as_str()), "{kind:?}: {told:?}");
    }
}

#[test]
fn a_marker_lasts_as_long_as_the_longest_lease() {
    let third = MINUTE / 3;
    for kind in [READ, permit(3).kind] {
        for (waits, is_persistent) in [(false, false), (false, true), (true, false), (true, true)] {
            let context = format!("{kind:?} {waits} {is_persistent}");
            let mut step = Step::new();
            let [long, short, last] = [MINUTE, SECOND, third].map(|expire| claim(kind, expire));
            assert!(step.enters(&long) && step.enters(&short));
            if waits {
                step.enqueues(&writer(), PRESENT);
            }
            let meddle = |step: &mut Step| {
                if is_persistent {
                    persist(step);
                }
            };
            meddle(&mut step);
            step.pass(SECOND / 2);
            assert_eq!(renews(&mut step, &short), Found::Ours);
            assert_eq!(left(&step, LOCK), Some(59_500), "{context}: the other lease is longer");
            meddle(&mut step);
            assert!(step.enters(&short), "{context}: it is sent again");
            assert_eq!(left(&step, LOCK), Some(59_500), "{context}");
            if !waits {
                meddle(&mut step);
                assert!(step.enters(&last), "{context}");
                assert_eq!(left(&step, LOCK), Some(59_500), "{context}");
            }
            meddle(&mut step);
            assert_eq!(release(&mut step, &long).0, Found::Ours);
            let expected = if waits { 1000 } else { 20_000 };
            assert_eq!(left(&step, LOCK), Some(expected), "{context}: the longest has gone");
            let kept = left(&step, HOLDERS).unwrap();
            assert!(kept >= expected, "{context}: {kept}");
            let renewed = if waits { &short } else { &last };
            step.pass(SECOND / 2);
            assert_eq!(renews(&mut step, renewed), Found::Ours);
            let expire = u64::try_from(renewed.expire.as_millis()).unwrap();
            assert_eq!(left(&step, LOCK), Some(expire), "{context}: renewed");
            assert_eq!(left(&step, HOLDERS), Some(expire), "{context}: renewed");
        }
    }
}

/// A reader that waited behind a writer has gone, and is taken out again as soon as it is let in.
#[test]
fn a_marker_does_not_outlast_the_leases_of_those_who_are_there() {
    let mut step = Step::new();
    let (held, gone, waits) = (claim(READ, SECOND / 5), reader(), writer());
    assert!(step.enters(&held));
    step.enqueues(&waits, PRESENT);
    step.enqueues(&gone, ABSENT);
    step.ask(&simulated::release(Release::leaving(&waits), true));
    assert_eq!(left(&step, LOCK), Some(200));
    step.pass(SECOND / 4);
    assert!(step.enters(&writer()), "nobody has it any more");
}

/// What is written there by others says nothing about the other leases.
#[test]
fn renewals_find_each_lease_by_itself() {
    let claims = ["a", "b", "c", "d"].map(|name| {
        let key = LockKey::new("lock:", name).unwrap();
        Claim { key, ..reader() }
    });
    let mut step = Step::new();
    assert!(claims.iter().all(|claim| step.enters(claim)));
    for foreign in ["lock:a", "{lock:b}:holders"] {
        step.server.execute(&[b"DEL", foreign.as_bytes()]);
        step.server.execute(&[b"RPUSH", foreign.as_bytes(), b"foreign"]);
    }
    step.server.execute(&[b"DEL", b"lock:c"]);
    let found = step.ask(&simulated::renew(&claims));
    assert_eq!(found, [Found::Stolen, Found::Gone, Found::Gone, Found::Ours]);
}

#[test]
fn a_downgrade_that_is_sent_again_finds_its_reader() {
    let (mut step, held, next, waiting) = (Step::new(), writer(), reader(), reader());
    assert!(step.enters(&held));
    step.enqueues(&waiting, PRESENT);
    let downgrade = simulated::downgrade(&held, &next);
    for _ in 0..2 {
        let answer = step.ask(&downgrade);
        assert!(matches!(answer, Downgraded::Granted(_)), "{answer:?}");
    }
    assert_eq!(step.told().len(), 1, "the reader that waits");
    assert!(!is_there(&step, QUEUE));
    step.leaves(&next);
    step.leaves(&waiting);
    assert_eq!(step.ask(&downgrade), Downgraded::Lost(Found::Gone));
}

/// Somebody who is gone was ahead of those who wait for a permit.
#[test]
fn there_are_never_more_permits_where_the_dead_have_left_the_queue() {
    let (mut step, waiting, late) = (Step::new(), permit(2), permit(2));
    assert!(step.enters(&permit(2)));
    step.listens(true);
    step.enqueues(&writer(), DYING);
    step.enqueues(&waiting, PRESENT);
    step.listens(false);
    assert!(!step.enters(&late), "two have it");
    assert_eq!(step.told().len(), 1, "it was let in");
    assert!(step.looks(&waiting));
}

#[test]
fn a_permit_waits_behind_a_reader_that_came_before() {
    let (mut step, waiting) = (Step::new(), reader());
    assert!(step.enters(&permit(2)));
    step.enqueues(&waiting, PRESENT);
    assert!(!step.enters(&permit(2)), "permits could keep readers out for ever");
}

/// Nobody can tell whether its process is gone.
#[test]
fn a_writer_without_signals_keeps_readers_out() {
    let (mut step, waiting, late) = (Step::new(), writer(), reader());
    assert!(step.enters(&reader()));
    let answer = step.ask(&simulated::enqueue(&waiting, 1, None));
    assert!(matches!(answer, Enqueued::Waiting { .. }), "{answer:?}");
    step.pass(SECOND);
    assert!(!step.enters(&reader()));
    let answer = step.ask(&simulated::enqueue(&late, 1, None));
    let Enqueued::Waiting { position, .. } = answer else { panic!("{answer:?}") };
    assert!(position.ahead == 1 && !position.is_signalled);
    assert!(!step.looks(&late));
    assert_eq!(step.server.execute(&[b"LLEN", QUEUE]), Reply::Int(2));
    assert_eq!(left(&step, QUEUE), Some(60_000));
}

/// Those of other kinds are told when the last one ends.
#[test]
fn whoever_waits_for_a_permit_is_told_when_the_first_one_ends() {
    let mut step = Step::new();
    assert!(step.enters(&claim(permit(2).kind, SECOND)) && step.enters(&permit(2)));
    let answer = step.ask(&simulated::acquire(&permit(2)));
    let Acquired::Refused { free_in: Some(free_in), .. } = answer else { panic!("{answer:?}") };
    assert_eq!(free_in, SECOND);
    let answer = step.ask(&simulated::acquire(&reader()));
    let Acquired::Refused { free_in: Some(free_in), .. } = answer else { panic!("{answer:?}") };
    assert_eq!(free_in, MINUTE);
}

/// Nor does such an entry keep out owners that come later.
#[test]
fn entries_of_another_form_get_no_signals() {
    for kind in [WRITE, READ, permit(2).kind] {
        let (mut step, odd) = (Step::new(), claim(kind, MINUTE));
        assert!(step.enters(&reader()));
        step.enqueues(&writer(), PRESENT);
        let entry = format!("junk {}", odd.owner.as_str());
        step.server.execute(&[b"RPUSH", QUEUE, entry.as_bytes()]);
        for removes_dead in [false, true] {
            let answer = step.ask(&simulated::look(&odd, 1, Look { ahead: 3, removes_dead }));
            let Enqueued::Waiting { position, .. } = answer else { panic!("{kind:?} {answer:?}") };
            assert!(position.ahead == 1 && !position.is_signalled, "{kind:?}");
        }
    }
    let mut step = Step::new();
    assert!(step.enters(&reader()));
    step.server.execute(&[b"RPUSH", QUEUE, b"junk"]);
    assert!(step.enters(&reader()));
}

#[test]
fn keys_of_another_type_are_no_holders_and_no_mailbox() {
    let mut step = Step::new();
    step.server.execute(&[b"RPUSH", HOLDERS, b"foreign"]);
    let answer = simulated::enqueue(&reader(), 1, Some(PRESENT)).ask(&mut step.server, false);
    assert!(matches!(answer, SimulatedReply::Error(_)));
    assert!(!is_there(&step, LOCK));
    // Somebody has the lock, as far as others can tell.
    step.server.execute(&[b"SET", LOCK, b"<readers>", b"PX", b"9000"]);
    let answer = step.ask(&simulated::enqueue(&writer(), 1, Some(PRESENT)));
    assert!(matches!(answer, Enqueued::Waiting { .. }), "{answer:?}");
    let (mut step, late) = (Step::new(), reader());
    assert!(step.enters(&reader()));
    step.enqueues(&writer(), "@redlock:foreign");
    step.enqueues(&late, PRESENT);
    step.server.execute(&[b"SET", b"redlock:foreign", b"foreign"]);
    assert!(step.looks(&late), "nobody can be told by it");
}

/// The queue is as it was when they looked last, but for those who are gone.
#[test]
fn the_gone_ahead_of_a_reader_are_taken_out_when_it_looks() {
    let (mut step, ahead, late) = (Step::new(), reader(), reader());
    assert!(step.enters(&reader()));
    step.listens(true);
    step.enqueues(&writer(), DYING);
    step.enqueues(&ahead, PRESENT);
    step.enqueues(&writer(), PRESENT);
    step.enqueues(&late, PRESENT);
    step.listens(false);
    let answer = step.ask(&simulated::look(&late, 1, Look::by_clock(3)));
    let Enqueued::Waiting { position, .. } = answer else { panic!("{answer:?}") };
    assert_eq!(position.ahead, 1, "a writer is still ahead of it");
    assert_eq!(step.told().len(), 1, "the reader ahead of that one is in");
    assert_eq!(step.server.execute(&[b"LLEN", QUEUE]), Reply::Int(2));
}

/// A reader looks, and finds that a writer is gone, or that the lock is free.
#[test]
fn a_reader_that_looks_comes_in_together_with_the_others() {
    let [first, second, third] = [(); 3].map(|()| reader());
    let mut step = Step::new();
    assert!(step.enters(&first));
    step.listens(true);
    step.enqueues(&writer(), DYING);
    step.enqueues(&second, PRESENT);
    step.enqueues(&third, PRESENT);
    step.listens(false);
    step.told();
    assert!(step.looks(&third));
    assert_eq!(step.told().len(), 1, "one message is for both");
    assert!(!is_there(&step, QUEUE));
    let (mut step, held, [first, second]) = (Step::new(), writer(), [(); 2].map(|()| reader()));
    assert!(step.enters(&held));
    step.enqueues(&first, PRESENT);
    step.enqueues(&second, PRESENT);
    delete(&mut step);
    assert!(step.looks(&first));
    assert!(step.told().iter().any(|told| told.contains(second.owner.as_str())));
}
