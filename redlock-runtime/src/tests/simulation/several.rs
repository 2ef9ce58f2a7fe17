//! Clients that want all keys of a history at once, beside those that want one.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;

use super::client::may_be_unavailable;
use super::plan::{KEYS, millis};
use super::world::World;
use crate::client::Redlock;
use crate::error::LockError;
use crate::lease::Lease;
use crate::options::Wait;

/// In one history of so many that have more than one key.
const SHARE: u8 = 2;

pub(super) struct SeveralClient {
    world: Arc<World>,
    redlock: Redlock,
    random: Rng,
}

/// A call that may have some of the keys, and believes to have none.
struct OnTheWay(Arc<World>);

impl OnTheWay {
    fn new(world: &Arc<World>) -> Self {
        world.set_may_have_some(true);
        Self(Arc::clone(world))
    }
}

impl Drop for OnTheWay {
    fn drop(&mut self) {
        self.0.set_may_have_some(false);
    }
}

impl SeveralClient {
    /// `None`: nobody wants several keys in this history.
    pub(super) fn new(world: &Arc<World>, redlock: &Redlock, random: &mut Rng) -> Option<Self> {
        let wants = world.plan.keys > 1 && random.u8(..SHARE) == 0;
        let (world, redlock) = (Arc::clone(world), redlock.clone());
        wants.then(|| Self { world, redlock, random: random.fork() })
    }

    pub(super) async fn work(mut self) {
        for _ in 0..self.world.plan.habits.turns() {
            let pause = self.world.plan.habits.pause(&mut self.random, self.world.now());
            self.world.sleep(pause).await;
            self.turn().await;
        }
    }

    async fn turn(&mut self) {
        let (world, random) = (Arc::clone(&self.world), &mut self.random);
        let mut keys: Vec<usize> = (0..world.plan.keys).collect();
        random.shuffle(&mut keys);
        let wait = match random.u8(..4) {
            0 => Wait::Never,
            1 => Wait::Forever,
            _ => Wait::AtMost(Duration::from_millis(random.u64(20..1500))),
        };
        let request = self.redlock.lock_all(keys.iter().map(|key| KEYS[*key]));
        let request = request.expire(world.plan.expire).wait(wait);
        let patience = match random.u8(..4) {
            0 => random.u64(..2 * millis(world.plan.pace)),
            _ => u64::from(u32::MAX),
        };
        let (steps, pause) = (random.u64(1..=3), random.u64(..=millis(world.plan.pace) / 3));
        let on_the_way = OnTheWay::new(&world);
        let run = request.run(work(Arc::clone(&world), keys, on_the_way, steps, pause));
        match tokio::time::timeout(Duration::from_millis(patience), run).await {
            Ok(Err(LockError::Timeout { .. })) if wait != Wait::Forever => {
                world.state().witness.tally.refused += 1;
            }
            Ok(Err(LockError::Lost { .. })) if !world.plan.is_calm => {
                world.state().witness.tally.lost += 1;
            }
            // Its process was frozen for longer than the lease.
            Ok(Err(LockError::ExpireTooShort { .. })) if !world.plan.is_calm => {}
            Ok(Err(LockError::Unavailable { nodes, .. }))
                if !world.plan.is_calm || may_be_unavailable(&world, &nodes) => {}
            Ok(Err(error)) => {
                world.report(&format!("told, who wants several keys: {error}"));
            }
            Ok(Ok(())) | Err(_) => {}
        }
    }
}

async fn work(world: Arc<World>, keys: Vec<usize>, way: OnTheWay, steps: u64, pause: u64) {
    let Some(lease) = Lease::current() else { return world.report("a body without a lease") };
    let hold = Arc::clone(lease.hold());
    for key in &keys {
        world.enter(*key, &hold);
    }
    drop(way);
    world.state().witness.tally.several += 1;
    let mut read = Vec::new();
    for key in &keys {
        world.step(*key, &hold);
        let Some(base) = world.claim(*key, &hold) else { return };
        read.push((*key, base));
    }
    for _ in 0..steps {
        world.sleep(pause).await;
        for key in &keys {
            world.step(*key, &hold);
        }
    }
    for (key, base) in read {
        world.write(key, &hold, 0, base);
    }
}
