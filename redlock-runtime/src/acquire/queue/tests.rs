use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::sync::oneshot;

use super::*;
use crate::acquire::acquiring::Granted;
use crate::acquire::attempt::Terms;
use crate::acquire::place::LOOKS;
use crate::acquire::state::{GRANTS_TO_FORGET, QUESTION, Rest};
use crate::acquire::waiters::Waiters;
use crate::backend::{Backend, Claim, FencingTokens, Memory, MemoryStore};
use crate::clock::Clock;
use crate::fencing::FencingToken;
use crate::owner::Owner;
use crate::renewal::{Confirmed, Grant};

const EXPIRE: Duration = Duration::from_secs(10);

fn key(name: &str) -> LockKey {
    LockKey::new("", name).unwrap()
}

fn at(seconds: u64) -> Moment {
    Moment::ZERO.plus(Duration::from_secs(seconds))
}

/// A caller that waits until `end`, for as long as the receiver is kept.
fn waiter(id: u64, end: Moment) -> (Waiter, oneshot::Receiver<Granted>) {
    let (reply, answer) = oneshot::channel();
    let terms = Terms {
        template: "k",
        expire: EXPIRE,
        max_renew: None,
        started: Moment::ZERO,
        shutdowns: 0,
    };
    (Waiter::new(id, terms, end, reply), answer)
}

/// Two holds that could be of one key, one after the other; and what the first one has.
fn two_holds() -> (Arc<Hold>, Arc<Hold>, Tenure) {
    let backend: Arc<dyn Backend> = Arc::new(Memory::new(MemoryStore::new()));
    let claim = Claim { key: key("a"), owner: Owner::fresh("test"), expire: EXPIRE };
    let fencing_token = FencingToken::new(1).unwrap();
    let confirmed = Confirmed { sent: at(100), lease: EXPIRE };
    let hold = || {
        Arc::new(Hold::new(Grant {
            client: 1,
            process: crate::process::id(),
            template: "a",
            claim: claim.clone(),
            fencing_token,
            max_renew: None,
            backend: Arc::clone(&backend),
            reply_timeout: EXPIRE,
            clock: Clock::Boot,
            confirmed,
            granted: at(100),
            waited: Duration::ZERO,
            is_taken: true,
            reports: Arc::new(crate::report::Reports::new(Clock::Tokio)),
            news: Arc::default(),
        }))
    };
    let fencing_tokens = FencingTokens { first: fencing_token, last: fencing_token };
    (hold(), hold(), Tenure::new(claim.clone(), confirmed, fencing_tokens))
}

/// Has the clerk been told to look?
fn has_news(seat: &Seat) -> bool {
    let news = pin!(seat.queue.news.notified());
    news.poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[test]
fn an_empty_queue_leaves_nothing_behind() {
    let queues = Queues::new(1);
    let (first, second) = (queues.join(&key("a"), None), queues.join(&key("a"), None));
    let third = first.another();
    drop((first, second));
    assert_eq!(queues.shared.queues().len(), 1);
    drop(third);
    assert!(queues.shared.queues().is_empty());
}

/// Those who leave at the same time must not each take the other for the last one.
#[test]
fn whoever_leaves_last_leaves_nothing_behind() {
    let queues = Queues::new(1);
    for _ in 0..2_000 {
        let start = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            for seat in [queues.join(&key("a"), None), queues.join(&key("a"), None)] {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    drop(seat);
                });
            }
        });
        assert!(queues.shared.queues().is_empty());
    }
}

#[test]
fn waiters_are_bounded_and_counted_back() {
    let queues = Queues::new(1);
    let seat = queues.join(&key("a"), None);
    let waiting = seat.wait().unwrap();
    assert!(seat.wait().is_none());
    drop(waiting);
    assert!(seat.wait().is_some());
}

#[test]
fn one_caller_asks_by_itself_at_a_time_and_none_while_others_want_the_lock() {
    let queues = Queues::new(1);
    let seat = queues.join(&key("a"), None);
    let asking = seat.ask_first(at(100)).unwrap();
    assert!(seat.ask_first(at(100)).is_none());
    drop(asking);
    assert!(seat.queue.state().contend());
    assert!(seat.ask_first(at(100)).is_none());
    (0..GRANTS_TO_FORGET).for_each(|_| seat.queue.state().calm());
    assert!(seat.ask_first(at(100)).is_some());
}

#[test]
fn who_asked_by_itself_stands_before_those_who_came_meanwhile() {
    let seat = Queues::new(9).join(&key("a"), None);
    let (first, _first) = waiter(1, at(9));
    let (second, _second) = waiter(2, at(9));
    let (third, _third) = waiter(3, at(9));
    assert!(seat.enter(second, 0), "nobody else calls a clerk");
    assert!(!seat.enter(third, 0));
    assert!(!seat.enter(first, 1));
    let mut state = seat.queue.state();
    let order = std::iter::from_fn(|| state.waiters.pop_front()).map(|waiter| waiter.id);
    assert_eq!(order.collect::<Vec<_>>(), [1, 2, 3]);
}

/// In steps, not in time: the clerk is woken by each of them, and looks who is the first, and whose
/// time is up next.
#[test]
fn a_crowd_that_is_cancelled_costs_a_few_steps_for_each_of_it() {
    const CROWD: usize = 4_000;
    let seat = Queues::new(CROWD).join(&key("a"), None);
    let come = |id: usize| {
        let (waiter, answer) = waiter(id as u64, at(10_000 - id as u64));
        seat.enter(waiter, 0);
        answer
    };
    let answers: Vec<_> = (0..CROWD).map(come).collect();
    let before = LOOKS.get();
    let mut patient = Vec::new();
    for (id, answer) in answers.into_iter().enumerate() {
        if id % 100 == 0 {
            patient.push(answer);
            continue;
        }
        drop(answer);
        seat.leave(id as u64, None);
        let mut state = seat.queue.state();
        assert_eq!(state.first().map(|first| first.id), Some(0));
        assert!(state.waiters.take_overdue(at(0), |_| true).is_empty());
        let last = (CROWD - 1) - (CROWD - 1) % 100;
        let earliest = if id > last { last } else { CROWD - 1 };
        assert!(state.waiters.earliest_end() <= at(10_000 - earliest as u64));
    }
    let steps = LOOKS.get() - before;
    assert!(steps <= 4 * CROWD, "{steps} steps for {CROWD}");
    assert_eq!(seat.queue.state().waiters.len(), patient.len());
    let gone = seat.queue.state().waiters.take_overdue(at(10_000), |waiter| waiter.id > 0);
    assert_eq!(gone.len(), patient.len() - 1);
}

#[test]
fn a_newcomer_wakes_the_clerk_where_it_would_rest_for_longer_than_that_one_waits() {
    let seat = Queues::new(9).join(&key("a"), None);
    let wakes = |clerk: Clerking, end: u64| {
        seat.queue.state().clerk = clerk;
        let (waiter, _answer) = waiter(1, at(end));
        assert!(!seat.enter(waiter, 0));
        has_news(&seat)
    };
    let resting = |why| Clerking::Resting { until: at(5), why };
    assert!(wakes(resting(Rest::Waits), 4));
    assert!(!wakes(resting(Rest::Waits), 5) && !wakes(resting(Rest::Waits), 6));
    assert!(wakes(resting(Rest::Idle), 6) && wakes(Clerking::Busy, 6));
}

/// The clerk rests because the lock was taken here. Only as long as that is so is there somebody
/// who will wake it.
#[test]
fn a_newcomer_wakes_a_clerk_that_rests_for_a_holder_who_has_gone() {
    let seat = Queues::new(9).join(&key("a"), None);
    let (hold, ..) = two_holds();
    seat.queue.state().clerk = Clerking::Resting { until: at(5), why: Rest::TakenHere };
    seat.now_holds(&hold);
    let (first, _first) = waiter(1, at(9));
    assert!(!seat.enter(first, 0) && !has_news(&seat));
    hold.end();
    let (second, _second) = waiter(2, at(9));
    assert!(!seat.enter(second, 0) && has_news(&seat));
}

/// Its answer may come to a task that nobody polls.
#[test]
fn the_question_of_a_caller_counts_for_a_moment_only() {
    let seat = Queues::new(9).join(&key("a"), None);
    let first = seat.ask_first(at(100)).unwrap();
    let later = at(100).plus(QUESTION);
    assert!(seat.ask_first(later.minus(Duration::from_nanos(1))).is_none());
    let second = seat.ask_first(later).unwrap();
    drop(first);
    assert!(seat.ask_first(later).is_none(), "the second one counts");
    drop(second);
    assert!(seat.ask_first(later).is_some());
}

#[test]
fn whoever_leaves_is_news_only_where_it_waited() {
    let seat = Queues::new(9).join(&key("a"), None);
    let (waiter, _answer) = waiter(1, at(9));
    seat.enter(waiter, 0);
    seat.leave(2, None);
    assert!(!has_news(&seat));
    seat.leave(1, None);
    assert!(has_news(&seat) && seat.queue.state().waiters.is_empty());
}

#[test]
fn a_caller_that_asked_by_itself_wakes_the_clerk_for_those_who_came_meanwhile() {
    let seat = Queues::new(9).join(&key("a"), None);
    drop(seat.ask_first(at(100)));
    assert!(!has_news(&seat), "nobody waits");
    let asking = seat.ask_first(at(100));
    let (waiter, _answer) = waiter(1, at(9));
    seat.enter(waiter, 0);
    drop(asking);
    assert!(has_news(&seat));
}

#[test]
fn a_lock_that_is_promised_or_being_released_is_taken() {
    let seat = Queues::new(9).join(&key("a"), None);
    let (waiter, _answer) = waiter(1, at(9));
    seat.enter(waiter, 0);
    assert!(!seat.queue.state().is_taken_here(at(100)));
    assert!(seat.queue.state().promise().is_some());
    assert!(seat.queue.state().is_taken_here(at(100)) && seat.ask_first(at(100)).is_none());
    seat.queue.state().promised = 0;
    let freeing = seat.another().freeing();
    assert!(seat.queue.state().is_taken_here(at(100)));
    drop(freeing);
    assert!(!seat.queue.state().is_taken_here(at(100)) && has_news(&seat));
}

#[test]
fn late_releases_are_counted_one_by_one() {
    let seat = Queues::new(9).join(&key("a"), None);
    assert!(!seat.is_late());
    let (first, second) = (seat.another().late(), seat.another().late());
    drop(first);
    assert!(seat.is_late());
    drop(second);
    assert!(!seat.is_late());
}

/// The last one of an older queue leaves: the newer one in its place is somebody else's.
#[test]
fn a_newer_queue_of_the_same_key_stays() {
    let queues = Queues::new(9);
    let old = queues.join(&key("a"), None);
    queues.shared.queues().clear();
    let _new = queues.join(&key("a"), None);
    drop(old);
    assert_eq!(queues.shared.queues().len(), 1);
}

/// One that lets go late, after another has the lock already, takes nothing from that one.
#[test]
fn only_the_holder_is_forgotten_when_it_lets_go() {
    let seat = Queues::new(9).join(&key("a"), None);
    let (former, holder, tenure) = two_holds();
    seat.now_holds(&holder);
    let holds = || seat.queue.state().holder.as_ref().map(|hold| hold.id);
    seat.let_go(&former);
    assert_eq!(holds(), Some(holder.id));
    let Next::Nobody(tenure) = seat.next(&former, tenure, at(100)) else { panic!("who?") };
    assert_eq!(holds(), Some(holder.id));
    assert!(matches!(seat.next(&holder, tenure, at(100)), Next::Nobody(_)));
    assert_eq!(holds(), None);
    seat.now_holds(&holder);
    seat.let_go(&holder);
    assert_eq!(holds(), None);
}

/// A key was deleted under the first holder, so that there were two: one tenure for the clerk, and
/// the other one is freed.
#[test]
fn a_second_tenure_that_comes_back_does_not_replace_the_first() {
    let seat = Queues::new(9).join(&key("a"), None);
    let (waiting, _answer) = waiter(1, at(9));
    seat.enter(waiting, 0);
    let (first, second, _) = two_holds();
    let tenure = || two_holds().2;
    seat.now_holds(&first);
    assert!(matches!(seat.next(&first, tenure(), at(100)), Next::Clerk));
    seat.now_holds(&second);
    assert!(matches!(seat.next(&second, tenure(), at(100)), Next::Nobody(_)));
    assert!(seat.queue.state().returned.is_some());
}

/// It would be handed a lock that nobody wants.
#[test]
fn a_clerk_in_line_hears_that_the_last_waiter_was_served() {
    let seat = Queues::new(9).join(&key("a"), None);
    let (hold, _, tenure) = two_holds();
    let reserved = FencingToken::new(9).unwrap();
    let fencing_tokens = FencingTokens { first: tenure.fencing_token(), last: reserved };
    let confirmed = Confirmed { sent: at(100), lease: EXPIRE };
    let (waiting, _answer) = waiter(1, at(900));
    seat.enter(waiting, 0);
    seat.now_holds(&hold);
    for (why, is_news) in [(Rest::TakenHere, false), (Rest::Waits, true)] {
        let (waiting, _answer) = waiter(2, at(900));
        seat.queue.state().waiters = Waiters::default();
        seat.queue.state().waiters.push_back(waiting);
        seat.queue.state().clerk = Clerking::Resting { until: at(800), why };
        let _ = has_news(&seat);
        let tenure = Tenure::new(tenure.claim.clone(), confirmed, fencing_tokens);
        assert!(matches!(seat.next(&hold, tenure, at(100)), Next::Waiter(..)));
        assert_eq!(has_news(&seat), is_news, "{why:?}");
    }
}
