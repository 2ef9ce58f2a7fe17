//! Commands for exclusive locks one after another, where somebody else has the lock, waits, or has
//! written to its keys. On a model of a server that runs the shipped scripts.

use std::time::Duration;

use redis_model::Reply;

use super::fake::{MINUTE, SECOND};
use super::step::{ABSENT, LOCK, PRESENT, QUEUE, Step, WRITE, claim, is_there, writer};
use crate::backend::simulated;
use crate::backend::{Claim, Enqueued, FencingTokens, Found, Look, Release, Rotated, TokensUsed};
use crate::fencing::FencingToken;
use crate::key::LockKey;
use crate::kind::Kind;

fn writer_of(name: &str) -> Claim {
    Claim { key: LockKey::new("lock:", name).unwrap(), ..writer() }
}

fn makes_foreign(step: &mut Step, key: &[u8]) {
    step.server.execute(&[b"DEL", key]);
    assert_eq!(step.server.execute(&[b"RPUSH", key, b"foreign"]), Reply::Int(1));
}

/// In a queue, with so many fencing tokens when the lock is handed over.
fn enqueues(step: &mut Step, claim: &Claim, reserve: u32) {
    let answer = step.ask(&simulated::enqueue(claim, reserve, Some(PRESENT)));
    assert!(matches!(answer, Enqueued::Waiting { .. }), "{answer:?}");
}

fn draws(step: &mut Step, claim: &Claim, reserve: u32) -> FencingTokens {
    match step.ask(&simulated::enqueue(claim, reserve, Some(PRESENT))) {
        Enqueued::Granted(drawn) => drawn,
        answer => panic!("{answer:?}"),
    }
}

fn after(fencing_token: FencingToken) -> FencingToken {
    fencing_token.after().unwrap()
}

#[test]
fn each_of_several_releases_finds_what_became_of_its_own_lock() {
    let ours: Vec<Claim> = ["a", "b", "c", "d", "e"].map(writer_of).into();
    for is_first in [true, false] {
        let mut step = Step::new();
        assert!(ours.iter().all(|claim| step.enters(claim)));
        // Handed over, deleted, another owner, another type, and one that nobody else wants.
        step.enqueues(&writer_of("a"), PRESENT);
        step.server.execute(&[b"DEL", b"lock:b"]);
        step.server.execute(&[b"SET", b"lock:c", b"another"]);
        makes_foreign(&mut step, b"lock:d");
        let mut order: Vec<usize> = (0..ours.len()).collect();
        if !is_first {
            order.reverse();
        }
        let releases: Vec<_> = order.iter().map(|index| Release::of(&ours[*index])).collect();
        let found = step.ask(&simulated::release_all(&releases));
        let expected = [
            (Found::Ours, true),
            (Found::Gone, false),
            (Found::Stolen, false),
            (Found::Stolen, false),
            (Found::Ours, false),
        ];
        assert_eq!(found, order.iter().map(|index| expected[*index]).collect::<Vec<_>>());
        let left = [b"lock:a", b"lock:b", b"lock:c", b"lock:d", b"lock:e"];
        let left = left.map(|lock| is_there(&step, lock));
        assert_eq!(left, [true, false, true, true, false]);
    }
}

/// A release finds another owner in each lock, and changes nothing.
#[test]
fn several_that_are_all_lost_are_left_alone() {
    let mut step = Step::new();
    let ours = ["a", "b"].map(writer_of);
    for lock in [b"lock:a", b"lock:b"] {
        step.server.execute(&[b"SET", lock, b"another"]);
    }
    let found = step.ask(&simulated::release_all(&ours.each_ref().map(Release::of)));
    assert_eq!(found, [(Found::Stolen, false); 2]);
    assert!(is_there(&step, b"lock:a") && is_there(&step, b"lock:b"));
    // The owners are swapped: each lock has the owner of the other one.
    let swapped = [&ours[1], &ours[0]].map(|other| other.owner.as_str().to_owned());
    for (lock, owner) in [b"lock:a", b"lock:b"].into_iter().zip(&swapped) {
        step.server.execute(&[b"SET", lock, owner.as_bytes()]);
    }
    let found = step.ask(&simulated::release_all(&ours.each_ref().map(Release::of)));
    assert_eq!(found, [(Found::Stolen, false); 2]);
    // A call without an owner does nothing: it makes the script known.
    let release = simulated::release_all(&[]);
    assert!(!matches!(release.ask(&mut step.server, false), simulated::SimulatedReply::Error(_)));
}

/// A client library that repeats a command by itself makes two entries of one.
#[test]
fn no_owner_that_lets_go_of_a_lock_is_handed_it_again() {
    for way in ["release_all", "rotate"] {
        let (mut step, held, twice) = (Step::new(), writer(), writer());
        assert!(step.enters(&held));
        enqueues(&mut step, &twice, 1);
        enqueues(&mut step, &twice, 1);
        step.leaves(&held);
        step.told();
        if way == "rotate" {
            let drawn = FencingToken::new(step.now).unwrap();
            let tokens = TokensUsed { used: drawn, reserved: drawn };
            let call = simulated::rotate(&twice, tokens, &writer(), 1, Some(PRESENT));
            let rotated = step.ask(&call);
            assert!(matches!(rotated, Rotated::Kept(_)), "{rotated:?}");
        } else {
            let found = step.ask(&simulated::release_all(&[Release::of(&twice)]));
            assert_eq!(found, [(Found::Ours, false)]);
            assert!(!is_there(&step, LOCK), "nobody else waits");
        }
        assert!(step.told().is_empty() && !is_there(&step, QUEUE), "{way}");
    }
}

/// The lease of one lock says nothing about that of another one.
#[test]
fn renewals_of_several_find_each_by_itself() {
    let claims = ["a", "b", "c", "d", "e"].map(writer_of);
    let mut step = Step::new();
    assert!(claims.iter().all(|claim| step.enters(claim)));
    makes_foreign(&mut step, b"lock:a");
    step.server.execute(&[b"DEL", b"lock:b"]);
    step.server.execute(&[b"SET", b"lock:c", b"another", b"PX", b"90"]);
    step.pass(SECOND / 20);
    let found = step.ask(&simulated::renew(&claims));
    let [ours, gone, stolen] = [Found::Ours, Found::Gone, Found::Stolen];
    assert_eq!(found, [stolen, gone, stolen, ours, ours]);
    let ends = |lock: &[u8]| step.server.keyspace().ends(lock).map(|end| end - step.now / 1000);
    let expire = u64::try_from(MINUTE.as_millis()).unwrap();
    assert_eq!([ends(b"lock:c"), ends(b"lock:d")], [Some(40), Some(expire)]);
}

#[test]
fn a_lock_that_was_kept_for_a_while_is_nobody_s() {
    let (mut step, held, next) = (Step::new(), writer(), writer());
    let retain = |claim| Release { retain: Some(SECOND), ..Release::of(claim) };
    let call = |claim| simulated::release(retain(claim), true);
    assert_eq!(step.ask(&call(&held)), (Found::Gone, false));
    assert!(step.enters(&held));
    assert_eq!(step.ask(&call(&next)), (Found::Stolen, false));
    assert_eq!(step.ask(&call(&held)), (Found::Ours, false));
    // Its answer was lost, and its client library sends it again.
    step.pass(SECOND / 2);
    assert_eq!(step.ask(&call(&held)), (Found::Ours, false));
    let left = step.server.keyspace().ends(LOCK).map(|end| end - step.now / 1000);
    assert_eq!(left, Some(500), "a repetition changes nothing");
    enqueues(&mut step, &next, 1);
    assert_eq!(step.ask(&call(&held)), (Found::Ours, true), "somebody waits");
    makes_foreign(&mut step, QUEUE);
    assert_eq!(step.ask(&call(&held)), (Found::Ours, true), "it is a list");
    step.server.execute(&[b"SET", QUEUE, b"foreign"]);
    assert_eq!(step.ask(&call(&held)), (Found::Ours, false), "the queue cannot be read");
}

#[test]
fn a_token_is_raised_for_its_owner_and_never_lowered() {
    for kind in [WRITE, Kind::Read] {
        let (mut step, held) = (Step::new(), claim(kind, SECOND));
        let [mark, counter] = [held.key.mark_key(), held.key.counter_key()];
        let [low, middle, high] = [1, 2, 3].map(|day| step.now + day * 86_400_000_000);
        let raise = |number| simulated::raise(&held, FencingToken::new(number).unwrap());
        let get = |step: &mut Step, key: &str| match step.server.execute(&[b"GET", key.as_bytes()])
        {
            Reply::Bulk(text) => String::from_utf8(text).unwrap().parse().ok(),
            _ => None,
        };
        assert_eq!(step.ask(&raise(low)), Found::Gone);
        step.server.execute(&[b"SET", LOCK, b"another", b"PX", b"900"]);
        assert_eq!(step.ask(&raise(low)), Found::Stolen);
        step.server.execute(&[b"DEL", LOCK]);
        assert!(step.enters(&held));
        assert_eq!(step.ask(&raise(middle)), Found::Ours);
        assert_eq!(step.ask(&raise(low)), Found::Ours);
        let both = (get(&mut step, &mark), get(&mut step, &counter));
        assert_eq!(both, (Some(middle), None), "{kind:?}: there was no counter");
        step.server.execute(&[b"SET", counter.as_bytes(), middle.to_string().as_bytes()]);
        assert_eq!(step.ask(&raise(low)), Found::Ours);
        assert_eq!(get(&mut step, &counter), Some(middle), "{kind:?}");
        assert_eq!(step.ask(&raise(high)), Found::Ours);
        let both = (get(&mut step, &mark), get(&mut step, &counter));
        assert_eq!(both, (Some(high), Some(high)), "{kind:?}");
        assert!(step.server.keyspace().ends(counter.as_bytes()).is_some(), "{kind:?}");
    }
}

/// `WAIT` would count the replicas that have an earlier write of its connection.
#[test]
fn a_mark_that_needs_no_raising_is_written_as_well() {
    for kind in [WRITE, Kind::Read] {
        let (mut step, held) = (Step::new(), claim(kind, SECOND));
        let mark = held.key.mark_key();
        assert!(step.enters(&held));
        step.server.execute(&[b"PEXPIRE", mark.as_bytes(), b"900"]);
        let low = FencingToken::new(1).unwrap();
        assert_eq!(step.ask(&simulated::raise(&held, low)), Found::Ours);
        let Reply::Int(left) = step.server.execute(&[b"PTTL", mark.as_bytes()]) else { panic!() };
        assert!(left > 86_400_000, "{kind:?}: {left}");
    }
}

/// The lease of another reader goes on.
#[test]
fn no_token_is_raised_for_a_reader_whose_lease_has_ended() {
    let (mut step, short) = (Step::new(), claim(Kind::Read, SECOND));
    assert!(step.enters(&short) && step.enters(&claim(Kind::Read, MINUTE)));
    step.pass(2 * SECOND);
    let drawn = FencingToken::new(step.now).unwrap();
    assert_eq!(step.ask(&simulated::raise(&short, drawn)), Found::Gone);
}

#[test]
fn whoever_gives_others_their_turn_gives_its_unused_tokens_back() {
    let (mut step, held, next, again) = (Step::new(), writer(), writer(), writer());
    let drawn = draws(&mut step, &held, 8);
    enqueues(&mut step, &next, 1);
    let tokens = TokensUsed { used: drawn.first, reserved: drawn.last };
    let rotated = step.ask(&simulated::rotate(&held, tokens, &again, 1, None));
    let Rotated::Passed { position, .. } = rotated else { panic!("{rotated:?}") };
    assert!(!position.is_signalled && position.ahead == 0);
    assert!(step.server.keyspace().ends(QUEUE).is_some(), "a queue does not stay for ever");
    let answer = step.ask(&simulated::look(&next, 1, Look::by_clock(0)));
    let Enqueued::Granted(handed) = answer else { panic!("{answer:?}") };
    assert_eq!(handed.first, after(drawn.first));
}

#[test]
fn whoever_gives_readers_their_turn_hears_of_them() {
    let (mut step, held, other) = (Step::new(), writer(), writer());
    let drawn = draws(&mut step, &held, 1);
    step.enqueues(&claim(Kind::Read, MINUTE), PRESENT);
    step.enqueues(&claim(Kind::Read, MINUTE), PRESENT);
    let tokens = TokensUsed { used: drawn.first, reserved: drawn.last };
    let rotated = step.ask(&simulated::rotate(&held, tokens, &writer(), 1, Some(PRESENT)));
    let Rotated::Passed { holder: Some(holder), .. } = rotated else { panic!("{rotated:?}") };
    let answer = step.ask(&simulated::enqueue(&other, 1, Some(PRESENT)));
    let Enqueued::Waiting { holder: Some(told), position } = answer else { panic!("{answer:?}") };
    assert_eq!((&holder, position.ahead), (&told, 1));
    assert!(holder.contains('2'), "{holder}");
}

/// Nobody would look at the lock of an owner that is gone before its lease ends.
#[test]
fn no_lock_is_left_to_an_owner_that_is_gone() {
    for kind in [WRITE, Kind::Read] {
        let mut step = Step::new();
        let held = writer();
        assert!(step.enters(&held));
        step.enqueues(&claim(kind, MINUTE), ABSENT);
        step.server.execute(&[b"DEL", LOCK]);
        assert_eq!(step.ask(&simulated::nudge(&held)), (None, 0));
        assert!(!is_there(&step, LOCK), "{kind:?}");
        assert!(step.enters(&held));
        step.enqueues(&claim(kind, MINUTE), ABSENT);
        step.server.execute(&[b"DEL", LOCK]);
        assert!(step.enters(&claim(Kind::Read, MINUTE)), "{kind:?}: it is free");
    }
}

/// Mark and counter may be lost, and its tokens were ahead of the clock.
#[test]
fn the_next_owner_comes_after_the_tokens_that_were_used() {
    let (mut step, held, next) = (Step::new(), writer(), writer());
    let drawn = draws(&mut step, &held, 8);
    enqueues(&mut step, &next, 1);
    for key in [held.key.mark_key(), held.key.counter_key()] {
        assert_eq!(step.server.execute(&[b"DEL", key.as_bytes()]), Reply::Int(1));
    }
    let used = TokensUsed { used: drawn.last, reserved: drawn.last };
    let release = Release { give_back: Some(used), ..Release::of(&held) };
    assert_eq!(step.ask(&simulated::release(release, true)), (Found::Ours, true));
    let answer = step.ask(&simulated::look(&next, 1, Look::by_clock(0)));
    let Enqueued::Granted(handed) = answer else { panic!("{answer:?}") };
    assert_eq!(handed.first, after(drawn.last));
}

#[test]
fn no_reserved_token_is_above_the_largest_one() {
    let (mut step, held, largest) = (Step::new(), writer(), (1 << 53) - 1);
    step.now = largest - 3;
    step.pass(Duration::ZERO);
    assert_eq!(draws(&mut step, &held, 8).last, FencingToken::new(largest).unwrap());
}
