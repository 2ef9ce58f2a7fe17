use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::sync::oneshot;

use super::*;
use crate::backend::{Claim, FencingTokens, LockBackend, Memory, MemoryStore};
use crate::clock::Clock;
use crate::fencing::FencingToken;
use crate::hold::{Begin, ConfirmedLease, HoldingClient, Tenure, Terms};
use crate::local_queue::poller_state::{PollerState, RestReason};
use crate::local_queue::state::{DIRECT_ATTEMPT, GRANTS_TO_FORGET};
use crate::local_queue::succession::Successor;
use crate::local_queue::waiter::{Answer, LOOKS, Waiter};
use crate::local_queue::waiters::Waiters;
use crate::owner::Owner;
use crate::pending::PendingCommands;
use crate::spare_memory::KEPT;

const EXPIRE: Duration = Duration::from_secs(10);
const TERMS: Terms = Terms::of_plain_call(EXPIRE, Moment::ZERO);

fn key(name: &str) -> LockKey {
    LockKey::new("", name).unwrap()
}

fn at(seconds: u64) -> Moment {
    Moment::ZERO.plus(Duration::from_secs(seconds))
}

/// A caller that waits until `end`, for as long as the receiver is kept.
fn waiter(id: u64, end: Moment) -> (Waiter, oneshot::Receiver<Answer>) {
    let (reply, answer) = oneshot::channel();
    (Waiter::new(id, TERMS, end, reply), answer)
}

/// Two holds that could be of one key, one after the other, and the tenure of the first one.
fn two_holds() -> (Arc<Hold>, Arc<Hold>, Tenure) {
    let backend: Arc<dyn LockBackend> = Arc::new(Memory::new(MemoryStore::new()));
    let claim = Claim {
        key: key("a"),
        owner: Owner::of_nobody("test"),
        expire: EXPIRE,
        kind: Kind::Exclusive,
    };
    let fencing_tokens = FencingTokens::one(FencingToken::new(1).unwrap());
    let confirmed = ConfirmedLease { sent: at(100), lease: EXPIRE };
    let tenure = Tenure::new(claim, confirmed, fencing_tokens);
    let hold = || {
        let client = Arc::new(HoldingClient {
            id: 1,
            process: crate::process::id(),
            backend: Arc::clone(&backend),
            reply_timeout: EXPIRE,
            reports: Arc::new(crate::report::Reports::new(Clock::Tokio)),
            pending: PendingCommands::default(),
            clock: Clock::Boot,
            renewals: tokio::sync::Semaphore::new(1),
        });
        let begin = Begin { at: at(100), is_taken: true };
        Arc::new(Hold::new(&client, TERMS, &tenure, confirmed, begin, Weak::<LocalQueue>::new()))
    };
    (hold(), hold(), tenure)
}

/// Was the poller notified?
fn has_news(handle: &QueueHandle) -> bool {
    let news = pin!(handle.queue.news.notified());
    news.poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[test]
fn an_empty_queue_leaves_nothing_behind() {
    let queues = LocalQueues::new(1);
    let (first, second) = (
        queues.join(&key("a"), Kind::Exclusive, None),
        queues.join(&key("a"), Kind::Exclusive, None),
    );
    let third = first.another();
    drop((first, second));
    assert_eq!(queues.queues.lock().len(), 1);
    drop(third);
    assert!(queues.queues.lock().is_empty());
}

#[test]
fn the_memory_of_many_queues_is_given_back_though_one_stays() {
    let queues = LocalQueues::new(1);
    let join = |number: usize| queues.join(&key(&number.to_string()), Kind::Exclusive, None);
    let mut handles: Vec<_> = (0..4 * KEPT).map(join).collect();
    assert!(queues.queues.lock().capacity() >= 4 * KEPT);
    handles.truncate(1);
    assert!(queues.queues.lock().capacity() <= KEPT);
}

/// Of two handles that are dropped at the same time, one must see that it is the last.
#[test]
fn whoever_leaves_last_leaves_nothing_behind() {
    let queues = LocalQueues::new(1);
    for _ in 0..2_000 {
        let start = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            for handle in [
                queues.join(&key("a"), Kind::Exclusive, None),
                queues.join(&key("a"), Kind::Exclusive, None),
            ] {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    drop(handle);
                });
            }
        });
        assert!(queues.queues.lock().is_empty());
    }
}

#[test]
fn waiters_are_bounded_and_counted_back() {
    let queues = LocalQueues::new(1);
    let handle = queues.join(&key("a"), Kind::Exclusive, None);
    let waiting = handle.count_waiter().unwrap();
    assert!(handle.count_waiter().is_none());
    drop(waiting);
    assert!(handle.count_waiter().is_some());
}

#[test]
fn one_caller_asks_by_itself_at_a_time_and_none_while_others_want_the_lock() {
    let queues = LocalQueues::new(1);
    let handle = queues.join(&key("a"), Kind::Exclusive, None);
    let asking = handle.attempt_first(at(100)).unwrap();
    assert!(handle.attempt_first(at(100)).is_none());
    drop(asking);
}

#[test]
fn a_caller_asks_by_itself_unless_another_process_competed_since_the_last_grant() {
    let handle = LocalQueues::new(1).join(&key("a"), Kind::Exclusive, None);
    assert!(handle.queue.state().note_contention());
    assert!(handle.attempt_first(at(100)).is_none());
    handle.queue.state().spend_contention_credit();
    for _ in 1..GRANTS_TO_FORGET {
        assert!(handle.queue.state().is_contended(), "a release heeds it for longer");
        assert!(handle.attempt_first(at(100)).is_some());
    }
    assert!(!handle.queue.state().is_contended());
}

#[test]
fn who_asked_by_itself_stands_before_those_who_came_meanwhile() {
    let handle = LocalQueues::new(9).join(&key("a"), Kind::Exclusive, None);
    let (first, _first) = waiter(1, at(9));
    let (second, _second) = waiter(2, at(9));
    let (third, _third) = waiter(3, at(9));
    assert!(handle.enter(second, 0), "nobody else calls a poller");
    assert!(!handle.enter(third, 0));
    assert!(!handle.enter(first, 1));
    let mut state = handle.queue.state();
    let order = std::iter::from_fn(|| state.waiters.pop_front()).map(|waiter| waiter.id);
    assert_eq!(order.collect::<Vec<_>>(), [1, 2, 3]);
}

/// Counted in steps, not in time: each step wakes the poller, which examines the first waiter, and
/// the next one to time out.
#[test]
fn a_crowd_that_is_cancelled_costs_a_few_steps_for_each_of_it() {
    const CROWD: usize = 4_000;
    let handle = LocalQueues::new(CROWD).join(&key("a"), Kind::Exclusive, None);
    let come = |id: usize| {
        let (waiter, answer) = waiter(id as u64, at(10_000 - id as u64));
        handle.enter(waiter, 0);
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
        handle.leave(id as u64, None);
        let mut state = handle.queue.state();
        assert_eq!(state.first().map(|first| first.id), Some(0));
        assert!(state.waiters.take_overdue(at(0), |_| true).is_empty());
        let last = (CROWD - 1) - (CROWD - 1) % 100;
        let earliest = if id > last { last } else { CROWD - 1 };
        assert!(state.waiters.earliest_end() <= at(10_000 - earliest as u64));
    }
    let steps = LOOKS.get() - before;
    assert!(steps <= 4 * CROWD, "{steps} steps for {CROWD}");
    assert_eq!(handle.queue.state().waiters.len(), patient.len());
    let gone = handle.queue.state().waiters.take_overdue(at(10_000), |waiter| waiter.id > 0);
    assert_eq!(gone.len(), patient.len() - 1);
}

#[test]
fn a_newcomer_wakes_the_poller_where_it_would_rest_for_longer_than_that_one_waits() {
    let handle = LocalQueues::new(9).join(&key("a"), Kind::Exclusive, None);
    let wakes = |poller: PollerState, end: u64| {
        handle.queue.state().poller = poller;
        let (waiter, _answer) = waiter(1, at(end));
        assert!(!handle.enter(waiter, 0));
        has_news(&handle)
    };
    let resting = |why| PollerState::Resting { until: at(5), why };
    assert!(wakes(resting(RestReason::Waits), 4));
    assert!(!wakes(resting(RestReason::Waits), 5) && !wakes(resting(RestReason::Waits), 6));
    assert!(wakes(resting(RestReason::Idle), 6) && wakes(PollerState::Busy, 6));
}

/// The poller rests because the lock was taken here. Only while that is so will an event wake it.
#[test]
fn a_newcomer_wakes_a_poller_that_rests_for_a_holder_who_has_gone() {
    let handle = LocalQueues::new(9).join(&key("a"), Kind::Exclusive, None);
    let (hold, ..) = two_holds();
    handle.queue.state().poller = PollerState::Resting { until: at(5), why: RestReason::TakenHere };
    handle.now_holds(&hold);
    let (first, _first) = waiter(1, at(9));
    assert!(!handle.enter(first, 0) && !has_news(&handle));
    hold.end(Moment::ZERO);
    let (second, _second) = waiter(2, at(9));
    assert!(!handle.enter(second, 0) && has_news(&handle));
}

/// The answer of the direct attempt may come to a task that is not polled.
#[test]
fn the_question_of_a_caller_counts_for_a_moment_only() {
    let handle = LocalQueues::new(9).join(&key("a"), Kind::Exclusive, None);
    let first = handle.attempt_first(at(100)).unwrap();
    let later = at(100).plus(DIRECT_ATTEMPT);
    assert!(handle.attempt_first(later.minus(Duration::from_nanos(1))).is_none());
    let second = handle.attempt_first(later).unwrap();
    drop(first);
    assert!(handle.attempt_first(later).is_none(), "the second one counts");
    drop(second);
    assert!(handle.attempt_first(later).is_some());
}

#[test]
fn whoever_leaves_is_news_only_where_it_waited() {
    let handle = LocalQueues::new(9).join(&key("a"), Kind::Exclusive, None);
    let (waiter, _answer) = waiter(1, at(9));
    handle.enter(waiter, 0);
    handle.leave(2, None);
    assert!(!has_news(&handle));
    handle.leave(1, None);
    assert!(has_news(&handle) && handle.queue.state().waiters.is_empty());
}

#[test]
fn a_caller_that_asked_by_itself_wakes_the_poller_for_those_who_came_meanwhile() {
    let handle = LocalQueues::new(9).join(&key("a"), Kind::Exclusive, None);
    drop(handle.attempt_first(at(100)));
    assert!(!has_news(&handle), "nobody waits");
    let asking = handle.attempt_first(at(100));
    let (waiter, _answer) = waiter(1, at(9));
    handle.enter(waiter, 0);
    drop(asking);
    assert!(has_news(&handle));
}

#[test]
fn a_lock_that_is_promised_or_being_released_is_taken() {
    let handle = LocalQueues::new(9).join(&key("a"), Kind::Exclusive, None);
    let (waiter, _answer) = waiter(1, at(9));
    handle.enter(waiter, 0);
    assert!(!handle.queue.state().is_taken_here(at(100)));
    assert!(handle.queue.state().promise().is_some());
    assert!(handle.queue.state().is_taken_here(at(100)) && handle.attempt_first(at(100)).is_none());
    handle.queue.state().is_promised = false;
    let freeing = handle.another().begin_release(true);
    assert!(handle.queue.state().is_taken_here(at(100)));
    drop(freeing);
    assert!(!handle.queue.state().is_taken_here(at(100)) && has_news(&handle));
}

/// The last handle of an older queue is dropped: the newer queue in its place stays.
#[test]
fn a_newer_queue_of_the_same_key_stays() {
    let queues = LocalQueues::new(9);
    let old = queues.join(&key("a"), Kind::Exclusive, None);
    queues.queues.lock().clear();
    let _new = queues.join(&key("a"), Kind::Exclusive, None);
    drop(old);
    assert_eq!(queues.queues.lock().len(), 1);
}

/// A holder that releases late, after another holder has the lock, takes nothing from that one.
#[test]
fn only_the_holder_is_forgotten_when_it_lets_go() {
    let handle = LocalQueues::new(9).join(&key("a"), Kind::Exclusive, None);
    let (former, holder, tenure) = two_holds();
    handle.now_holds(&holder);
    let holds = || handle.queue.state().holder.as_ref().map(|hold| hold.id);
    handle.let_go(&former);
    assert_eq!(holds(), Some(holder.id));
    let Successor::Nobody(tenure) = handle.next(&former, tenure, at(100)) else { panic!("who?") };
    assert_eq!(holds(), Some(holder.id));
    assert!(matches!(handle.next(&holder, tenure, at(100)), Successor::Nobody(_)));
    assert_eq!(holds(), None);
    handle.now_holds(&holder);
    handle.let_go(&holder);
    assert_eq!(holds(), None);
}

/// A key was deleted under the first holder, so that there were two: one tenure goes to the poller,
/// and the other one is freed.
#[test]
fn a_second_tenure_that_comes_back_does_not_replace_the_first() {
    let handle = LocalQueues::new(9).join(&key("a"), Kind::Exclusive, None);
    let (waiting, _answer) = waiter(1, at(9));
    handle.enter(waiting, 0);
    let (first, second, _) = two_holds();
    let tenure = || two_holds().2;
    handle.now_holds(&first);
    handle.now_holds(&second);
    assert!(matches!(handle.next(&first, lasting(&tenure()), at(100)), Successor::Poller));
    assert!(matches!(handle.next(&second, tenure(), at(100)), Successor::Nobody(_)));
    assert!(handle.queue.state().returned.is_some());
}

/// The tenure of a hold, and as many further fencing tokens as its waiters need.
fn lasting(tenure: &Tenure) -> Tenure {
    let reserved = FencingToken::new(9).unwrap();
    let fencing_tokens = FencingTokens { first: tenure.fencing_token(), last: reserved };
    let confirmed = ConfirmedLease { sent: at(100), lease: EXPIRE };
    Tenure::new(tenure.claim.clone(), confirmed, fencing_tokens)
}

/// The poller would be handed a lock that no caller wants.
#[test]
fn a_poller_in_line_hears_that_the_last_waiter_was_served() {
    let handle = LocalQueues::new(9).join(&key("a"), Kind::Exclusive, None);
    let (hold, _, tenure) = two_holds();
    let (waiting, _answer) = waiter(1, at(900));
    handle.enter(waiting, 0);
    let reasons = [RestReason::TakenHere, RestReason::TakenHereInQueue, RestReason::Waits];
    for (why, is_news) in reasons.into_iter().zip([false, true, true]) {
        let (waiting, _answer) = waiter(2, at(900));
        handle.queue.state().waiters = Waiters::default();
        handle.queue.state().waiters.push_back(waiting);
        handle.now_holds(&hold);
        handle.queue.state().poller = PollerState::Resting { until: at(800), why };
        let _ = has_news(&handle);
        assert!(matches!(handle.next(&hold, lasting(&tenure), at(100)), Successor::Waiter(..)));
        assert_eq!(has_news(&handle), is_news, "{why:?}");
    }
}

#[test]
fn a_waiter_that_may_be_put_back_keeps_the_poller() {
    let handle = LocalQueues::new(9).join(&key("a"), Kind::Exclusive, None);
    let (hold, _, tenure) = two_holds();
    let (waiting, _answer) = waiter(1, at(900));
    handle.enter(waiting, 0);
    handle.now_holds(&hold);
    let next = handle.next(&hold, lasting(&tenure), at(100));
    let Successor::Waiter(waiting, _, in_hand) = next else { panic!("nobody was taken out") };
    let state = || {
        let state = handle.queue.state();
        (state.in_hand, state.waiters.is_empty())
    };
    assert_eq!(state(), (1, true));
    handle.put_back(waiting);
    drop(in_hand);
    assert_eq!(state(), (0, false));
}

/// Takes the mutex of the queue when it is dropped.
struct LocksAtItsEnd(Arc<LocalQueue>);

impl std::task::Wake for LocksAtItsEnd {
    fn wake(self: Arc<Self>) {}
}

impl Drop for LocksAtItsEnd {
    fn drop(&mut self) {
        drop(self.0.state());
    }
}

/// The waker of its caller is foreign code, which must not run under the mutex of the queue.
#[test]
fn a_waiter_that_has_gone_is_not_put_back() {
    let handle = LocalQueues::new(9).join(&key("a"), Kind::Exclusive, None);
    let (waiting, mut answer) = waiter(1, at(900));
    let waker = Waker::from(Arc::new(LocksAtItsEnd(Arc::clone(&handle))));
    assert!(pin!(&mut answer).poll(&mut Context::from_waker(&waker)).is_pending());
    drop((answer, waker));
    handle.queue.state().poller = PollerState::Busy;
    handle.put_back(waiting);
    assert!(handle.queue.state().waiters.is_empty());
    assert!(handle.queue.state().first().is_none());
}
