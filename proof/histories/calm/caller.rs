//! One caller of a history without faults, and those who behave oddly.

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use fastrand::Rng;
use fault_kit::{block_thread, ms, time_passes};
use redlock::{LockError, LockGuard, LockRequest};

use super::load::Load;
use super::{Scene, log_uniform};
use crate::lock_kind::LockKind;
use crate::log::{Event, millis, nanos, now};
use crate::wanted::Wanted;
use crate::watched::{Watched, release};
use crate::worker::word;

/// Bodies and guards write down their deadline so often: a renewal is seen soon.
const TICK: Duration = ms(10);

#[derive(Debug)]
pub(crate) struct Caller {
    load: &'static Load,
    task: u64,
    calls: u64,
    rng: Rng,
}

/// What one call asks for.
#[derive(Debug)]
pub(crate) struct Terms {
    /// One, or several together.
    keys: Vec<String>,
    kind: LockKind,
    expire: Duration,
    wait: Duration,
    hold: Duration,
    patience: Option<Duration>,
    /// `run` in place of a guard.
    runs: bool,
    /// A writer with a guard becomes a reader in the end.
    downgrades: bool,
    client: usize,
}

impl Terms {
    /// Each task has its key, and the rest is chance.
    pub(crate) fn random(load: &Load, task: u64, rng: &mut Rng) -> Terms {
        let calm = &load.calm;
        let is_dropped = calm.drops.is_some_and(|one_of| rng.u32(0..one_of) == 0);
        Terms {
            keys: calm.wanted(task, rng).into_iter().map(|key| format!("k-{key}")).collect(),
            kind: calm.kind(task),
            expire: ms(rng.choice(&calm.expires).copied().unwrap_or(1_000)),
            wait: ms(rng.u64(calm.wait_ms.clone())),
            hold: Duration::from_micros(rng.u64(calm.hold_us.clone())),
            patience: is_dropped.then(|| Duration::from_micros(rng.u64(100..100_000))),
            runs: rng.bool(),
            downgrades: calm.scene == Scene::Readers,
            client: rng.usize(0..load.clients.len()),
        }
    }

    fn request(&self, load: &Load) -> LockRequest {
        let client = &load.clients[self.client];
        let lock = match &self.keys[..] {
            [key] => client.lock(key),
            keys => client.lock_all(keys),
        };
        self.kind.ask(lock.expire(self.expire).wait(self.wait))
    }
}

impl Caller {
    pub(crate) fn new(load: &'static Load, task: u64, rng: Rng) -> Caller {
        Caller { load, task, calls: 0, rng }
    }

    /// Calls and pauses until the time is over.
    pub(crate) async fn work(mut self) {
        while now() < self.load.until {
            self.call(Terms::random).await;
            self.pause().await;
        }
    }

    /// One call, from its `begin` to its end.
    pub(crate) async fn call(&mut self, terms: impl FnOnce(&Load, u64, &mut Rng) -> Terms) {
        let (terms, wanted) = self.begin(terms);
        let load = self.load;
        let locked = locked(load, &terms, &wanted);
        let outcome = match terms.patience {
            None => locked.await.err().map(|error| word(&error)),
            Some(patience) => match tokio::time::timeout(patience, locked).await {
                Ok(outcome) => outcome.err().map(|error| word(&error)),
                Err(_) => Some("Dropped".to_owned()),
            },
        };
        if let Some(why) = outcome {
            wanted.log(&load.log, now(), &Event::Failed { why });
        }
    }

    /// Begins to acquire, polls that once, and turns to something else for up to two seconds: half
    /// of the times in a way that blocks the thread. To be run on a thread of its own.
    pub(crate) async fn stall(mut self) {
        let load = self.load;
        while now() < load.until {
            let (terms, wanted) = self.begin(Terms::random);
            let mut acquire = pin!(terms.request(load).acquire());
            let first = std::future::poll_fn(|cx| Poll::Ready(acquire.as_mut().poll(cx))).await;
            let guard = match first {
                Poll::Ready(guard) => guard,
                Poll::Pending => {
                    wanted.log(&load.log, now(), &Event::Stalled);
                    // Long enough to be noticed, or a little more than nothing.
                    let lengths = if self.rng.bool() { 1_800..2_000 } else { 100..1_000 };
                    let length = ms(self.rng.u64(lengths));
                    if self.rng.bool() {
                        block_thread(length);
                    } else {
                        time_passes(length).await;
                    }
                    wanted.log(&load.log, now(), &Event::Resumed);
                    acquire.await
                }
            };
            let outcome = match guard {
                Ok(guard) => hold(load, &terms, &wanted, guard).await,
                Err(error) => Err(error),
            };
            if let Err(error) = outcome {
                wanted.log(&load.log, now(), &Event::Failed { why: word(&error) });
            }
            self.pause().await;
        }
    }

    /// Keeps its guards for more than a second after the end of their lease.
    pub(crate) async fn outstay(mut self) {
        while now() < self.load.until {
            let (terms, wanted) = self.begin(Terms::random);
            let request = terms.request(self.load).expire(ms(300));
            match request.max_renew(self.rng.u32(0..2)).acquire().await {
                Ok(guard) => self.outstay_one(wanted.call(), guard).await,
                Err(error) => {
                    let why = word(&error);
                    wanted.log(&self.load.log, now(), &Event::Failed { why });
                }
            }
            self.pause().await;
        }
    }

    async fn outstay_one(&mut self, attempt: &str, guard: LockGuard) {
        let log = &self.load.log;
        log.write(attempt, now(), Event::Granted { fencing: guard.fencing_token().into() });
        loop {
            let (at, remaining) = (now(), guard.remaining());
            if remaining.is_zero() {
                log.write(attempt, at, Event::Lapsed);
                break;
            }
            log.write(attempt, at, Event::Step { deadline: Some(at + nanos(remaining)) });
            time_passes(TICK).await;
        }
        time_passes(ms(self.rng.u64(1_000..1_500))).await;
        log.write(attempt, now(), Event::Over);
        drop(guard);
    }

    /// Holds for most of the history at first, so that its key is deleted under it.
    pub(crate) async fn keep(mut self) {
        self.call(|load, task, rng| Terms { hold: ms(2_500), ..Terms::random(load, task, rng) })
            .await;
        self.work().await;
    }

    fn begin(&mut self, terms: impl FnOnce(&Load, u64, &mut Rng) -> Terms) -> (Terms, Wanted) {
        self.calls += 1;
        let terms = terms(self.load, self.task, &mut self.rng);
        let call = format!("{}.{}/{}", self.load.process, self.task, self.calls);
        let wanted = Wanted::new(call, terms.keys.clone());
        wanted.begin(&self.load.log, terms.kind, millis(terms.wait), millis(terms.expire));
        (terms, wanted)
    }

    async fn pause(&mut self) {
        let pause = log_uniform(&mut self.rng, self.load.calm.pause_us.clone());
        rest(Duration::from_micros(pause.into())).await;
    }
}

async fn locked(load: &Load, terms: &Terms, wanted: &Wanted) -> Result<(), LockError> {
    let request = terms.request(load);
    if terms.runs {
        return request.run(watched(load, terms, wanted)).await;
    }
    let guard = request.acquire().await?;
    hold(load, terms, wanted, guard).await
}

async fn hold(
    load: &Load,
    terms: &Terms,
    wanted: &Wanted,
    guard: LockGuard,
) -> Result<(), LockError> {
    guard.protect(watched(load, terms, wanted)).await?;
    if terms.downgrades && terms.kind == LockKind::Exclusive {
        let reader = wanted.then();
        reader.log(&load.log, now(), &Event::Downgrade { from: wanted.call().to_owned() });
        let guard = guard.downgrade().await?;
        guard.protect(watched(load, terms, &reader)).await?;
        release(guard, &load.log, &reader).await;
    } else {
        release(guard, &load.log, wanted).await;
    }
    Ok(())
}

fn watched<'a>(
    load: &'a Load,
    terms: &'a Terms,
    wanted: &'a Wanted,
) -> Watched<'a, impl Future<Output = ()>> {
    let body = async {
        let mut left = terms.hold;
        while !left.is_zero() {
            let tick = left.min(TICK);
            rest(tick).await;
            left -= tick;
        }
    };
    Watched::new(&load.log, wanted, terms.expire, body)
}

/// Timers are exact to a millisecond; what is shorter gives way to other tasks until it is over.
pub(crate) async fn rest(time: Duration) {
    if time >= Duration::from_micros(500) {
        return time_passes(time).await;
    }
    let until = now() + nanos(time);
    while now() < until {
        tokio::task::yield_now().await;
    }
}
