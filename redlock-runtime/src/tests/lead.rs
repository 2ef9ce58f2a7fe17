//! Leadership in virtual time: who leads, when the closure is stopped, and what ends a candidacy.

use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout};
use tracing::Level;

use super::endless::warnings;
use super::fake::{Fake, Fate, SECOND, client, fake, fake_giving_up, fake_with};
use super::hear::hear;
use crate::client::{LockRequest, Redlock};
use crate::error::{AlreadyHeldReason, LockError, NodeErrorKind};
use crate::lease::Lease;
use crate::options::Wait;

const EXPIRE: Duration = Duration::from_secs(10);

fn candidate(redlock: &Redlock) -> LockRequest {
    redlock.lock("leader").expire(EXPIRE)
}

async fn never(_: Lease) {
    panic!("it must not be elected");
}

/// Says that the locals of a leader were dropped.
struct OnDrop(Arc<AtomicBool>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Leads until it is stopped; `led` counts the terms.
async fn leads_on(redlock: Redlock, led: Arc<AtomicU32>) -> Result<(), LockError> {
    let enter = |_| {
        led.fetch_add(1, Ordering::SeqCst);
        pending::<()>()
    };
    candidate(&redlock).lead(enter).await
}

async fn until_elected(led: &AtomicU32, terms: u32) {
    let elected = async {
        while led.load(Ordering::SeqCst) < terms {
            sleep(SECOND / 100).await;
        }
    };
    timeout(600 * SECOND, elected).await.expect("it is elected");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_done_is_followed_at_once() {
    let (redlock, fake) = fake();
    let first = candidate(&redlock).lead(|lease| {
        let is_current = Lease::current().is_some_and(|now| now.owner() == lease.owner());
        async move {
            sleep(25 * SECOND).await;
            assert!(Lease::current().is_some_and(|now| now.owner() == lease.owner()));
            (is_current, lease.renewals(), Instant::now())
        }
    });
    let first = tokio::spawn(first);
    yield_now().await;
    let next = candidate(&redlock).wait(Wait::Never).lead(|_| async { Instant::now() });
    let next = tokio::spawn(next);
    let (is_current, renewals, resigned) = first.await.unwrap().unwrap();
    assert!(is_current && renewals >= 3, "it is renewed while it leads: {renewals}");
    assert_eq!(next.await.unwrap().unwrap(), resigned);
    assert_eq!(fake.store.owner("leader"), None);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_lost_is_stopped_and_leads_again_with_a_greater_token() {
    let (redlock, fake) = fake();
    let terms = Mutex::new(Vec::new());
    let is_dropped = Arc::new(AtomicBool::new(false));
    let leads = candidate(&redlock).lead(|lease: Lease| {
        let mut terms = terms.lock().unwrap();
        assert_eq!(is_dropped.load(Ordering::SeqCst), !terms.is_empty());
        terms.push(lease.fencing_token());
        let (is_first, local) = (terms.len() == 1, OnDrop(Arc::clone(&is_dropped)));
        async move {
            let _local = local;
            if is_first {
                pending::<()>().await;
            }
            lease.renewals()
        }
    });
    let theft = async {
        sleep(SECOND).await;
        fake.store.remove("leader");
    };
    let (led, ()) = tokio::join!(leads, theft);
    assert_eq!(led, Ok(0));
    let terms = terms.into_inner().unwrap();
    assert!(terms.len() == 2 && terms[0] < terms[1], "{terms:?}");
}

#[tokio::test(start_paused = true)]
async fn an_outage_ends_the_term_in_time_and_costs_few_requests() {
    for (redlock, fake) in [fake(), fake_giving_up(SECOND / 2), fake_giving_up(Duration::ZERO)] {
        sits_an_outage_out(redlock, fake).await;
    }
}

async fn sits_an_outage_out(redlock: Redlock, fake: Arc<Fake>) {
    let led = Arc::new(AtomicU32::new(0));
    let last_step = Arc::new(Mutex::new(Instant::now()));
    let leads = {
        let (led, last_step, redlock) = (Arc::clone(&led), Arc::clone(&last_step), redlock.clone());
        tokio::spawn(async move {
            let leads = candidate(&redlock).lead(|_| {
                led.fetch_add(1, Ordering::SeqCst);
                let last_step = Arc::clone(&last_step);
                async move {
                    loop {
                        *last_step.lock().unwrap() = Instant::now();
                        sleep(SECOND / 100).await;
                    }
                }
            });
            leads.await.map(|never: ()| never)
        })
    };
    until_elected(&led, 1).await;
    sleep(100 * SECOND).await;
    let begun = Instant::now();
    fake.always(Some(Fate::Refused(NodeErrorKind::Unreachable, false)));
    fake.take_log();
    sleep(600 * SECOND).await;
    assert!(last_step.lock().unwrap().duration_since(begun) < EXPIRE);
    let asked = fake.take_log().iter().filter(|line| line.starts_with("acquire")).count();
    assert!((60..6_000).contains(&asked), "{asked} requests in ten minutes");
    assert_eq!(led.load(Ordering::SeqCst), 1);
    fake.always(None);
    let back = Instant::now();
    until_elected(&led, 2).await;
    assert!(back.elapsed() < SECOND, "{:?}", back.elapsed());
    leads.abort();
}

#[tokio::test(start_paused = true)]
async fn what_time_does_not_mend_ends_the_candidacy() {
    let (redlock, fake) = fake();
    let config = redlock.lock("leader").expire(Duration::from_millis(1)).lead(never).await;
    assert!(matches!(config, Err(LockError::Config { .. })), "{config:?}");
    let key = redlock.lock("").lead(never).await;
    assert!(matches!(key, Err(LockError::InvalidKey { .. })), "{key:?}");
    let inside = candidate(&redlock).run(async { candidate(&redlock).lead(never).await });
    let inside = inside.await.unwrap();
    assert_eq!(inside, Err(LockError::already_held("leader", AlreadyHeldReason::Leads)));
    for shared in [candidate(&redlock).read(), candidate(&redlock).permits(2)] {
        let error = shared.lead(never).await.unwrap_err();
        assert!(matches!(error, LockError::Config { .. }), "{error}");
        let error = error.to_string();
        assert!(error.contains("one leader at a time") && error.contains("lock `"), "{error}");
    }
    fake.next_acquires([Fate::Refused(NodeErrorKind::NoPermission, true)]);
    let denied = candidate(&redlock).lead(never).await;
    assert!(matches!(denied, Err(LockError::Unavailable { .. })), "{denied:?}");
    assert_eq!(fake.store.owner("leader"), None);
}

#[tokio::test(start_paused = true)]
async fn what_passes_is_waited_for() {
    let (redlock, fake) = fake_with(1);
    fake.next_acquires([Fate::Refused(NodeErrorKind::Busy, true)]);
    let begun = Instant::now();
    let elected = candidate(&redlock).lead(|_| async { begun.elapsed() }).await.unwrap();
    assert!(elected > Duration::ZERO && elected < SECOND, "{elected:?}");
    // Another call takes the only place of this client in its queues.
    let other = client(Arc::clone(&fake) as Arc<_>, 100);
    let _taken = other.lock("busy").acquire().await.unwrap();
    let waits = tokio::spawn(redlock.lock("busy").wait(Wait::Forever).acquire());
    let leader = other.lock("leader").acquire().await.unwrap();
    yield_now().await;
    let refused = candidate(&redlock).wait(SECOND).acquire().await;
    assert!(matches!(refused, Err(LockError::TooManyWaiters { .. })), "{refused:?}");
    let leads = tokio::spawn(candidate(&redlock).lead(|_| async { Instant::now() }));
    sleep(60 * SECOND).await;
    let resigned = Instant::now();
    leader.release().await.unwrap();
    assert!(leads.await.unwrap().unwrap() - resigned < 10 * SECOND);
    waits.abort();
}

/// Nothing of a lease is left when its grant arrives.
#[tokio::test(start_paused = true)]
async fn a_candidate_whose_leases_are_too_short_says_so_once_and_asks_seldom() {
    let (redlock, fake) = fake();
    let (told, _hearing) = warnings();
    fake.next_acquires(vec![Fate::Slow(Duration::from_millis(95)); 1_000]);
    let leads = candidate(&redlock).expire(Duration::from_millis(100)).lead(never);
    assert!(timeout(60 * SECOND, leads).await.is_err(), "it goes on");
    let told = told.lock().unwrap();
    let failed = told.iter().filter(|line| line.contains("campaign failed")).collect::<Vec<_>>();
    assert!(failed.len() == 1 && failed[0].contains("choose a longer `expire`"), "{told:?}");
    let asked = fake.take_log().iter().filter(|line| line.starts_with("acquire")).count();
    assert!((20..100).contains(&asked), "{asked} attempts in a minute");
}

/// A leader whose renewals are used up comes behind the candidates that wait.
#[tokio::test(start_paused = true)]
async fn a_leader_that_steps_down_lets_another_process_lead() {
    let (redlock, fake) = fake();
    let terms = Arc::new(Mutex::new(String::new()));
    let leads = |redlock: Redlock, name: char| {
        let terms = Arc::clone(&terms);
        let enter = move |_| {
            terms.lock().unwrap().push(name);
            pending::<()>()
        };
        tokio::spawn(candidate(&redlock).max_renew(2).lead(enter))
    };
    let one = leads(redlock, 'a');
    yield_now().await;
    let two = leads(client(Arc::clone(&fake) as Arc<_>, 100), 'b');
    sleep(10 * EXPIRE).await;
    let terms = terms.lock().unwrap().clone();
    assert!(terms.starts_with("abab"), "{terms}");
    assert!(!one.is_finished() && !two.is_finished());
    one.abort();
    two.abort();
}

/// Its terms end as planned. A theft is none.
#[tokio::test(start_paused = true)]
async fn a_leader_that_steps_down_warns_of_nothing() {
    let (redlock, fake) = fake();
    let warnings = Arc::new(AtomicU32::new(0));
    let _hears = hear({
        let warnings = Arc::clone(&warnings);
        move |event| {
            let is_warning = *event.metadata().level() <= Level::WARN;
            warnings.fetch_add(is_warning.into(), Ordering::SeqCst);
        }
    });
    let told = || warnings.load(Ordering::SeqCst);
    let led = Arc::new(AtomicU32::new(0));
    let enter = {
        let led = Arc::clone(&led);
        move |_| {
            led.fetch_add(1, Ordering::SeqCst);
            pending::<()>()
        }
    };
    let leads = tokio::spawn(candidate(&redlock).max_renew(1).lead(enter));
    until_elected(&led, 3).await;
    assert_eq!(told(), 0);
    fake.store.remove("leader");
    until_elected(&led, 4).await;
    assert_eq!(told(), 1);
    leads.abort();
}

#[tokio::test(start_paused = true)]
async fn a_panic_and_a_drop_hand_the_lock_over() {
    let (redlock, _fake) = fake();
    for panics_at_once in [true, false] {
        let lead = move |_: Lease| {
            assert!(!panics_at_once, "on purpose");
            async { panic!("on purpose") }
        };
        let ended: Result<Result<(), _>, _> = tokio::spawn(candidate(&redlock).lead(lead)).await;
        assert!(ended.unwrap_err().is_panic());
        assert!(redlock.lock("leader").try_acquire().await.unwrap().is_some());
    }
    let led = Arc::new(AtomicU32::new(0));
    let leads = tokio::spawn(leads_on(redlock.clone(), Arc::clone(&led)));
    until_elected(&led, 1).await;
    leads.abort();
    assert!(leads.await.unwrap_err().is_cancelled());
    assert!(redlock.lock("leader").try_acquire().await.unwrap().is_some());
}

async fn assert_shutdown_told(ended: impl Future<Output = Result<(), LockError>>) {
    let told = timeout(SECOND, ended).await.expect("it does not go on");
    assert_eq!(told, Err(LockError::ShuttingDown { key: "leader".to_owned() }));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_until_the_leader_has_resigned() {
    let (redlock, fake) = fake();
    let led = Arc::new(AtomicU32::new(0));
    let leads = tokio::spawn(leads_on(redlock.clone(), Arc::clone(&led)));
    until_elected(&led, 1).await;
    let waits = tokio::spawn(leads_on(redlock.clone(), Arc::clone(&led)));
    yield_now().await;
    fake.next_releases([Fate::Slow(SECOND / 2)]);
    assert_eq!(redlock.shutdown(60 * SECOND).await, 0);
    assert_eq!(fake.store.owner("leader"), None, "it was released");
    assert_shutdown_told(async { leads.await.unwrap() }).await;
    assert_shutdown_told(async { waits.await.unwrap() }).await;
    assert_eq!(led.load(Ordering::SeqCst), 1);
    // A candidate that comes later is served, and may itself end its client.
    let ends = candidate(&redlock).lead(|_| async {
        let _ = redlock.shutdown(60 * SECOND).await;
    });
    assert_shutdown_told(ends).await;
    assert_eq!(fake.store.owner("leader"), None);
}

/// As a campaign that pauses: nobody waits in a queue then.
#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_the_pause_of_a_candidate() {
    let (redlock, fake) = fake();
    fake.always(Some(Fate::Refused(NodeErrorKind::Busy, true)));
    let leads = tokio::spawn(leads_on(redlock.clone(), Arc::default()));
    sleep(60 * SECOND).await;
    fake.always(None);
    let begun = Instant::now();
    redlock.shutdown(SECOND).await;
    assert_shutdown_told(async { leads.await.unwrap() }).await;
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_does_not_wait_for_ever_for_a_leader_that_is_not_polled() {
    let (redlock, _fake) = fake();
    let mut leads = pin!(leads_on(redlock.clone(), Arc::default()));
    assert!(poll_fn(|cx| Poll::Ready(leads.as_mut().poll(cx).is_pending())).await);
    assert_eq!(redlock.held().len(), 1);
    assert_eq!(redlock.shutdown(SECOND).await, 1);
    assert_shutdown_told(leads).await;
}

/// Of two processes on one server, each with a candidate that works and comes again.
#[tokio::test(start_paused = true)]
async fn there_is_one_leader_at_a_time() {
    let (redlock, fake) = fake();
    let leaders = Arc::new(AtomicU32::new(0));
    let campaign = |redlock: Redlock, fake: Arc<Fake>| {
        let leaders = Arc::clone(&leaders);
        tokio::spawn(async move {
            for n in 0..20 {
                let leaders = Arc::clone(&leaders);
                let fake = Arc::clone(&fake);
                let term = candidate(&redlock).lead(move |_| {
                    let (leaders, fake) = (Arc::clone(&leaders), Arc::clone(&fake));
                    async move {
                        assert_eq!(leaders.fetch_add(1, Ordering::SeqCst), 0, "two leaders");
                        let _led = Led(leaders);
                        if n % 3 == 0 {
                            fake.next_renews([Fate::LostReply, Fate::LostRequest, Fate::LostReply]);
                        }
                        sleep(EXPIRE.mul_f64(2.0 * fastrand::f64())).await;
                    }
                });
                term.await.unwrap();
            }
        })
    };
    let other = client(Arc::clone(&fake) as Arc<_>, 100);
    let (one, two) = (campaign(redlock, Arc::clone(&fake)), campaign(other, fake));
    one.await.unwrap();
    two.await.unwrap();
}

/// Counts a leader until its future is dropped.
struct Led(Arc<AtomicU32>);

impl Drop for Led {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
