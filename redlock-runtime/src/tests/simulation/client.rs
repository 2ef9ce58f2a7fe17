//! What the clients of a history do: they want the lock, work under it, and change their minds.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use fastrand::Rng;

use super::downgrade::downgraded;
use super::mixture::of_kind;
use super::plan::{KEYS, Tick, millis};
use super::siblings;
use super::world::{Waits, World};
use crate::backoff;
use crate::client::{LockRequest, Redlock};
use crate::error::{LockError, NodeError, NodeErrorKind};
use crate::guard::LockGuard;
use crate::hold::Hold;
use crate::kind::Kind;
use crate::lease::Lease;
use crate::options::Wait;

pub(super) struct Client {
    pub(super) world: Arc<World>,
    pub(super) redlock: Redlock,
    pub(super) process: usize,
    /// The first of its process, and that of the history.
    pub(super) is_first: bool,
    pub(super) random: Rng,
    /// Decides of which kind the next lock is.
    pub(super) kinds: Rng,
}

/// How long a call may take, and how it may end.
#[derive(Clone, Copy)]
struct Asked {
    wait: Wait,
    /// Its renewals are limited.
    is_limited: bool,
    started: Tick,
    /// For how long it is not polled.
    stall: Tick,
}

/// One work under the lock.
struct Work {
    world: Arc<World>,
    redlock: Redlock,
    key: usize,
    kind: Kind,
    steps: u64,
    /// Between two steps.
    pause: Tick,
    /// How long the write at the end is on its way.
    delay: Tick,
}

impl Client {
    pub(super) async fn work(mut self) {
        for _ in 0..self.world.plan.habits.turns() {
            let pause = self.world.plan.habits.pause(&mut self.random, self.world.now());
            self.world.sleep(pause).await;
            self.turn().await;
        }
    }

    async fn turn(&mut self) {
        let work = self.any_work();
        let (request, asked) = self.request(work.key, work.kind);
        let patience = self.patience(2 * millis(self.world.plan.pace));
        let waits = self.world.waits(self.process, work.key, work.kind);
        if self.random.u8(..5) == 0 {
            let this = &*self;
            let run = request.run(async move {
                drop(waits);
                this.is_in_time(asked, "granted");
                let Some(lease) = Lease::current() else {
                    return work.world.report("a body without a lease");
                };
                work.world.enter(work.key, lease.hold());
                work.run(lease.hold()).await;
            });
            if let Some(Err(error)) = within(patience, run).await {
                self.told(&error, asked);
            }
            return;
        }
        let stall = self.world.plan.habits.stall(&mut self.random, self.is_first);
        let asked = Asked { stall: stall.unwrap_or_default(), ..asked };
        let acquiring = stalling(&self.world, waits, stall, request.acquire());
        match within(patience, acquiring).await {
            None => {}
            Some(Err(error)) => self.told(&error, asked),
            Some(Ok(guard)) => {
                self.is_in_time(asked, "granted");
                self.world.enter(work.key, guard.lease().hold());
                self.hold(guard, work).await;
            }
        }
    }

    fn any_work(&mut self) -> Work {
        let world = Arc::clone(&self.world);
        let random = &mut self.random;
        let expire = millis(world.plan.pace);
        let key = random.usize(..world.plan.keys);
        let kind = world.plan.mixture.any_kind(&mut self.kinds);
        let is_quick = world.plan.habits.is_quick && random.u8(..4) > 0;
        let steps = if is_quick { 1 } else { random.u64(1..=3) };
        // Most holds are short, some need renewals.
        let is_long = random.u8(..4) == 0;
        let pause = match (is_quick, is_long) {
            (true, _) => random.u64(..2),
            (_, true) => random.u64(expire / 4..expire),
            _ => random.u64(..9),
        };
        let delay = if random.u8(..6) == 0 { random.u64(..2 * expire) } else { 0 };
        let redlock = self.redlock.clone();
        Work { world, redlock, key, kind, steps, pause, delay }
    }

    fn request(&mut self, key: usize, kind: Kind) -> (LockRequest, Asked) {
        let random = &mut self.random;
        let wait = match random.u8(..8) {
            0 => Wait::Never,
            1 | 2 => Wait::Forever,
            3 | 4 => Wait::AtMost(Duration::from_millis(random.u64(800..3000))),
            _ => Wait::AtMost(Duration::from_millis(random.u64(20..1200))),
        };
        let full = self.world.plan.expire;
        // Rules for several nodes go by the longest lease.
        let expire = if random.u8(..4) == 0 { full * 2 / 3 } else { full };
        let request = of_kind(self.redlock.lock(KEYS[key]), kind).expire(expire).wait(wait);
        let min_hold = self.world.plan.min_hold.filter(|_| random.bool() && !kind.is_shared());
        let request = request.min_hold(min_hold.unwrap_or_default());
        let limit = random.u32(..6);
        let is_limited = limit < 3;
        let request = if is_limited { request.max_renew(limit) } else { request };
        (request, Asked { wait, is_limited, started: self.world.now(), stall: 0 })
    }

    /// Some give up in the middle.
    fn patience(&mut self, most: Tick) -> Option<Duration> {
        (self.random.u8(..6) == 0).then(|| Duration::from_millis(self.random.u64(..most)))
    }

    async fn hold(&mut self, guard: LockGuard, work: Work) {
        let mut hold = Arc::clone(guard.lease().hold());
        let pause = work.pause;
        let patience = self.patience(millis(self.world.plan.pace));
        let (world, key) = (Arc::clone(&self.world), work.key);
        if self.random.u8(..4) == 0 {
            // Beside the guard instead of inside of it, with a look before each step.
            for _ in 0..work.steps {
                if guard.check().is_err() {
                    break;
                }
                world.step(key, &hold);
                world.sleep(work.pause).await;
            }
        } else {
            let body = guard.protect(work.run(&hold));
            if matches!(within(patience, body).await, Some(Err(_))) {
                world.state().witness.tally.lost += 1;
            }
        }
        let mut guard = guard;
        if world.plan.mixture.downgrades(&hold, &mut self.kinds) {
            let patience = self.patience(millis(self.world.plan.pace));
            let Some(reader) = downgraded(&world, guard, (key, pause), patience).await else {
                return;
            };
            guard = reader;
            hold = Arc::clone(guard.lease().hold());
        }
        if hold.terms.max_renew.is_some() {
            let kept = world.plan.habits.kept(&mut self.random);
            world.sleep(kept).await;
        }
        world.state().witness.tally.renewals += u64::from(guard.renewals());
        if world.plan.has_long_leases() && self.random.u8(..6) == 0 {
            self.await_renewal(&guard).await;
        }
        match self.random.u8(..4) {
            0 => drop(guard),
            1 => drop(within(Some(Duration::ZERO), guard.release()).await),
            _ if guard.release().await.is_ok() && world.plan.nodes.len() > 1 => {
                world.departs(self.process, &hold.claim);
            }
            _ => {}
        }
    }

    /// Lets go right behind a renewal, when nodes that did not have the lock are asked for it.
    async fn await_renewal(&mut self, guard: &LockGuard) {
        let world = &self.world;
        let due = guard.lease().hold().confirmed().lease * 2 / 3;
        world.sleep(millis(due)).await;
        for _ in 0..100 {
            if guard.renewals() > 0 || guard.check().is_err() {
                break;
            }
            world.sleep(1).await;
        }
        world.sleep(self.random.u64(..8)).await;
    }

    /// A caller that waited in vain was told in time.
    fn told(&self, error: &LockError, asked: Asked) {
        self.world.state().witness.tally.refused += 1;
        self.world.note(|| format!("process {} is told: {}", self.process, brief(error)));
        let is_calm = self.world.plan.is_calm;
        let is_expected = match error {
            LockError::Lost { .. } if !is_calm || asked.is_limited => return,
            LockError::Timeout { .. } => asked.wait != Wait::Forever,
            LockError::Unavailable { nodes, .. } if is_calm && asked.stall == 0 => {
                may_be_unavailable(&self.world, nodes)
            }
            // Only the queue is denied, which nobody asked for.
            LockError::Unavailable { nodes, .. } => {
                nodes.iter().all(|node| node.kind() != NodeErrorKind::NoPermission)
            }
            LockError::ExpireTooShort { .. } => !is_calm || asked.stall > 0,
            _ => false,
        };
        if !is_expected {
            self.world.report(&format!("told of {:?}: {error}", asked.wait));
        }
        self.is_in_time(asked, "told");
    }

    /// A call has ended: not later than it may.
    fn is_in_time(&self, Asked { wait, started, stall, .. }: Asked, how: &str) {
        let plan = &self.world.plan;
        let bound = match wait {
            Wait::AtMost(limit) => limit,
            Wait::Never if plan.nodes.len() == 1 => plan.reply_timeout,
            // Some more attempts where votes are split.
            Wait::Never => backoff::split_time(backoff::LONGEST_ATTEMPT),
            Wait::Forever => return,
        };
        let (_, schedule) = &plan.processes[self.process];
        let bound = millis(bound).saturating_add(schedule.lost_time()).saturating_add(LATE + stall);
        let waited = self.world.now() - started;
        if waited > bound {
            self.world.report(&format!("{how} after {waited} ms of {wait:?}"));
        }
    }
}

/// What the last attempts of a call may add to its wait: a quarter of a second, as the simulation
/// rounds it.
const LATE: Tick = 255;

impl Work {
    async fn run(self, hold: &Arc<Hold>) {
        let (world, key) = (&self.world, self.key);
        world.step(key, hold);
        let is_shared = self.kind.is_shared();
        // Whoever is not alone writes nothing.
        let base = if is_shared { Some(0) } else { world.claim(key, hold) };
        let Some(base) = base else { return };
        if world.plan.habits.has_siblings {
            siblings::re_enter(world, &self.redlock, (key, self.kind), hold).await;
        }
        for _ in 0..self.steps {
            world.sleep(self.pause).await;
            world.step(key, hold);
        }
        if !is_shared {
            world.write(key, hold, self.delay, base);
        }
    }
}

/// Where nothing goes wrong: did callers leave the lock of several nodes to each other, or has a
/// guarded node been met just now?
pub(super) fn may_be_unavailable(world: &World, nodes: &[NodeError]) -> bool {
    let kind = match world.plan.nodes.len() {
        1 if world.plan.is_one_guarded() => NodeErrorKind::Quarantined,
        1 => return false,
        _ => NodeErrorKind::Refused,
    };
    nodes.iter().all(|node| node.kind() == kind)
}

/// Polls a call once and, where it waits then, not again before a stall is over.
async fn stalling<F: Future>(
    world: &World,
    waits: Waits,
    stall: Option<Tick>,
    call: F,
) -> F::Output {
    let mut call = pin!(call);
    if let Some(stall) = stall {
        let polled = poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx))).await;
        if let Poll::Ready(output) = polled {
            return output;
        }
        waits.stalls_until(world.now() + stall);
        world.sleep(stall).await;
    }
    let output = call.await;
    drop(waits);
    output
}

/// Without the owner value of a holder, which differs from one run to the next.
fn brief(error: &LockError) -> String {
    match error {
        LockError::Timeout { waited, attempts, .. } => format!("{attempts} times in {waited:?}"),
        other => other.to_string(),
    }
}

pub(super) async fn within<T>(
    patience: Option<Duration>,
    work: impl Future<Output = T>,
) -> Option<T> {
    match patience {
        Some(patience) => tokio::time::timeout(patience, work).await.ok(),
        None => Some(work.await),
    }
}
