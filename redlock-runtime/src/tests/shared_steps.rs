//! Who may enter a lock of a shared kind, step by step, on a model of a server that runs the
//! shipped scripts.

use std::time::Duration;

use redis_model::Reply;

use super::fake::{MINUTE, SECOND};
use super::step::{
    ABSENT, DYING, MAILBOX, PRESENT, QUEUE, READ, Step, WRITE, claim, is_there, permit, reader,
    writer,
};
use crate::backend::simulated::{self, SimulatedReply};
use crate::backend::{Acquired, Claim, Downgraded, Enqueued, Found, Look, QueueSignal, Release};
use crate::fencing::FencingToken;

/// So long a request of a writer to be told keeps readers out.
const STAYS: Duration = Duration::from_secs(2);
const HOUR: Duration = Duration::from_secs(3600);
/// More than two scripts look at.
const MANY: usize = 40;

/// It would look when the longest lease ends, of which it was told.
#[test]
fn the_first_in_the_queue_is_told_when_the_leases_ahead_end_earlier() {
    let mut step = Step::new();
    let (short, long) = (claim(READ, SECOND), reader());
    assert!(step.enters(&short) && step.enters(&long));
    step.enqueues(&claim(WRITE, SECOND), PRESENT);
    step.leaves(&long);
    let told = step.told();
    assert!(matches!(told.as_slice(), [message] if message.starts_with("look ")), "{told:?}");
}

/// Where writers poll, they are told of a release and ask then. Readers would be quicker each time.
#[test]
fn no_reader_enters_between_the_hint_to_a_writer_and_its_attempt() {
    let mut step = Step::new();
    let (first, late, second, wish) = (reader(), reader(), writer(), writer());
    assert!(step.enters(&first));
    assert!(step.ask(&simulated::hint(&wish, PRESENT)));
    assert!(!step.enters(&late), "a writer waits");
    step.leaves(&first);
    assert_eq!(step.told().len(), 1, "it is told");
    let refused = step.ask(&simulated::acquire(&late));
    let Acquired::Refused { holder, free_in, .. } = refused else { panic!("the writer is first") };
    assert_eq!((holder, free_in), (None, None), "nobody has it");
    let queued = step.ask(&simulated::enqueue(&reader(), 1, Some(PRESENT)));
    let Enqueued::Waiting { holder, .. } = queued else { panic!("the writer is still first") };
    assert_eq!(holder, None);
    assert!(step.enters(&second));
    step.ask(&simulated::release(Release::leaving(&wish), true));
    step.leaves(&second);
    assert!(step.enters(&late));
}

/// Its process has ended, or cannot reach the server.
#[test]
fn a_hint_that_nobody_takes_back_keeps_readers_out_for_two_seconds() {
    for channel in [PRESENT, MAILBOX] {
        let mut step = Step::new();
        let (first, second, third, late) = (reader(), reader(), reader(), reader());
        assert!(step.enters(&first) && step.enters(&second));
        assert!(step.ask(&simulated::hint(&writer(), channel)));
        step.enqueues(&third, PRESENT);
        assert!(!step.enters(&late));
        step.pass(STAYS);
        // Those who have waited behind it enter as well.
        step.leaves(&first);
        assert_eq!(step.told().len(), 1);
        assert!(step.looks(&third), "it is in");
        assert!(step.enters(&late));
        // Nobody has released since it was over.
        assert!(step.ask(&simulated::hint(&writer(), channel)));
        step.pass(STAYS);
        assert!(step.enters(&reader()), "{channel}");
    }
}

/// The two seconds would last as long as the clock needs to get there again.
#[test]
fn a_hint_keeps_nobody_out_after_the_clock_was_set_back() {
    for has_readers in [true, false] {
        let mut step = Step::new();
        let (first, late) = (reader(), reader());
        assert!(step.enters(&first));
        assert!(step.ask(&simulated::hint(&writer(), PRESENT)));
        step.sets_back(HOUR);
        if !has_readers {
            step.leaves(&first);
        }
        assert!(step.enters(&late), "beside readers: {has_readers}");
    }
}

/// The hint was asked for while a writer had the lock, which then became a reader.
#[test]
fn a_hint_that_does_not_stay_keeps_no_readers_out() {
    let mut step = Step::new();
    let (held, next, late) = (writer(), reader(), reader());
    assert!(step.enters(&held));
    // This one stays at the head: readers have the lock, and leave it no room.
    assert!(step.ask(&simulated::hint(&permit(2), PRESENT)));
    assert!(step.ask(&simulated::hint(&writer(), PRESENT)));
    let downgraded = step.ask(&simulated::downgrade(&held, &next));
    assert!(matches!(downgraded, Downgraded::Granted(_)), "{downgraded:?}");
    assert!(step.enters(&late));
}

#[test]
fn many_dead_writers_are_taken_out_bit_by_bit() {
    let mut step = Step::new();
    assert!(step.enters(&reader()));
    for _ in 0..MANY {
        step.enqueues(&writer(), ABSENT);
    }
    let late = reader();
    step.enqueues(&late, PRESENT);
    assert!(!step.looks(&late), "{MANY} are more than one call looks at");
    assert!(step.looks(&late));
}

/// They have waited behind a writer that is gone, which the attempt of another one shows.
#[test]
fn whoever_waited_behind_the_dead_is_let_in() {
    let mut step = Step::new();
    assert!(step.enters(&reader()));
    let (second, third) = (reader(), reader());
    step.listens(true);
    step.enqueues(&writer(), DYING);
    step.enqueues(&second, PRESENT);
    step.enqueues(&third, PRESENT);
    step.enqueues(&writer(), PRESENT);
    let late = reader();
    step.enqueues(&late, PRESENT);
    step.listens(false);
    assert!(!step.looks(&late), "a writer came before");
    assert!(step.looks(&second) && step.looks(&third), "they are in");
}

/// Those who do not wait would be refused until somebody else asks.
#[test]
fn a_caller_that_does_not_wait_finds_out_that_a_writer_is_gone() {
    for is_another_there in [false, true] {
        let mut step = Step::new();
        let second = reader();
        assert!(step.enters(&reader()));
        step.listens(true);
        step.enqueues(&writer(), DYING);
        step.enqueues(&second, PRESENT);
        if is_another_there {
            step.enqueues(&writer(), PRESENT);
        }
        assert!(!step.enters(&reader()), "it is there");
        step.listens(false);
        assert_eq!(step.enters(&reader()), !is_another_there);
        assert_eq!(step.told().len(), 1, "the second one hears of it");
        assert!(step.looks(&second), "it has waited behind it, and is in");
    }
}

/// They would fill it before its client fetches what is there.
#[test]
fn callers_that_do_not_wait_leave_mailboxes_alone() {
    let mut step = Step::new();
    assert!(step.enters(&reader()));
    step.enqueues(&writer(), MAILBOX);
    assert!((0..100).all(|_| !step.enters(&reader())));
}

/// Those of another kind get the lock when the last of them ends.
#[test]
fn a_reader_is_not_told_of_a_permit_that_ended_before_the_others() {
    let mut step = Step::new();
    let short = Claim { expire: SECOND, ..permit(2) };
    assert!(step.enters(&short) && step.enters(&permit(2)));
    step.pass(2 * SECOND);
    let answer = step.ask(&simulated::acquire(&reader()));
    let Acquired::Refused { free_in: Some(free_in), .. } = answer else { panic!("{answer:?}") };
    assert!(free_in > MINUTE / 2, "{free_in:?}");
}

/// What stands in the lock was to last as long as the leases, by the clock of then.
#[test]
fn renewals_let_a_group_end_after_the_clock_has_stepped_back() {
    let mut step = Step::new();
    let held = reader();
    assert!(step.enters(&held));
    step.now -= 3_600_000_000;
    step.pass(Duration::ZERO);
    assert_eq!(step.ask(&simulated::renew(std::slice::from_ref(&held))), [Found::Ours]);
    step.pass(MINUTE + SECOND);
    assert!(step.enters(&writer()), "its holder has died");
}

/// Each ping leaves a message in its mailbox.
#[test]
fn a_writer_whose_mailbox_is_not_emptied_is_taken_out() {
    let mut step = Step::new();
    assert!(step.enters(&reader()));
    step.enqueues(&writer(), MAILBOX);
    let late = reader();
    step.enqueues(&late, PRESENT);
    let looks = (1..100).find(|_| step.looks(&late));
    assert!(looks.is_some_and(|looks| looks > 4), "{looks:?}");
}

/// The lock was free, and those who waited have entered by the attempt of somebody else.
#[test]
fn whoever_asks_for_a_permit_may_enter_beside_those_who_waited() {
    let mut step = Step::new();
    let (held, waiting, late) = (claim(WRITE, SECOND), permit(2), permit(2));
    assert!(step.enters(&held));
    step.enqueues(&waiting, PRESENT);
    step.pass(2 * SECOND);
    assert!(step.enters(&late), "there are two permits");
    assert!(step.looks(&waiting), "it is in");
    assert!(!step.enters(&permit(2)));
}

/// More than come in at once: a message each time, of all that the process has to hear.
#[test]
fn readers_that_come_in_together_are_told_together() {
    let mut step = Step::new();
    let held = writer();
    assert!(step.enters(&held));
    let readers: Vec<Claim> = (0..100).map(|_| reader()).collect();
    for reader in &readers {
        step.enqueues(reader, PRESENT);
    }
    step.leaves(&held);
    let told = step.told();
    assert_eq!(told.len(), 2, "{told:?}");
    let handed = told.iter().filter_map(|message| simulated::signalled(message.as_bytes()));
    let handed: Vec<_> =
        handed.flatten().filter_map(|(owner, signal)| Some((owner, signal?))).collect();
    let owners = handed.iter().map(|(owner, _)| owner.as_str());
    assert!(owners.eq(readers.iter().map(|reader| reader.owner.as_str())));
    let is_above = |(_, one): &_, (_, next): &_| first_token(one) < first_token(next);
    assert!(handed.is_sorted_by(is_above), "each has a token of its own: {handed:?}");
    assert!(readers.iter().all(|reader| step.looks(reader)), "they are in");
}

fn first_token(signal: &QueueSignal) -> FencingToken {
    match signal {
        QueueSignal::HandedOver { fencing_tokens, .. } => fencing_tokens.first,
        QueueSignal::Disturbed => panic!("{signal:?}"),
    }
}

/// Who is in the queue, and gone, takes no place from those behind it.
#[test]
fn permits_of_the_gone_go_to_those_behind_them() {
    let mut step = Step::new();
    let held = writer();
    assert!(step.enters(&held));
    let [gone, here] = [ABSENT, PRESENT].map(|channel| [channel; 3]);
    let waiting: Vec<Claim> = [gone, here]
        .concat()
        .into_iter()
        .map(|channel| {
            let permit = permit(2);
            step.enqueues(&permit, channel);
            permit
        })
        .collect();
    step.leaves(&held);
    let told = step.told();
    let told = told.iter().filter_map(|one| simulated::signalled(one.as_bytes())).flatten();
    assert_eq!(told.filter(|(_, signal)| signal.is_some()).count(), 2, "there are two permits");
    assert!(step.looks(&waiting[3]) && step.looks(&waiting[4]) && !step.looks(&waiting[5]));
}

/// The fencing mark orders the tokens. Counters of keys that are used once would add up.
#[test]
fn owners_that_nobody_waits_for_leave_no_counter() {
    let (mut step, held) = (Step::new(), writer());
    let has_counter = |step: &Step| step.server.keyspace().get(b"{lock:k}:fence").is_some();
    assert!(step.enters(&permit(2)) && step.enters(&permit(2)));
    assert!(!has_counter(&step));
    step.pass(MINUTE + SECOND);
    assert!(step.enters(&held));
    let reader = reader();
    let downgraded = step.ask(&simulated::downgrade(&held, &reader));
    assert!(matches!(downgraded, Downgraded::Granted(_)), "{downgraded:?}");
    assert!(!has_counter(&step));
    // Where somebody waits, the next fencing tokens come after those that were reserved.
    step.enqueues(&writer(), PRESENT);
    step.leaves(&reader);
    assert!(has_counter(&step));
}

#[test]
fn holders_of_another_type_are_left_alone() {
    let mut step = Step::new();
    let foreign = "{lock:k}:holders";
    step.server.execute(&[b"RPUSH", foreign.as_bytes(), b"foreign"]);
    let answer = simulated::acquire(&reader()).ask(&mut step.server, false);
    assert!(matches!(answer, SimulatedReply::Error(_)));
    assert!(step.server.keyspace().get(foreign.as_bytes()).is_some());
    assert!(step.server.keyspace().get(b"lock:k").is_none());
}

/// How many are ahead of an owner, by its look.
fn ahead(step: &mut Step, claim: &Claim, removes_dead: bool) -> u32 {
    let look = Look { ahead: u32::try_from(MANY).unwrap(), removes_dead };
    match step.ask(&simulated::look(claim, 1, look)) {
        Enqueued::Waiting { position, .. } => position.ahead,
        answer => panic!("{answer:?}"),
    }
}

/// A leader that does not release, but is killed, has candidates that are killed as well.
#[test]
fn entries_of_processes_that_are_gone_leave_the_queue_of_a_lock_that_is_not_released() {
    for kind in [WRITE, permit(2).kind] {
        let (mut step, owner) = (Step::new(), || claim(kind, MINUTE));
        let [first, dying, last] = [owner(), owner(), owner()];
        assert!(step.enters(&writer()));
        step.enqueues(&first, PRESENT);
        for _ in 0..MANY {
            step.enqueues(&owner(), ABSENT);
        }
        step.enqueues(&dying, DYING);
        step.enqueues(&last, PRESENT);
        // All connections of its host may be down.
        let max = u32::try_from(MANY).unwrap();
        assert_eq!(
            ahead(&mut step, &dying, true),
            max + 1,
            "{kind:?}: nobody listens to it either"
        );
        assert_eq!(ahead(&mut step, &last, false), max + 2, "{kind:?}: its connection broke");
        let left: Vec<u32> = (0..4).map(|_| ahead(&mut step, &last, true)).collect();
        assert_eq!(left, [max - 14, max - 30, 1, 1], "{kind:?}");
        assert_eq!(ahead(&mut step, &first, true), 0, "{kind:?}");
    }
}

/// Writers that polled were killed while a writer had the lock, which became a reader.
#[test]
fn requests_of_writers_that_are_gone_do_not_hide_the_one_that_keeps_readers_out() {
    let (mut step, held) = (Step::new(), writer());
    assert!(step.enters(&held));
    for _ in 0..MANY {
        assert!(step.ask(&simulated::hint(&writer(), ABSENT)));
    }
    let downgraded = step.ask(&simulated::downgrade(&held, &reader()));
    assert!(matches!(downgraded, Downgraded::Granted { .. }), "{downgraded:?}");
    assert!(step.ask(&simulated::hint(&writer(), PRESENT)));
    assert!(!step.enters(&reader()), "a writer waits");
}

/// A leader does not release, and its candidates, of whom some are killed, ask once a second.
#[test]
fn hints_of_the_gone_end_while_others_ask_for_theirs() {
    let mut step = Step::new();
    assert!(step.enters(&claim(WRITE, HOUR)));
    let gone = writer();
    assert!(step.ask(&simulated::hint(&gone, ABSENT)));
    for _ in 0..61 {
        let asks = writer();
        assert!(step.ask(&simulated::hint(&asks, PRESENT)));
        step.pass(SECOND);
        step.ask(&simulated::release(Release::leaving(&asks), true));
        assert!(step.ask(&simulated::hint(&writer(), MAILBOX)), "another one is killed");
    }
    let Reply::Array(left) = step.server.execute(&[b"LRANGE", QUEUE, b"0", b"-1"]) else {
        panic!("it is a list")
    };
    assert!(left.len() < 61, "{} are left", left.len());
    let owner = gone.owner.as_str().as_bytes();
    assert!(!left.iter().any(|entry| matches!(entry, Reply::Bulk(text) if text.ends_with(owner))));
}

/// They look once a second, or more seldom.
#[test]
fn a_hint_does_not_shorten_the_life_of_a_queue() {
    let mut step = Step::new();
    assert!(step.enters(&claim(WRITE, HOUR)));
    assert!(step.ask(&simulated::hint(&writer(), PRESENT)));
    step.pass(59 * SECOND);
    let waiting = writer();
    step.enqueues(&waiting, PRESENT);
    assert!(step.ask(&simulated::hint(&writer(), PRESENT)));
    step.pass(59 * SECOND);
    assert!(!step.looks(&waiting) && is_there(&step, QUEUE));
}
