//! Processes that take two locks in turns, and ways to kill them at a certain moment.

use std::time::{Duration, Instant};

use crate::hand_over_store::Store;
use crate::hand_over_worker::KEYS;
use crate::server_queue::Lock;
use crate::support::proxy::{Then, contains};
use crate::support::{Process, Proxy, Raw, Server, lines_of, ms, secs, time_passes, unique_prefix};

/// Whatever happened, somebody moves within this time.
const STUCK: Duration = secs(20);
const SIZE: usize = 3;

/// One process, and its wire.
struct Member {
    proxy: Proxy,
    process: Process,
    name: String,
}

/// Some processes, and their locks.
pub struct Crew<'a> {
    server: &'a Server,
    raw: Raw,
    prefix: String,
    members: Vec<Member>,
    stores: [Store; 2],
    /// Names of those that were killed.
    pub dead: Vec<String>,
    pub freezes: usize,
}

/// Time for something to come about.
struct Patience(Instant);

impl Patience {
    fn new() -> Self {
        Self(Instant::now())
    }

    async fn pause(&self, what: &str) {
        assert!(self.0.elapsed() < STUCK, "in {STUCK:?} never: {what}");
        time_passes(ms(2)).await;
    }
}

impl<'a> Crew<'a> {
    pub fn start(server: &'a Server) -> Self {
        let prefix = unique_prefix();
        let stores = KEYS.map(|(key, _)| Store::new(server.raw(), &prefix, key));
        let (dead, freezes) = (Vec::new(), 0);
        let mut crew =
            Self { server, raw: server.raw(), prefix, members: Vec::new(), stores, dead, freezes };
        for n in 0..SIZE {
            let proxy = Proxy::start(server);
            let name = format!("{n}");
            let process = crew.hire(&proxy, &name);
            crew.members.push(Member { proxy, process, name });
        }
        crew
    }

    fn hire(&self, proxy: &Proxy, name: &str) -> Process {
        Process::spawn("take-turns", &[&proxy.url(), &self.server.url(), &self.prefix, name])
    }

    fn lock(&self, key: usize) -> Lock {
        Lock::called(&format!("{}{}", self.prefix, KEYS[key].0), self.server.raw())
    }

    /// Owners in the queue, the first one first.
    async fn queue(&self, key: usize) -> Vec<String> {
        let queue = self.lock(key).queue;
        let entries = lines_of(self.raw.cmd(&["LRANGE", &queue, "0", "-1"]).await);
        let owners = entries.iter().filter_map(|entry| entry.splitn(5, ' ').nth(4));
        owners.map(str::to_owned).collect()
    }

    async fn holder(&self, key: usize) -> String {
        self.raw.get(&self.lock(key).key).await.unwrap_or_default()
    }

    /// Which living process has this owner value.
    fn member(&self, owner: &str) -> Option<usize> {
        let (name, _) = owner.split_once(':')?;
        self.members.iter().position(|member| member.name == name)
    }

    async fn disturb(&self) {
        for store in &self.stores {
            store.disturb().await;
        }
    }

    /// Dead at once, and replaced.
    async fn kill(&mut self, at: usize) {
        self.members[at].process.sigkill();
        // What was held back on its wire arrives, or not, without it.
        self.members[at].proxy.pass();
        let name = format!("{at}-{}", self.dead.len());
        let process = self.hire(&self.members[at].proxy, &name);
        let member = &mut self.members[at];
        member.process = process;
        self.dead.push(std::mem::replace(&mut member.name, name));
        self.disturb().await;
    }

    fn freeze(&mut self, at: usize) {
        self.members[at].process.sigstop();
    }

    async fn thaw(&mut self, at: usize) {
        self.members[at].process.sigcont();
        self.freezes += 1;
        self.disturb().await;
    }

    /// Stops one that waits in the queue, by a signal or on its wire. Gives its owner value.
    async fn stop_in_the_queue(&mut self, key: usize, by_signal: bool) -> (usize, String) {
        let patience = Patience::new();
        loop {
            let queue = self.queue(key).await;
            let found =
                queue.iter().rev().find_map(|owner| Some((self.member(owner)?, owner.clone())));
            if let Some((at, owner)) = found {
                if by_signal {
                    self.freeze(at);
                } else {
                    self.members[at].proxy.black_hole();
                }
                if self.queue(key).await.contains(&owner) {
                    return (at, owner);
                }
                self.go_on(at, by_signal).await;
            }
            patience.pause("somebody waits in the queue").await;
        }
    }

    async fn go_on(&mut self, at: usize, by_signal: bool) {
        if by_signal {
            self.thaw(at).await;
        } else {
            self.members[at].proxy.pass();
        }
    }

    pub async fn kill_in_the_queue(&mut self, key: usize) {
        let (at, _) = self.stop_in_the_queue(key, true).await;
        self.kill(at).await;
    }

    /// Stops one in the queue until the lock was handed to it. It cannot know.
    async fn stop_when_called(&mut self, key: usize, by_signal: bool) -> (usize, String) {
        loop {
            let (at, owner) = self.stop_in_the_queue(key, by_signal).await;
            let patience = Patience::new();
            loop {
                if self.holder(key).await == owner {
                    return (at, owner);
                }
                if !self.queue(key).await.contains(&owner) && self.holder(key).await != owner {
                    // The machine was busy for longer than a claim window.
                    break;
                }
                patience.pause("it is its turn").await;
            }
            self.go_on(at, by_signal).await;
        }
    }

    pub async fn kill_when_called(&mut self, key: usize, by_signal: bool) {
        let (at, _) = self.stop_when_called(key, by_signal).await;
        self.kill(at).await;
    }

    /// It is passed over, and comes back.
    pub async fn freeze_when_called(&mut self, key: usize) {
        let (at, owner) = self.stop_when_called(key, true).await;
        self.next_one(key, &owner).await;
        self.thaw(at).await;
    }

    async fn next_one(&self, key: usize, owner: &str) {
        let patience = Patience::new();
        while [owner, ""].contains(&&*self.holder(key).await) {
            patience.pause("the next one has the lock").await;
        }
    }

    /// Waits for a body that lasts.
    async fn body(&mut self, key: usize) -> (usize, String) {
        let patience = Patience::new();
        let mut known = false;
        loop {
            for at in 0..SIZE {
                let told = self.members[at].process.events();
                let holds = told.iter().rev().find_map(|event| {
                    event.strip_prefix("holds ")?.strip_prefix(KEYS[key].0)?.strip_prefix(' ')
                });
                // What was told before this call is old.
                if let (Some(owner), true) = (holds, known) {
                    return (at, owner.to_owned());
                }
            }
            known = true;
            patience.pause("a body lasts").await;
        }
    }

    pub async fn kill_holding(&mut self, key: usize) {
        loop {
            let (at, owner) = self.body(key).await;
            self.kill(at).await;
            if self.stores[key].busy().await == owner {
                return;
            }
        }
    }

    /// Until its lease is over and the next one has the lock.
    pub async fn freeze_holding(&mut self, key: usize) {
        let (at, owner) = self.body(key).await;
        self.freeze(at);
        self.next_one(key, &owner).await;
        self.thaw(at).await;
    }

    /// Waits until the next command of one process that gives the lock away is on its way.
    async fn giving_away(&mut self, key: usize, at: usize, script: &str, then: Then) {
        let lock = self.lock(key).key;
        let sha = lines_of(self.raw.cmd(&["SCRIPT", "LOAD", script]).await).remove(0);
        let request = format!("{sha}\r\n$1\r\n4\r\n${}\r\n{lock}\r\n", lock.len());
        let hits = self.members[at].proxy.when(contains(request), then);
        let patience = Patience::new();
        while hits.count() == 0 {
            patience.pause("a lock is given away").await;
        }
    }

    pub async fn kill_giving_away(&mut self, key: usize, at: usize, script: &str, then: Then) {
        let at = at % SIZE;
        self.giving_away(key, at, script, then).await;
        self.kill(at).await;
    }

    /// Frozen, and its reply lost.
    pub async fn freeze_giving_away(&mut self, key: usize, at: usize, script: &str) {
        let at = at % SIZE;
        self.giving_away(key, at, script, Then::LoseReply).await;
        self.freeze(at);
        time_passes(ms(100)).await;
        self.members[at].proxy.pass();
        self.thaw(at).await;
    }

    /// Lets all come to their end, and looks at what is left.
    pub async fn end(mut self) {
        for store in &self.stores {
            store.end().await;
        }
        for member in &mut self.members {
            assert_eq!(
                member.process.event_within(4 * STUCK, "done").await,
                "0",
                "all is released"
            );
            assert!(member.process.wait(STUCK).await.success());
        }
        for (key, (_, tasks)) in KEYS.into_iter().enumerate() {
            self.stores[key].assert_sound(STUCK).await;
            assert_eq!(self.queue(key).await, [""; 0]);
            assert_eq!(self.holder(key).await, "", "all is released");
            let mut written = 0;
            for member in &self.members {
                written += self.stores[key].written_by(&member.name, 0).await;
            }
            for name in &self.dead {
                written += self.stores[key].written_by(name, tasks).await;
            }
            assert_eq!(self.stores[key].number("value").await, written);
        }
    }
}
