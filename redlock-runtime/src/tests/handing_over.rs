//! Whom a lock is handed to, and what its next owner has then. On a model of a server that runs the
//! shipped scripts.

use std::num::NonZeroU32;
use std::time::Duration;

use redis_model::Reply;

use super::fake::{MINUTE, SECOND};
use super::step::{
    ABSENT, DYING, HOLDERS, LOCK, MAILBOX, PRESENT, QUEUE, READ, Step, WRITE, claim, is_there,
    permit, writer,
};
use crate::backend::simulated;
use crate::backend::{
    Claim, Enqueued, FencingTokens, Found, Look, QueueSignal, Release, TokensUsed,
};
use crate::kind::Kind;

/// One hand-over in so many goes to a waiter that gets no signals.
const SHARE: u64 = 17;

fn kinds() -> [Kind; 3] {
    [WRITE, READ, Kind::Permits(NonZeroU32::new(2).unwrap())]
}

/// How long a key still lasts, in ms.
fn left(step: &Step, key: &[u8]) -> u64 {
    step.server.keyspace().ends(key).expect("it ends") - step.now / 1000
}

fn length(step: &mut Step) -> Reply {
    step.server.execute(&[b"LLEN", QUEUE])
}

/// Behind a holder that is there already.
fn enqueues_silently(step: &mut Step, claim: &Claim) {
    let answer = step.ask(&simulated::enqueue(claim, 1, None));
    let Enqueued::Waiting { position, .. } = answer else { panic!("{answer:?}") };
    assert!(!position.is_signalled);
}

/// The fencing tokens of those whose process was told that they have the lock.
fn handed(step: &mut Step) -> Vec<(String, FencingTokens, Duration)> {
    let told = step.told();
    let told = told.iter().filter_map(|one| simulated::signalled(one.as_bytes())).flatten();
    told.filter_map(|(owner, signal)| match signal? {
        QueueSignal::HandedOver { fencing_tokens, lease } => Some((owner, fencing_tokens, lease)),
        QueueSignal::Disturbed => None,
    })
    .collect()
}

fn is_handed(step: &mut Step, claim: &Claim) -> bool {
    let handed = handed(step);
    handed.len() == 1 && handed[0].0 == claim.owner.as_str()
}

/// The lease of who has not claimed the lock yet, and the keys that go with it.
#[test]
fn a_lock_that_was_handed_over_lasts_as_long_as_its_owner_may_take_to_claim_it() {
    for kind in kinds() {
        for (expire, lease) in [(MINUTE, SECOND), (SECOND, SECOND), (SECOND / 4, SECOND / 4)] {
            let (mut step, held, next) = (Step::new(), writer(), claim(kind, expire));
            assert!(step.enters(&held));
            step.enqueues(&next, PRESENT);
            step.leaves(&held);
            let context = format!("{kind:?} for {expire:?}");
            assert_eq!(handed(&mut step)[0].2, lease, "{context}");
            assert_eq!(u128::from(left(&step, LOCK)), lease.as_millis(), "{context}");
            if kind == WRITE {
                continue;
            }
            // With an odd end an owner is invited: it has to claim the lock.
            let is_invited = expire > SECOND;
            let end = step.server.execute(&[b"ZSCORE", HOLDERS, next.owner.as_str().as_bytes()]);
            let Reply::Bulk(end) = end else { panic!("{context}: {end:?}") };
            let end: u64 = String::from_utf8(end).unwrap().parse().unwrap();
            assert_eq!(end % 2 == 1, is_invited, "{context}");
            assert!(u128::from((end - step.now).div_ceil(1000)) <= lease.as_millis() + 1);
            let kept = left(&step, HOLDERS) - left(&step, LOCK);
            assert_eq!(kept, if is_invited { 60_000 } else { 0 }, "{context}");
        }
    }
}

/// The marker and the counter are for all of them.
#[test]
fn those_that_come_in_together_may_have_leases_of_any_length() {
    let (mut step, held) = (Step::new(), writer());
    assert!(step.enters(&held));
    step.enqueues(&claim(READ, MINUTE), PRESENT);
    step.enqueues(&claim(READ, SECOND / 4), PRESENT);
    step.leaves(&held);
    assert_eq!(left(&step, LOCK), 1000);
    assert_eq!(left(&step, HOLDERS), 61_000);
    let counter = held.key.counter_key();
    let long = left(&step, counter.as_bytes());
    let (mut step, held) = (Step::new(), writer());
    assert!(step.enters(&held));
    step.enqueues(&claim(READ, SECOND / 4), PRESENT);
    step.leaves(&held);
    assert_eq!(long - left(&step, counter.as_bytes()), 60_000 - 250);
}

/// They were invited for a second, and the leases of others go on for a minute.
#[test]
fn whoever_is_let_in_beside_others_does_not_cut_their_leases() {
    for kind in [READ, kinds()[2]] {
        let (mut step, held, first) = (Step::new(), claim(kind, MINUTE), writer());
        let (second, third) = (claim(kind, MINUTE), claim(kind, MINUTE));
        assert!(step.enters(&held));
        step.enqueues(&first, PRESENT);
        step.enqueues(&second, PRESENT);
        step.enqueues(&third, PRESENT);
        step.ask(&simulated::release(Release::leaving(&first), true));
        let handed = handed(&mut step);
        assert_eq!(handed.len(), if kind == READ { 2 } else { 1 }, "{kind:?}");
        assert_eq!(left(&step, LOCK), 60_000, "{kind:?}");
        assert_eq!(left(&step, HOLDERS), 120_000, "{kind:?}");
        step.pass(2 * SECOND);
        assert!(!step.enters(&writer()), "{kind:?}: somebody has it");
        assert_eq!(step.ask(&simulated::renew(std::slice::from_ref(&held))), [Found::Ours]);
    }
}

/// A client library that repeats a command by itself makes two entries of one.
#[test]
fn an_owner_that_has_its_lease_is_not_let_in_again_for_a_second() {
    let permits = permit(3);
    for kind in [READ, permits.kind] {
        let (mut step, held) = (Step::new(), writer());
        let [twice, between, last] = [kind, WRITE, kind].map(|kind| claim(kind, MINUTE));
        assert!(step.enters(&held));
        for claim in [&twice, &between, &twice, &last] {
            step.enqueues(claim, PRESENT);
        }
        step.leaves(&held);
        assert!(is_handed(&mut step, &twice));
        assert!(step.enters(&twice), "it claims its lease");
        step.ask(&simulated::release(Release::leaving(&between), true));
        assert!(is_handed(&mut step, &last), "{kind:?}");
        assert!(!is_there(&step, QUEUE));
        step.pass(2 * SECOND);
        assert_eq!(step.ask(&simulated::renew(std::slice::from_ref(&twice))), [Found::Ours]);
    }
}

/// Only now and then, as they notice it late.
#[test]
fn those_without_signals_get_their_share() {
    for is_its_turn in [false, true] {
        let (mut step, held, silent, heard) = (Step::new(), writer(), writer(), writer());
        assert!(step.enters(&held));
        enqueues_silently(&mut step, &silent);
        step.enqueues(&heard, PRESENT);
        let rest = step.now % SHARE;
        step.pass(Duration::from_micros(SHARE - rest + u64::from(!is_its_turn)));
        step.leaves(&held);
        assert_eq!(is_handed(&mut step, &heard), !is_its_turn);
        assert_eq!(step.looks(&silent), is_its_turn);
    }
    // Where nobody gets signals, and for each kind.
    for kind in kinds() {
        let (mut step, held, silent) = (Step::new(), writer(), claim(kind, MINUTE));
        assert!(step.enters(&held));
        enqueues_silently(&mut step, &silent);
        let rest = step.now % SHARE;
        step.pass(Duration::from_micros(SHARE - rest + 1));
        let found = step.ask(&simulated::release(Release::of(&held), true));
        assert_eq!(found, (Found::Ours, true), "{kind:?}");
        assert!(step.looks(&silent), "{kind:?}");
    }
}

/// One without signals stands at the head, and is let in with the one that was preferred.
#[test]
fn readers_that_were_passed_over_come_in_as_well() {
    let (mut step, held) = (Step::new(), writer());
    let [silent, heard] = [(); 2].map(|()| claim(READ, MINUTE));
    let drawn = step.ask(&simulated::enqueue(&held, 8, Some(PRESENT)));
    let Enqueued::Granted(drawn) = drawn else { panic!("{drawn:?}") };
    enqueues_silently(&mut step, &silent);
    step.enqueues(&heard, PRESENT);
    if step.now % SHARE == 0 {
        step.pass(Duration::from_micros(1));
    }
    let give_back = Some(TokensUsed { used: drawn.first, reserved: drawn.last });
    step.ask(&simulated::release(Release { give_back, ..Release::of(&held) }, true));
    let told = handed(&mut step);
    assert!(told.len() == 1 && told[0].0 == heard.owner.as_str(), "{told:?}");
    assert_eq!(told[0].1.first, drawn.first.after().unwrap());
    assert!(!is_there(&step, QUEUE), "both are in");
    assert!(step.looks(&silent));
}

/// An owner used one of its eight tokens, and those behind it are gone, or not.
#[test]
fn unused_tokens_go_to_the_next_that_hears() {
    for kind in kinds() {
        for gone in [0, 1, 2] {
            let (mut step, held, next) = (Step::new(), writer(), claim(kind, MINUTE));
            let drawn = step.ask(&simulated::enqueue(&held, 8, Some(PRESENT)));
            let Enqueued::Granted(drawn) = drawn else { panic!("{drawn:?}") };
            for _ in 0..gone {
                step.enqueues(&claim(WRITE, MINUTE), &format!("{ABSENT}{gone}"));
            }
            step.enqueues(&next, PRESENT);
            let give_back = Some(TokensUsed { used: drawn.first, reserved: drawn.last });
            let release = Release { give_back, ..Release::of(&held) };
            assert_eq!(step.ask(&simulated::release(release, true)), (Found::Ours, true));
            let told = handed(&mut step);
            assert_eq!(told[0].1.first, drawn.first.after().unwrap(), "{kind:?} behind {gone}");
        }
    }
}

/// No token can be drawn: whoever waits keeps its place, and no lock is left behind.
#[test]
fn nobody_is_handed_a_lock_behind_a_mark_that_is_no_number() {
    for kind in kinds() {
        let (mut step, held, next) = (Step::new(), writer(), claim(kind, MINUTE));
        assert!(step.enters(&held));
        step.enqueues(&next, PRESENT);
        let mark = held.key.mark_key();
        step.server.execute(&[b"SET", mark.as_bytes(), b"many"]);
        let found = step.ask(&simulated::release(Release::of(&held), true));
        assert_eq!(found, (Found::Ours, false), "{kind:?}");
        assert!(step.told().is_empty() && !is_there(&step, LOCK) && is_there(&step, QUEUE));
        assert!(!is_there(&step, HOLDERS), "{kind:?}");
        step.server.execute(&[b"DEL", mark.as_bytes()]);
        assert!(step.looks(&next), "{kind:?}: somebody has mended it");
    }
}

/// Another program, or one of another version, has written to the queue.
#[test]
fn what_is_no_entry_of_a_queue_is_passed_over() {
    let odd = [
        "junk",
        "5 60000 0 redlock:present odd",
        "5 60000 1e9 redlock:present odd",
        "5 60000 x redlock:present odd",
        "5 60000 p0 redlock:present odd",
        "5 0 1 redlock:present odd",
        "5 10000000000001 1 redlock:present odd",
        "10000000000001 5 1 redlock:present odd",
        "10000000000001 5 r redlock:present odd",
    ];
    for kind in kinds() {
        for odd in odd {
            let (mut step, held, next) = (Step::new(), writer(), claim(kind, MINUTE));
            assert!(step.enters(&held));
            step.server.execute(&[b"RPUSH", QUEUE, odd.as_bytes()]);
            step.enqueues(&next, PRESENT);
            step.leaves(&held);
            assert!(is_handed(&mut step, &next), "{kind:?} behind {odd:?}");
            assert!(!is_there(&step, QUEUE), "{kind:?} behind {odd:?}");
        }
    }
    let (mut step, held) = (Step::new(), writer());
    assert!(step.enters(&held));
    step.enqueues(&claim(READ, MINUTE), PRESENT);
    step.server.execute(&[b"RPUSH", QUEUE, odd[odd.len() - 1].as_bytes()]);
    step.enqueues(&claim(READ, MINUTE), PRESENT);
    step.leaves(&held);
    assert_eq!((handed(&mut step).len(), is_there(&step, QUEUE)), (2, false));
}

/// A request to be told lets nobody have the lock: its process tries to take it.
#[test]
fn whoever_asked_to_be_told_is_told_and_takes_up_its_room() {
    let (mut step, held, next) = (Step::new(), writer(), writer());
    assert!(step.enters(&held));
    assert!(step.ask(&simulated::hint(&writer(), PRESENT)));
    step.enqueues(&next, PRESENT);
    let found = step.ask(&simulated::release(Release::of(&held), true));
    assert_eq!((found, step.told().len()), ((Found::Ours, false), 1));
    assert!(!is_there(&step, LOCK) && length(&mut step) == Reply::Int(1));
    // A permit is for one of several.
    let (mut step, held, next) = (Step::new(), writer(), permit(2));
    assert!(step.enters(&held));
    assert!(step.ask(&simulated::hint(&permit(2), PRESENT)));
    step.enqueues(&next, PRESENT);
    step.leaves(&held);
    assert_eq!(step.told().len(), 2);
    assert!(step.looks(&next));
    // Two processes may listen to a channel: one of them tries.
    let (mut step, held) = (Step::new(), writer());
    step.server.set_listeners(DYING.as_bytes(), 2);
    let [first, second, third] = [(); 3].map(|()| permit(3));
    assert!(step.enters(&held));
    step.enqueues(&first, PRESENT);
    assert!(step.ask(&simulated::hint(&permit(3), DYING)));
    step.enqueues(&second, PRESENT);
    step.enqueues(&third, PRESENT);
    step.leaves(&held);
    assert_eq!(length(&mut step), Reply::Int(1), "there are three permits");
    // It has waited for its two seconds, and is over.
    let (mut step, held) = (Step::new(), claim(READ, MINUTE));
    assert!(step.enters(&held) && step.ask(&simulated::hint(&writer(), PRESENT)));
    step.pass(3 * SECOND);
    step.leaves(&held);
    assert!(step.told().is_empty() && !is_there(&step, QUEUE));
}

#[test]
fn mailboxes_end_and_those_of_another_type_belong_to_nobody() {
    for kind in kinds() {
        let (mut step, held, next) = (Step::new(), writer(), claim(kind, MINUTE));
        assert!(step.enters(&held));
        step.enqueues(&claim(kind, MINUTE), "@redlock:foreign");
        step.enqueues(&next, MAILBOX);
        step.server.execute(&[b"SET", b"redlock:foreign", b"foreign"]);
        let found = step.ask(&simulated::release(Release::of(&held), true));
        assert_eq!(found, (Found::Ours, true), "{kind:?}");
        assert_eq!(left(&step, b"redlock:mailbox"), 60_000, "{kind:?}");
        assert!(step.looks(&next), "{kind:?}");
    }
    // Whoever comes to the head of the queue is told so.
    let (mut step, held, first) = (Step::new(), writer(), writer());
    assert!(step.enters(&held));
    step.enqueues(&first, PRESENT);
    step.enqueues(&writer(), "@redlock:foreign");
    step.server.execute(&[b"SET", b"redlock:foreign", b"foreign"]);
    step.ask(&simulated::release(Release::leaving(&first), true));
    assert_eq!(length(&mut step), Reply::Int(1));
}

/// It would hear from a replica that it has the lock, and it does not have it.
#[test]
fn nothing_is_published_where_nobody_listens() {
    for kind in kinds() {
        let (mut step, held) = (Step::new(), writer());
        assert!(step.enters(&held));
        step.enqueues(&claim(kind, MINUTE), ABSENT);
        step.leaves(&held);
        assert_eq!(step.server.take_published(), [], "{kind:?}");
        assert!(!is_there(&step, LOCK) && !is_there(&step, QUEUE), "{kind:?}");
    }
}

#[test]
fn the_first_of_a_queue_takes_nobody_out_behind_it() {
    let (mut step, first) = (Step::new(), writer());
    assert!(step.enters(&writer()));
    step.enqueues(&first, PRESENT);
    for _ in 0..3 {
        step.enqueues(&writer(), ABSENT);
    }
    let look = Look { ahead: 0, removes_dead: true };
    let answer = step.ask(&simulated::look(&first, 1, look));
    let Enqueued::Waiting { position, .. } = answer else { panic!("{answer:?}") };
    assert_eq!((position.ahead, length(&mut step)), (0, Reply::Int(4)));
}

/// The first of those who wait for a permit behind a writer that gives up.
#[test]
fn whoever_leaves_the_queue_lets_those_behind_it_in() {
    for kind in [READ, permit(2).kind] {
        let (mut step, first, next) = (Step::new(), writer(), claim(kind, MINUTE));
        assert!(step.enters(&claim(kind, MINUTE)));
        step.enqueues(&first, PRESENT);
        step.enqueues(&next, PRESENT);
        step.ask(&simulated::release(Release::leaving(&first), true));
        assert!(is_handed(&mut step, &next), "{kind:?}");
    }
}
