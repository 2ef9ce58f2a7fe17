//! Histories without faults: what their callers do, and how long a key may be free while somebody
//! waits for it. A seed is a plan, and the processes of a history compute it from the seed, too.

pub mod caller;
pub mod load;
pub mod run;
mod scene;

use std::fmt;
use std::ops::Range;

use fastrand::Rng;

pub use self::scene::Scene;
use crate::lock_kind::LockKind;
use crate::topology::Topology;

/// What all bounds contain for a machine with two cores and other work: well below the 700 to
/// 1,000 ms of a caller that nobody wakes.
const SLACK_MS: u64 = 400;
/// A client that nobody can tell of a release asks again after this time at most.
const POLL_MS: u64 = 100;
/// A grant that its caller does not take is taken back after this time, and a waiting process looks
/// after its place in the queue once in this time.
const WINDOW_MS: u64 = 1_000;
/// By how much later each process looks than the one before it in the queue.
const PLACE_MS: u64 = 50;

/// How a client of the library gets its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    Url,
    Pool,
}

/// One history without faults.
#[derive(Debug, Clone)]
pub struct Calm {
    pub seed: u64,
    pub topology: Topology,
    pub scene: Scene,
    /// The clients of each process.
    pub processes: Vec<Vec<Door>>,
    /// The callers of each process; of bursts and arrivals, how many there are at most at a time.
    pub callers: u64,
    /// Tasks have them in turn.
    pub keys: u64,
    /// How long callers pause between calls, in microseconds.
    pub pause_us: Range<u32>,
    /// How long bodies last, in microseconds.
    pub hold_us: Range<u64>,
    /// The leases, in milliseconds.
    pub expires: Vec<u64>,
    pub wait_ms: Range<u64>,
    /// One of so many calls is dropped after a while.
    pub drops: Option<u32>,
    /// For arrivals: how much of the time the locks would be held, if all else cost nothing.
    pub percent: u64,
    /// When the parent deletes a key or kills a process, in milliseconds from the start.
    pub strikes: Vec<u64>,
}

impl Calm {
    /// Seeds go through the scenes in turn. The first of each scene is its plainest case, and the
    /// others are random.
    pub fn of(seed: u64, topology: Option<Topology>) -> Calm {
        let count = Scene::ALL.len() as u64;
        let scene = Scene::ALL[usize::try_from(seed % count).unwrap_or(0)];
        let round = seed / count;
        let turns = [
            Topology::One,
            Topology::One,
            Topology::Three,
            Topology::Replicated,
            Topology::Sentinel,
            Topology::Cluster,
        ];
        let turn = turns[usize::try_from(round).unwrap_or(0) % turns.len()];
        let plain = Calm {
            seed,
            topology: topology.unwrap_or(turn),
            scene,
            processes: vec![vec![Door::Url]; 2],
            callers: 2,
            keys: 1,
            pause_us: 1_000..1_001,
            hold_us: 0..1,
            expires: vec![5_000],
            wait_ms: 5_000..5_001,
            drops: None,
            percent: 50,
            strikes: Vec::new(),
        };
        let mut rng = Rng::with_seed(seed);
        let calm = if round == 0 { plain } else { plain.vary(&mut rng) };
        calm.stage(round == 0, &mut rng)
    }

    /// Whatever any scene may have.
    fn vary(mut self, rng: &mut Rng) -> Calm {
        const URL: Door = Door::Url;
        const POOL: Door = Door::Pool;
        let doors = [vec![URL], vec![URL], vec![URL, URL], vec![POOL], vec![URL, POOL]];
        let processes = rng.usize(1..4);
        let mixed = rng.bool();
        let one = rng.choice(&doors).unwrap_or(&doors[0]).clone();
        let choose = |_| match rng.choice(&doors) {
            Some(doors) if mixed => doors.clone(),
            _ => one.clone(),
        };
        self.processes = (0..processes).map(choose).collect();
        self.callers = rng.u64(1..6);
        self.keys = rng.u64(1..3);
        let ends = [(); 2].map(|()| log_uniform(rng, 100..1_500_000));
        self.pause_us = ends[0].min(ends[1])..ends[0].max(ends[1]) + 1;
        self.hold_us = 0..rng.choice([1, 300, 3_000, 30_000]).unwrap_or(1);
        self.percent = rng.u64(5..96);
        self
    }

    /// What the scene needs.
    fn stage(mut self, is_plain: bool, rng: &mut Rng) -> Calm {
        match self.scene {
            // Two callers of each process for each of four keys: four chances at a time.
            Scene::Pauses if is_plain => (self.callers, self.keys) = (8, 4),
            Scene::Pauses => {}
            Scene::Arrivals => {
                self.hold_us = 1_000..12_000;
                self.callers = 64;
            }
            Scene::Bursts => {
                self.callers = rng.u64(4..40);
                self.pause_us = 20_000..400_000;
            }
            // One caller, one process: the others depend on what the caller does.
            Scene::Stalls | Scene::Losses | Scene::Deletions => {
                if is_plain {
                    self.processes.truncate(1);
                    self.callers = 3;
                }
                self.keys = 1;
                self.pause_us.end = self.pause_us.end.min(50_000);
                self.pause_us.start = self.pause_us.start.min(self.pause_us.end - 1);
                // With leases of one length, a tenure is passed on within the process.
                if self.scene == Scene::Losses && rng.bool() {
                    self.expires = vec![300];
                }
                if self.scene == Scene::Deletions {
                    self.strikes = vec![rng.u64(300..800), rng.u64(1_700..2_300)];
                }
            }
            Scene::Pools => {
                if is_plain || self.processes.concat().iter().all(|door| *door == Door::Url) {
                    self.processes[0] = vec![Door::Pool];
                }
            }
            Scene::Cancellations => {
                self.expires = vec![50, 300, 1_000, 5_000];
                self.wait_ms = 0..1_500;
                self.drops = Some(3);
            }
            Scene::Readers | Scene::Permits | Scene::DeadPermits => self.share(is_plain, rng),
            Scene::Groups | Scene::DeadGroups => self.group(is_plain, rng),
            Scene::Deaths => {
                self.processes.resize(self.processes.len().max(3), vec![Door::Url]);
                self.hold_us = 500..20_000;
                self.expires = vec![600];
                self.keys = 1;
                self.pause_us = 100..20_000;
                self.strikes = vec![rng.u64(300..1_000), rng.u64(1_200..2_000)];
            }
        }
        self
    }

    /// What the scenes of readers and of permits need.
    fn share(&mut self, is_plain: bool, rng: &mut Rng) {
        self.keys = 1;
        self.hold_us = 1_000..20_000;
        if self.scene == Scene::Readers {
            // One process has one place in the queue for all of its writers: with one writer in
            // each, the moment of its call is that of its place.
            if is_plain {
                self.processes.push(vec![Door::Url]);
            }
            self.callers = self.callers.max(5);
            self.pause_us = 100..2_000;
            return;
        }
        // Over several masters there are none.
        if self.topology.is_quorum() {
            self.topology = Topology::One;
        }
        self.callers = self.callers.max(3);
        self.pause_us.end = self.pause_us.end.min(20_000);
        self.pause_us.start = self.pause_us.start.min(self.pause_us.end - 1);
        if self.scene == Scene::DeadPermits {
            self.processes.resize(self.processes.len().max(4), vec![Door::Url]);
            self.expires = vec![300];
            // Early: a permit that does not come back is missed for the rest of the time.
            self.strikes = vec![rng.u64(200..300), rng.u64(350..450)];
        }
    }

    /// What the scenes of groups need: all keys are wanted all the time, and some calls end
    /// without their keys.
    fn group(&mut self, is_plain: bool, rng: &mut Rng) {
        self.keys = 3;
        self.callers = if is_plain { 6 } else { self.callers.max(4) };
        self.hold_us = 500..20_000;
        self.pause_us = 100..20_000;
        self.wait_ms = 0..1_500;
        self.drops = Some(6);
        if self.scene == Scene::DeadGroups {
            self.processes.resize(self.processes.len().max(3), vec![Door::Url]);
            self.expires = vec![600];
            self.strikes = vec![rng.u64(200..600), rng.u64(700..1_200)];
        }
    }

    /// How long the work of this history lasts: in the scenes of groups, each caller is busy.
    pub fn lasts_ms(&self, length_ms: u64) -> u64 {
        if self.scene.has_groups() { length_ms * 3 / 5 } else { length_ms }
    }

    /// The keys that a call of a caller wants, by their numbers, in any order.
    pub fn wanted(&self, task: u64, rng: &mut Rng) -> Vec<u64> {
        if !self.scene.has_groups() {
            return vec![task % self.keys];
        }
        if task.is_multiple_of(2) {
            return vec![task / 2 % self.keys];
        }
        let mut keys: Vec<u64> = (0..self.keys).collect();
        rng.shuffle(&mut keys);
        keys.truncate(rng.usize(2..4));
        keys
    }

    /// Does nothing happen in it that could end a lease early?
    pub fn loses_nothing(&self) -> bool {
        let ends_some = matches!(self.scene, Scene::Losses | Scene::Stalls);
        !ends_some && self.strikes.is_empty() && self.expires.iter().all(|&ms| ms >= 5_000)
    }

    /// What kind of lock a caller asks for.
    pub fn kind(&self, task: u64) -> LockKind {
        match self.scene {
            Scene::Readers if task > 1 => LockKind::Read,
            Scene::Permits | Scene::DeadPermits => LockKind::Permit(3),
            _ => LockKind::Exclusive,
        }
    }

    /// Within this time a writer that waits keeps readers out that come later; `None`: somebody
    /// gives up, or asks again by the clock.
    pub fn queue_ms(&self) -> Option<u64> {
        let is_judged = self.scene == Scene::Readers && !self.topology.is_quorum();
        is_judged.then_some(SLACK_MS)
    }

    /// How long a key may be free while somebody waits for it.
    pub fn bound_ms(&self) -> u64 {
        let is_told = self.topology != Topology::Three
            && self.topology != Topology::Five
            && self.processes.concat().iter().all(|door| *door == Door::Url);
        let news_ms = if is_told { 0 } else { POLL_MS };
        let clients = self.processes.concat().len() as u64;
        SLACK_MS
            + news_ms
            + match self.scene {
                Scene::Stalls | Scene::Deletions => WINDOW_MS + PLACE_MS * clients,
                scene if scene.kills() => WINDOW_MS + PLACE_MS * clients,
                Scene::Losses => PLACE_MS * clients,
                _ => 0,
            }
    }

    /// A key that is deleted by hand is a lock that two may have.
    pub fn keeps_exclusion(&self) -> bool {
        self.scene != Scene::Deletions
    }

    /// The keys of its locks, which are called `k-0` and so on.
    pub fn lock_keys(&self) -> Vec<String> {
        (0..self.keys).map(|n| format!("lock:k-{n}")).collect()
    }

    pub fn longest_expire_ms(&self) -> u64 {
        self.expires.iter().copied().max().unwrap_or(0)
    }
}

impl fmt::Display for Calm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of", self.scene)?;
        for doors in &self.processes {
            let letters = doors.iter().map(|door| if *door == Door::Url { 'u' } else { 'p' });
            write!(f, " {}", letters.collect::<String>())?;
        }
        write!(f, ", {} callers each, {} keys", self.callers, self.keys)
    }
}

/// Small values are as likely as large ones.
fn log_uniform(rng: &mut Rng, range: Range<u32>) -> u32 {
    let (low, high) = (f64::from(range.start).ln(), f64::from(range.end).ln());
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the range")]
    let value = (low + rng.f64() * (high - low)).exp() as u32;
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_plan() {
        for seed in 0..200 {
            let calm = Calm::of(seed, None);
            assert_eq!(format!("{calm:?}"), format!("{:?}", Calm::of(seed, None)));
            assert!(!calm.pause_us.is_empty() && !calm.hold_us.is_empty(), "{calm:?}");
            assert!(!calm.wait_ms.is_empty(), "{calm:?}");
            assert!((SLACK_MS..2_000).contains(&calm.bound_ms()), "{calm:?}");
            let strikes = calm.scene == Scene::Deletions || calm.scene.kills();
            assert_eq!(strikes, !calm.strikes.is_empty(), "{calm:?}");
        }
        let other = Calm::of(3, Some(Topology::Five));
        assert_eq!(other.topology, Topology::Five);
        let permits = Calm::of(Scene::Permits as u64, Some(Topology::Five));
        assert_eq!(permits.topology, Topology::One);
    }

    #[test]
    fn each_scene_begins_with_its_plainest_case() {
        let plain = |scene: Scene| Calm::of(scene as u64, None);
        for scene in Scene::ALL {
            assert_eq!((plain(scene).scene, plain(scene).topology), (scene, Topology::One));
        }
        assert_eq!(plain(Scene::Pauses).to_string(), "Pauses of u u, 8 callers each, 4 keys");
        assert_eq!(plain(Scene::Pools).to_string(), "Pools of p u, 2 callers each, 1 keys");
        assert_eq!(plain(Scene::Stalls).to_string(), "Stalls of u, 3 callers each, 1 keys");
    }

    #[test]
    fn the_bound_depends_on_who_is_told_and_on_what_happens() {
        let bound = |seed, topology| Calm::of(seed, Some(topology)).bound_ms();
        assert_eq!(bound(Scene::Pauses as u64, Topology::One), 400);
        assert_eq!(bound(Scene::Pauses as u64, Topology::Three), 500);
        assert_eq!(bound(Scene::Pools as u64, Topology::One), 500);
        assert_eq!(bound(Scene::Losses as u64, Topology::One), 450);
        assert_eq!(bound(Scene::Deletions as u64, Topology::Replicated), 1_450);
        assert_eq!(bound(Scene::Deaths as u64, Topology::One), 1_550);
        assert_eq!(bound(Scene::Readers as u64, Topology::One), 400);
        assert_eq!(bound(Scene::Groups as u64, Topology::Cluster), 400);
        assert_eq!(bound(Scene::DeadGroups as u64, Topology::One), 1_550);
        let queue = |topology| Calm::of(Scene::Readers as u64, Some(topology)).queue_ms();
        assert_eq!((queue(Topology::One), queue(Topology::Three)), (Some(400), None));
    }

    #[test]
    fn a_history_of_groups_has_all_orders_and_overlaps() {
        let calm = Calm::of(Scene::Groups as u64, None);
        let mut rng = Rng::with_seed(1);
        let mut wanted: Vec<_> =
            (0..1_000).map(|n| calm.wanted(1 + n % calm.callers, &mut rng)).collect();
        wanted.sort_unstable();
        wanted.dedup();
        // Three keys alone, six pairs and six triples in some order.
        assert_eq!(wanted.len(), 15, "{wanted:?}");
        let plain = Calm::of(Scene::Pauses as u64, None);
        assert_eq!(plain.wanted(6, &mut rng), [2]);
    }

    #[test]
    fn leases_are_lost_where_something_ends_them() {
        use Scene::{Cancellations, DeadGroups, DeadPermits, Deaths, Deletions, Losses, Stalls};
        let keeps = |scene: Scene| Calm::of(scene as u64, None).loses_nothing();
        let some: Vec<_> = Scene::ALL.into_iter().filter(|scene| !keeps(*scene)).collect();
        let lose = [Stalls, Losses, Deletions, Cancellations, Deaths, DeadPermits, DeadGroups];
        assert_eq!(some, lose);
    }

    #[test]
    fn all_doors_and_loads_come_up() {
        let calms: Vec<_> = (0..200).map(|seed| Calm::of(seed, None)).collect();
        let has = |what: &dyn Fn(&Calm) -> bool| calms.iter().any(what);
        assert!(has(&|calm| calm.processes.concat().iter().all(|door| *door == Door::Pool)));
        assert!(has(&|calm| calm.processes.iter().any(|doors| doors.len() == 2)));
        assert!(has(&|calm| calm.pause_us.start < 300));
        assert!(has(&|calm| calm.pause_us.end > 1_000_000));
        assert!(has(&|calm| calm.scene == Scene::Arrivals && calm.percent < 20));
        assert!(has(&|calm| calm.scene == Scene::Arrivals && calm.percent > 80));
    }
}
