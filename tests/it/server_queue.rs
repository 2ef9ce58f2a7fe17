//! The scripts of the queue of a lock, as docs/protocol.md has them, without the library.

use crate::support::{Raw, Server, eventually, lines_of, ms, secs, unique_prefix};

pub const HEAD: &str = concat!(script!("hand_over.lua"), shared!("holders.lua"));
pub const JOIN: &str = script!("enqueue.lua");
pub const QUICK_RELEASE: &str = script!("quick_release.lua");
pub const RELEASE: &str = script!("release.lua");
pub const ROTATE: &str = script!("rotate.lua");
const NUDGE: &str = script!("nudge.lua");
const ACQUIRE: &str = script!("acquire.lua");
/// A process that cannot be told.
pub const NOBODY: &str = "-";
const EXPIRE: &str = "10000";
const LIFE: &str = "20000";

/// One lock, and whoever asks for it.
pub struct Lock {
    pub raw: Raw,
    pub key: String,
    pub mark: String,
    pub fence: String,
    pub queue: String,
    pub head: String,
}

impl Lock {
    pub fn new(raw: Raw) -> Self {
        Self::called(&format!("{}k", unique_prefix()), raw)
    }

    pub fn called(key: &str, raw: Raw) -> Self {
        let key = key.to_owned();
        let (fence, queue) = (format!("{{{key}}}:fence"), format!("{{{key}}}:queue"));
        let mark = format!("lock:{{{key}}}:mark:fence");
        Self { raw, key, mark, fence, queue, head: HEAD.to_owned() }
    }

    /// Its fencing tokens run ahead of the clock without a bound.
    pub fn unbounded(self) -> Self {
        Self { head: HEAD.replace("max_lead = 10000", "max_lead = 9e15"), ..self }
    }

    pub async fn run(&self, text: &str, args: &[&str]) -> Result<Vec<String>, String> {
        let keys = ["4", &self.key, &self.mark, &self.fence, &self.queue];
        let words = [&["EVAL", text][..], &keys, args].concat();
        self.raw.try_cmd(&words).await.map(lines_of).map_err(|error| error.to_string())
    }

    pub async fn join_on(&self, owner: &str, channel: &str) -> Result<Vec<String>, String> {
        self.join_for(owner, "8", channel).await
    }

    /// `reserve`: how many fencing tokens.
    pub async fn join_for(
        &self,
        owner: &str,
        reserve: &str,
        channel: &str,
    ) -> Result<Vec<String>, String> {
        let args = [owner, EXPIRE, LIFE, reserve, channel];
        self.run(&[&self.head, JOIN].concat(), &args).await
    }

    async fn join(&self, owner: &str) -> Vec<String> {
        self.join_on(owner, NOBODY).await.unwrap()
    }

    async fn look(&self, owner: &str) -> Vec<String> {
        self.join_on(owner, "").await.unwrap()
    }

    pub async fn release(&self, owner: &str) -> String {
        self.let_go(owner, "", "").await
    }

    /// `used`: the last fencing token that was used, of all that were drawn.
    pub async fn let_go(&self, owner: &str, used: &str, leave: &str) -> String {
        let reserved = self.raw.try_cmd(&["GET", &self.fence]).await.map(lines_of);
        let reserved = reserved.ok().and_then(|mut lines| lines.pop()).unwrap_or_default();
        self.let_go_of(owner, used, &reserved, leave).await
    }

    async fn let_go_of(&self, owner: &str, used: &str, reserved: &str, leave: &str) -> String {
        let args = [owner, leave, used, reserved, LIFE];
        self.run(&[QUICK_RELEASE, &self.head, RELEASE].concat(), &args).await.unwrap().remove(0)
    }

    async fn rotate(&self, owner: &str, used: u64, next: &str) -> Vec<String> {
        let reserved = self.raw.get(&self.fence).await.unwrap_or_default();
        self.rotate_of(owner, used, &reserved, next).await.unwrap()
    }

    pub async fn rotate_of(
        &self,
        owner: &str,
        used: u64,
        reserved: &str,
        next: &str,
    ) -> Result<Vec<String>, String> {
        let used = used.to_string();
        let args = [owner, &used, reserved, next, EXPIRE, LIFE, "8", NOBODY];
        self.run(&[&self.head, ROTATE].concat(), &args).await
    }

    async fn nudge(&self) -> Vec<String> {
        self.run(&[&self.head, NUDGE].concat(), &["a"]).await.unwrap()
    }

    /// The fencing token.
    pub async fn acquire(&self, owner: &str) -> u64 {
        let granted = self.try_acquire(owner).await.unwrap();
        number(granted.split(' ').next().unwrap())
    }

    /// `<fencing token> <time>`, or `<time>` where they are the same.
    pub async fn try_acquire(&self, owner: &str) -> Result<String, String> {
        let keys = ["3", &self.key, &self.mark, &self.fence];
        let words = [&["EVAL", ACQUIRE][..], &keys, &[owner, EXPIRE, LIFE]].concat();
        let granted = self.raw.try_cmd(&words).await.map(lines_of);
        granted.map(|mut lines| lines.remove(0)).map_err(|error| error.to_string())
    }

    pub async fn holder(&self) -> Option<String> {
        self.raw.get(&self.key).await
    }

    pub async fn counter(&self) -> u64 {
        self.raw.get(&self.fence).await.unwrap().parse().unwrap()
    }

    pub async fn waiting(&self) -> i64 {
        self.raw.int(&["LLEN", &self.queue]).await
    }
}

pub async fn lock() -> Lock {
    Lock::new(Server::shared().await.raw())
}

pub fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("{text} is not a number"))
}

#[tokio::test]
async fn whoever_came_first_is_served_first() {
    let lock = lock().await;
    let reply = lock.join("holder").await;
    assert_eq!(reply[0], "1", "it is free, and nobody waits");
    assert_eq!(number(&reply[2]) - number(&reply[1]), 7, "eight fencing tokens");
    assert!(lock.raw.pttl(&lock.key).await.unwrap() > secs(9));
    for (ahead, owner) in ["a", "b", "c"].iter().enumerate() {
        let reply = lock.join(owner).await;
        assert_eq!((&*reply[0], &*reply[2], number(&reply[4])), ("0", "holder", ahead as u64));
        assert_eq!(reply[5], "0", "it gave no channel");
        assert!((9_000..=10_000).contains(&number(&reply[1])), "{reply:?}");
    }
    assert!(lock.raw.pttl(&lock.queue).await.unwrap() > secs(50));
    for (holder, next) in [("holder", "a"), ("a", "b"), ("b", "c")] {
        assert_eq!(lock.release(holder).await, "2");
        assert_eq!(lock.holder().await.as_deref(), Some(next));
        assert!(lock.raw.pttl(&lock.key).await.unwrap() <= ms(1000), "until it claims it");
    }
    assert_eq!(lock.release("c").await, "1");
    assert_eq!(lock.holder().await, None);
    assert_eq!(lock.raw.pttl(&lock.queue).await, None, "an empty queue is no key");
}

/// Over grants, hand-overs, rotations and what was given back.
#[tokio::test]
async fn fencing_tokens_grow_whatever_happens_and_unused_ones_are_given_back() {
    let lock = lock().await.unbounded();
    let mut used = Vec::new();
    let reply = lock.join("a").await;
    used.extend([number(&reply[1]), number(&reply[1]) + 1]);
    lock.join("b").await;
    // Far ahead of the server's time, so that only the counter decides.
    let far = number(&reply[2]) + 1_000_000_000;
    lock.raw.cmd(&["SET", &lock.fence, &far.to_string(), "PX", LIFE]).await;
    assert_eq!(lock.let_go("a", &(far - 5).to_string(), "").await, "2");
    assert_eq!(lock.counter().await, far - 5 + 8, "b begins right behind the last that was used");
    let claimed = lock.acquire("b").await;
    assert_eq!(claimed, lock.counter().await);
    used.push(claimed - 7);
    let kept = lock.rotate("b", claimed - 6, "next").await;
    assert_eq!((&*kept[0], number(&kept[1])), ("1", claimed - 5), "nobody waits: right behind");
    assert_eq!(lock.counter().await, claimed - 6 + 8);
    used.push(number(&kept[1]));
    assert_eq!(lock.let_go("b", &kept[1], "").await, "1");
    assert_eq!(lock.counter().await, number(&kept[1]), "the rest was given back");
    used.push(lock.acquire("c").await);
    assert!(used.is_sorted_by(|a, b| a < b), "{used:?}");
}

/// As when a command of an owner lands long after its lease, and it lets go only then. Or the
/// counter was lost.
#[tokio::test]
async fn fencing_tokens_that_others_have_drawn_since_are_never_given_back() {
    for way in ["release", "hand over", "rotate", "keep"] {
        // Far ahead of the server's time, so that only the counter decides; lost; gone back.
        for moved_to in [Some(9_000_000_000_000_000), None, Some(7)] {
            let lock = lock().await.unbounded();
            let reply = lock.join("a").await;
            let (used, reserved) = (number(&reply[1]), &reply[2]);
            let last = moved_to.unwrap_or(used).max(used);
            match moved_to.map(|moved: u64| moved.to_string()) {
                Some(moved) => drop(lock.raw.cmd(&["SET", &lock.fence, &moved, "PX", LIFE]).await),
                None => assert!(lock.raw.del(&lock.fence).await),
            }
            if matches!(way, "hand over" | "rotate") {
                lock.join("b").await;
            }
            match way {
                "release" => {
                    let used = used.to_string();
                    assert_eq!(lock.let_go_of("a", &used, reserved, "").await, "1");
                    assert!(number(&lock.join("c").await[1]) > last, "{way} {moved_to:?}");
                }
                "hand over" => {
                    let used = used.to_string();
                    assert_eq!(lock.let_go_of("a", &used, reserved, "").await, "2");
                    assert!(lock.counter().await > last + 7, "{way} {moved_to:?}");
                }
                "rotate" => {
                    let passed = lock.rotate_of("a", used, reserved, "a2").await.unwrap();
                    assert_eq!(passed[0], "2");
                    assert!(lock.counter().await > last + 7, "{way} {moved_to:?}");
                }
                _ => {
                    let kept = lock.rotate_of("a", used, reserved, "a2").await.unwrap();
                    assert!(kept[0] == "1" && number(&kept[1]) > last, "{moved_to:?}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_process_that_is_gone_is_passed_over_at_once() {
    let lock = lock().await;
    lock.join("holder").await;
    let mailbox = format!("@{}", unique_prefix());
    for (owner, channel) in [("x", "redlock:gone"), ("y", "redlock:gone-too"), ("a", &mailbox)] {
        lock.join_on(owner, channel).await.unwrap();
    }
    lock.join_on("z", "redlock:gone").await.unwrap();
    let before = lock.counter().await;
    assert_eq!(lock.release("holder").await, "2");
    assert_eq!((lock.holder().await.as_deref(), lock.waiting().await), (Some("a"), 1));
    assert!(lock.counter().await > before);
    assert_eq!(lock.release("a").await, "1", "nobody is left who lives");
    assert_eq!((lock.holder().await, lock.waiting().await), (None, 0));
}

/// It listens, but never claims the lock: a nudge after the claim window.
#[tokio::test]
async fn a_process_that_is_frozen_holds_the_queue_up_for_one_claim_window() {
    let hasty = HEAD.replace("claim_window = 1000", "claim_window = 30");
    let lock = Lock { head: hasty, ..lock().await };
    lock.join("holder").await;
    lock.join("frozen").await;
    lock.join("next").await;
    assert_eq!(lock.release("holder").await, "2");
    assert!(lock.raw.pttl(&lock.key).await.is_none_or(|left| left <= ms(30)));
    eventually(secs(20), || async { lock.holder().await.is_none() }).await;
    let reply = lock.nudge().await;
    assert!((1..=30).contains(&number(&reply[0])) && reply[1] == "0", "{reply:?}");
    // Nobody waits any more: the nudge leaves the free lock free.
    eventually(secs(20), || async { lock.holder().await.is_none() }).await;
    assert_eq!(lock.nudge().await, ["-2", "0"]);
    assert_eq!(lock.look("frozen").await[0], "2", "its turn is over");
    assert_eq!(lock.holder().await, None, "nobody has it who does not wait");
    lock.join("another").await;
    let held = lock.nudge().await;
    assert!(number(&held[0]) > 9_000, "who holds it is left alone: {held:?}");
}

#[tokio::test]
async fn a_short_lease_is_not_longer_in_a_hand_over() {
    let lock = lock().await;
    lock.join("holder").await;
    let args = ["short", "40", LIFE, "1", NOBODY];
    lock.run(&[HEAD, JOIN].concat(), &args).await.unwrap();
    assert_eq!(lock.release("holder").await, "2");
    assert!(lock.raw.pttl(&lock.key).await.is_none_or(|left| left <= ms(40)));
}

#[tokio::test]
async fn who_leaves_is_passed_over_and_passes_on_what_it_was_handed() {
    let lock = lock().await;
    lock.join("holder").await;
    for owner in ["a", "b with a name of many words", "c"] {
        lock.join(owner).await;
    }
    assert_eq!(lock.let_go("b with a name of many words", "", "leave").await, "-1");
    assert_eq!(lock.waiting().await, 2);
    assert_eq!(lock.let_go("words", "", "leave").await, "-1", "no owner by itself");
    assert_eq!(lock.waiting().await, 2);
    assert_eq!(lock.release("holder").await, "2");
    assert_eq!(lock.let_go("a", "", "leave").await, "2");
    assert_eq!(lock.holder().await.as_deref(), Some("c"));
    assert_eq!(lock.let_go("c", "", "leave").await, "1");
    assert_eq!(lock.let_go("c", "", "leave").await, "0");
}

#[tokio::test]
async fn who_looks_learns_its_place_or_that_it_has_none() {
    let lock = lock().await;
    lock.join("holder").await;
    lock.join("a").await;
    lock.join_on("b", "redlock:b").await.unwrap();
    lock.raw.cmd(&["PEXPIRE", &lock.queue, "1000"]).await;
    let reply = lock.look("b").await;
    assert_eq!([&reply[0], &reply[2], &reply[4], &reply[5]], ["0", "holder", "1", "1"]);
    assert!(lock.raw.pttl(&lock.queue).await.unwrap() > secs(50), "a look keeps a queue");
    assert_eq!(lock.look("stranger").await[0], "2");
    assert_eq!(lock.waiting().await, 2, "a look puts nobody into the queue");
    // The call was missed.
    lock.release("holder").await;
    let reply = lock.look("a").await;
    assert_eq!((&*reply[0], &reply[1]), ("1", &reply[2]), "one fencing token, the last");
    assert_eq!(number(&reply[1]), lock.counter().await);
    assert!(lock.raw.pttl(&lock.key).await.unwrap() > secs(9), "and the whole lease");
}

/// The holder let its lease run out.
#[tokio::test]
async fn a_newcomer_does_not_overtake() {
    let lock = lock().await;
    lock.join("holder").await;
    lock.join_on("gone", "redlock:gone").await.unwrap();
    for owner in ["a", "b"] {
        lock.join(owner).await;
    }
    lock.raw.del(&lock.key).await;
    let reply = lock.join("c").await;
    assert_eq!([&reply[0], &reply[2], &reply[4]], ["0", "a", "1"]);
}

#[tokio::test]
async fn a_holder_gives_way_to_others_only() {
    let lock = lock().await;
    let reply = lock.join("a").await;
    lock.join_on("gone", "redlock:gone").await.unwrap();
    lock.raw.cmd(&["PEXPIRE", &lock.key, "1000"]).await;
    let first = number(&reply[1]);
    let kept = lock.rotate("a", first, "a2").await;
    assert!(kept[0] == "1" && number(&kept[1]) > first, "{kept:?}");
    let first = number(&kept[1]);
    assert_eq!(number(&kept[2]), first + 7);
    assert_eq!(lock.holder().await.as_deref(), Some("a"));
    assert!(lock.raw.pttl(&lock.key).await.unwrap() > secs(9), "a full lease");
    lock.join("b").await;
    lock.join("c").await;
    let passed = lock.rotate("a", first, "a2").await;
    assert_eq!([&passed[0], &passed[2], &passed[4]], ["2", "b", "1"]);
    assert!(number(&passed[1]) <= 1000);
    assert_eq!(lock.rotate("a", first + 1, "a3").await[0], "-1", "nothing is done twice");
    assert_eq!(lock.waiting().await, 2);
    for (holder, next) in [("b", "c"), ("c", "a2")] {
        lock.release(holder).await;
        assert_eq!(lock.holder().await.as_deref(), Some(next));
    }
    lock.release("a2").await;
    assert_eq!(lock.rotate("a2", first, "a3").await[0], "0");
}

/// A client of the standard algorithm with the same key, that knows of no queue.
#[tokio::test]
async fn a_foreign_client_excludes_and_is_excluded() {
    let lock = lock().await;
    let compare_and_delete =
        "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end";
    assert!(lock.raw.set_foreign_lock(&lock.key, "foreign", secs(10)).await);
    assert_eq!(lock.join("a").await[2], "foreign");
    lock.join("b").await;
    assert_eq!(lock.let_go("x", "", "leave").await, "-1");
    lock.raw.cmd(&["EVAL", compare_and_delete, "1", &lock.key, "foreign"]).await;
    assert_eq!(lock.look("a").await[0], "1");
    assert!(!lock.raw.set_foreign_lock(&lock.key, "foreign", secs(10)).await);
    assert_eq!(lock.release("a").await, "2");
    assert!(!lock.raw.set_foreign_lock(&lock.key, "foreign", secs(10)).await, "b has it");
    // Bytes that are no text, and no expiry.
    lock.raw.cmd(&["EVAL", r"redis.call('SET', KEYS[1], '\255 \0')", "1", &lock.key]).await;
    let reply = lock.join("c").await;
    assert_eq!([&reply[0], &reply[1]], ["0", "-1"]);
    assert_eq!(lock.release("b").await, "-1");
    assert_eq!(lock.nudge().await, ["-1", "1"]);
}

/// Whatever others put there.
#[tokio::test]
async fn what_is_no_entry_is_thrown_away() {
    let lock = lock().await;
    lock.join("holder").await;
    lock.raw.cmd(&["RPUSH", &lock.queue, "", "hello", "1 2 3 4", "10 x 1 - y"]).await;
    lock.join("a").await;
    assert_eq!(lock.release("holder").await, "2");
    assert_eq!((lock.holder().await.as_deref(), lock.waiting().await), (Some("a"), 0));
}
