//! Marks and counters that are ahead of the clock, or are lost, for each command that draws fencing
//! tokens. On a model of a server that runs the shipped scripts.

use std::time::Duration;

use redis_model::Reply;

use super::fake::MINUTE;
use super::step::{PRESENT, READ, Step, WRITE, claim, permit_of};
use crate::backend::simulated::{self, SimulatedCall};
use crate::backend::{
    Acquired, AllAcquired, Claim, Enqueued, FencingTokens, Found, Look, Release, TokensUsed,
};
use crate::fencing::FencingToken;
use crate::kind::Kind;
use crate::owner::ClientId;

/// In microseconds.
const DAY: u64 = 86_400_000_000;
/// So long a mark outlives the time of its fencing token, in ms.
const MARK_LIFE: u64 = 2 * 86_400_000;

fn set(step: &mut Step, key: &str, number: u64) {
    let (text, life) = (number.to_string(), (9 * MARK_LIFE).to_string());
    step.server.execute(&[b"SET", key.as_bytes(), text.as_bytes(), b"PX", life.as_bytes()]);
}

fn number(step: &mut Step, key: &str) -> Option<u64> {
    match step.server.execute(&[b"GET", key.as_bytes()]) {
        Reply::Bulk(text) => Some(String::from_utf8(text).unwrap().parse().unwrap()),
        _ => None,
    }
}

fn fencing_token(number: u64) -> FencingToken {
    FencingToken::new(number).unwrap()
}

fn tokens(answer: &Acquired) -> FencingTokens {
    match answer {
        Acquired::Granted { fencing_tokens, .. } => *fencing_tokens,
        Acquired::Refused { .. } => panic!("{answer:?}"),
    }
}

fn acquires(step: &mut Step, claim: &Claim) -> FencingTokens {
    tokens(&step.ask(&simulated::acquire(claim)))
}

fn enqueues(step: &mut Step, claim: &Claim) -> FencingTokens {
    match step.ask(&simulated::enqueue(claim, 1, Some(PRESENT))) {
        Enqueued::Granted(fencing_tokens) => fencing_tokens,
        answer => panic!("{answer:?}"),
    }
}

fn acquires_in_a_batch(step: &mut Step, claim: &Claim) -> FencingTokens {
    let (_, answers) = simulated::ask_batch(&mut step.server, &[], &[simulated::acquire(claim)]);
    // What a batch does not serve is sent by itself.
    answers
        .into_iter()
        .flatten()
        .next()
        .map_or_else(|| acquires(step, claim), |answer| tokens(&answer))
}

fn acquires_all(step: &mut Step, claim: &Claim) -> FencingTokens {
    match step.ask(&simulated::acquire_all(std::slice::from_ref(claim))) {
        AllAcquired::Granted { fencing_token, .. } => FencingTokens::one(fencing_token),
        answer @ AllAcquired::Refused { .. } => panic!("{answer:?}"),
    }
}

type Draw = fn(&mut Step, &Claim) -> FencingTokens;

/// Each way to have a free lock.
const DRAWS: [(&str, Kind, Draw); 6] = [
    ("acquire", WRITE, acquires),
    ("batch", WRITE, acquires_in_a_batch),
    ("acquire_all", WRITE, acquires_all),
    ("enqueue", WRITE, enqueues),
    ("acquire", READ, acquires),
    ("enqueue", READ, enqueues),
];

/// It is not lost while a clock that steps back may need it, and it does not stay for ever.
fn assert_lasts(step: &mut Step, mark: &str, context: &str) {
    let value = number(step, mark).expect("there is a mark");
    let ends = step.server.keyspace().ends(mark.as_bytes());
    let life = ends.expect("a mark ends") - value / 1000;
    assert!(life.abs_diff(MARK_LIFE) <= 2, "{context}: {life} ms after its token");
}

#[test]
fn a_mark_lasts_until_the_clock_has_left_it_behind_for_two_days() {
    for (way, kind, draw) in DRAWS {
        for marked in [None, Some(0), Some(4 * DAY)] {
            let (mut step, claim) = (Step::new(), claim(kind, MINUTE));
            let (mark, context) = (claim.key.mark_key(), format!("{way} {kind:?}, {marked:?}"));
            if let Some(marked) = marked {
                let a_day_ago = step.now - DAY;
                set(&mut step, &mark, a_day_ago + marked);
            }
            draw(&mut step, &claim);
            assert_lasts(&mut step, &mark, &context);
            let raised = step.now + 9 * DAY;
            let found = step.ask(&simulated::raise(&claim, fencing_token(raised)));
            assert_eq!(found, Found::Ours);
            assert_eq!(number(&mut step, &mark), Some(raised), "{context}");
            assert_lasts(&mut step, &mark, &format!("{context}, raised"));
        }
    }
}

/// A server whose memory is full may have evicted the mark; it may have lost the counter.
#[test]
fn fencing_tokens_come_after_the_mark_and_the_counter() {
    for (way, kind, draw) in DRAWS {
        for (is_counter_ahead, is_other_lost) in [(true, true), (true, false), (false, false)] {
            let (mut step, claim) = (Step::new(), claim(kind, MINUTE));
            let [mark, counter] = [claim.key.mark_key(), claim.key.counter_key()];
            let (ahead, behind) = (step.now + DAY, step.now - DAY);
            let pair = if is_counter_ahead { [&counter, &mark] } else { [&mark, &counter] };
            set(&mut step, pair[0], ahead);
            if !is_other_lost {
                set(&mut step, pair[1], behind);
            }
            let context = format!("{way} {kind:?}, {is_counter_ahead} {is_other_lost}");
            // Where others have drawn with the mark only, the counter is behind, and counts for
            // the commands of the queue.
            let is_queue = way == "enqueue";
            let drawn = draw(&mut step, &claim);
            if is_counter_ahead || !is_queue {
                assert!(drawn.first > fencing_token(ahead), "{context}: {drawn:?}");
            }
            let marked = number(&mut step, &mark).unwrap();
            assert!(fencing_token(marked) >= drawn.last, "{context}: {marked} behind {drawn:?}");
            assert!(is_counter_ahead || marked >= ahead, "{context}: the mark has fallen");
            let has_counter = number(&mut step, &counter).is_some();
            assert!(is_queue && kind == WRITE || !has_counter, "{context}: a counter is left");
        }
    }
}

fn release(step: &mut Step, claim: &Claim) {
    let call: SimulatedCall<(Found, bool)> = simulated::release(Release::of(claim), true);
    assert_eq!(step.ask(&call).0, Found::Ours);
}

/// More are let in than tokens may be reserved ahead of the clock.
#[test]
fn each_of_those_that_come_in_together_has_a_token_also_where_the_mark_is_ahead_of_the_clock() {
    for kind in [READ, permit_of(&ClientId::new("model"), 9).kind] {
        let (mut step, held) = (Step::new(), claim(WRITE, MINUTE));
        let mark = held.key.mark_key();
        assert!(step.enters(&held));
        let waiting: Vec<Claim> = (0..5).map(|_| claim(kind, MINUTE)).collect();
        for claim in &waiting {
            step.enqueues(claim, PRESENT);
        }
        let ahead = step.now + DAY;
        set(&mut step, &mark, ahead);
        release(&mut step, &held);
        assert_eq!(number(&mut step, &mark), Some(ahead + 5), "{kind:?}");
        for claim in &waiting {
            release(&mut step, claim);
        }
        step.pass(Duration::from_millis(1));
        let next = acquires(&mut step, &claim(WRITE, MINUTE));
        assert!(next.first > fencing_token(ahead + 5), "{kind:?}: {next:?}");
    }
}

/// It would stay for ever behind a lock whose key is used once.
#[test]
fn a_counter_ends_also_where_fencing_tokens_are_given_back() {
    let (mut step, held) = (Step::new(), claim(WRITE, MINUTE));
    let counter = held.key.counter_key();
    let answer = step.ask(&simulated::enqueue(&held, 8, Some(PRESENT)));
    let Enqueued::Granted(drawn) = answer else { panic!("{answer:?}") };
    let give_back = TokensUsed { used: drawn.first, reserved: drawn.last };
    let release = Release { give_back: Some(give_back), ..Release::of(&held) };
    assert_eq!(step.ask(&simulated::release(release, true)).0, Found::Ours);
    assert_eq!(number(&mut step, &counter).map(fencing_token), Some(drawn.first));
    assert!(step.server.keyspace().ends(counter.as_bytes()).is_some());
}

/// It was handed the lock and was not told, and the counter was lost; or the lock was deleted.
#[test]
fn an_owner_that_looks_has_fencing_tokens() {
    for was_handed_it in [true, false] {
        let (mut step, held, next) = (Step::new(), claim(WRITE, MINUTE), claim(WRITE, MINUTE));
        assert!(step.enters(&held));
        step.enqueues(&next, PRESENT);
        let counter = next.key.counter_key();
        let lost = if was_handed_it { &*counter } else { next.key.redis_key() };
        if was_handed_it {
            release(&mut step, &held);
        }
        assert_eq!(step.server.execute(&[b"DEL", lost.as_bytes()]), Reply::Int(1));
        let answer = step.ask(&simulated::look(&next, 8, Look::by_clock(0)));
        let Enqueued::Granted(drawn) = answer else { panic!("{answer:?}") };
        let eighth = (1..8).fold(drawn.first, |fencing_token, _| fencing_token.after().unwrap());
        assert!(was_handed_it || drawn.last == eighth, "{drawn:?}");
    }
}
