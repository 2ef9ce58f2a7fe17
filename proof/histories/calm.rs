//! Histories without faults: what their callers do, and how long a key may be free while somebody
//! waits for it. A seed is a plan, and the processes of a history compute it from the seed, too.

pub(crate) mod caller;
pub(crate) mod load;
pub(crate) mod run;
mod scene;
#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::Range;

use fastrand::Rng;

pub(crate) use self::scene::Scene;
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
pub(crate) enum Door {
    Url,
    Pool,
}

/// One history without faults.
#[derive(Debug, Clone)]
pub(crate) struct Calm {
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
    pub(crate) fn of(seed: u64, topology: Option<Topology>) -> Calm {
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
    pub(crate) fn lasts_ms(&self, length_ms: u64) -> u64 {
        if self.scene.has_groups() { length_ms * 3 / 5 } else { length_ms }
    }

    /// The keys that a call of a caller wants, by their numbers, in any order.
    pub(crate) fn wanted(&self, task: u64, rng: &mut Rng) -> Vec<u64> {
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
    pub(crate) fn loses_nothing(&self) -> bool {
        let ends_some = matches!(self.scene, Scene::Losses | Scene::Stalls);
        !ends_some && self.strikes.is_empty() && self.expires.iter().all(|&ms| ms >= 5_000)
    }

    /// Why calls may fail in it: somebody else has the lock for all of a `wait`, a caller gives up,
    /// or something ends leases early.
    pub(crate) fn reasons(&self) -> Vec<&'static str> {
        let mut reasons = vec!["Timeout"];
        if self.drops.is_some() {
            reasons.push("Dropped");
        }
        if !self.loses_nothing() {
            reasons.push("Lost");
        }
        // A machine that is busy answers later than that.
        let has_short_leases = self.expires.iter().any(|&ms| ms < 1_000);
        if self.scene == Scene::Losses || has_short_leases {
            reasons.push("ExpireTooShort");
        }
        if self.topology.is_quorum() {
            // Callers that ask at the same moment may leave the lock to each other.
            reasons.push("Split");
        }
        // Several servers have 50 ms for an acquire then, in which a busy machine may not answer.
        if self.topology.is_quorum() && has_short_leases {
            reasons.push("Unavailable");
        }
        reasons
    }

    /// What kind of lock a caller asks for.
    pub(crate) fn kind(&self, task: u64) -> LockKind {
        match self.scene {
            Scene::Readers if task > 1 => LockKind::Read,
            Scene::Permits | Scene::DeadPermits => LockKind::Permit(3),
            _ => LockKind::Exclusive,
        }
    }

    /// Within this time a writer that waits keeps readers out that come later; `None`: somebody
    /// gives up, or asks again by the clock.
    pub(crate) fn queue_ms(&self) -> Option<u64> {
        let is_judged = self.scene == Scene::Readers && !self.topology.is_quorum();
        is_judged.then_some(SLACK_MS)
    }

    /// Is each client told when a lock is handed over to it?
    pub(crate) fn is_told(&self) -> bool {
        let has_urls = self.processes.concat().iter().all(|door| *door == Door::Url);
        has_urls && !self.topology.is_quorum()
    }

    /// How long a key may be free while somebody waits for it.
    pub(crate) fn bound_ms(&self) -> u64 {
        let news_ms = if self.is_told() { 0 } else { POLL_MS };
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
    pub(crate) fn keeps_exclusion(&self) -> bool {
        self.scene != Scene::Deletions
    }

    /// The keys of its locks, which are called `k-0` and so on.
    pub(crate) fn lock_keys(&self) -> Vec<String> {
        (0..self.keys).map(|n| format!("lock:k-{n}")).collect()
    }

    pub(crate) fn longest_expire_ms(&self) -> u64 {
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
