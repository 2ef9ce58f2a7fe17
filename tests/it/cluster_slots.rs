//! The leases of a slot are renewed together, and one by one while it moves.

use redlock::deadpool_redis::Runtime;
use redlock::deadpool_redis::cluster::Config;
use redlock::deadpool_redis::redis::from_redis_value;
use redlock::{LockGuard, Redlock, Released};

use crate::support::{Cluster, Raw, Server, eventually, secs};

async fn client(cluster: &Cluster) -> Redlock {
    Redlock::builder().cluster(cluster.urls()).build().await.unwrap()
}

/// Waits until each of them was renewed so many times more.
async fn renewed(guards: &[LockGuard], more: u32) {
    let enough: Vec<u32> = guards.iter().map(|guard| guard.renewals() + more).collect();
    eventually(secs(30), || async {
        let mut pairs = guards.iter().zip(&enough);
        pairs.all(|(guard, enough)| guard.check().is_err() || guard.renewals() >= *enough)
    })
    .await;
    for guard in guards {
        guard.check().unwrap();
    }
}

/// Locks of one slot, taken at the same time.
async fn take(redlock: &Redlock, count: usize, expire: u64) -> Vec<LockGuard> {
    let lock = |n| redlock.lock(format!("{{s}}-{n}")).expire(secs(expire)).wait(secs(60));
    let tasks: Vec<_> = (0..count).map(|n| tokio::spawn(lock(n).acquire())).collect();
    let mut guards = Vec::new();
    for task in tasks {
        guards.push(task.await.unwrap().unwrap());
    }
    guards
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_of_one_slot_share_calls() {
    let cluster = Cluster::start_with(secs(60), &[]).await;
    let redlock = client(&cluster).await;
    let guards = take(&redlock, 40, 6).await;
    let master = cluster.master_of("lock:{s}-0").await.raw();
    renewed(&guards, 1).await;
    let calls = || async {
        let stat = master.info("cmdstat_evalsha").await;
        stat.split(['=', ',']).nth(1).unwrap().parse::<u32>().unwrap()
    };
    let sum = || guards.iter().map(|guard| guard.renewals()).sum::<u32>();
    let before = (calls().await, sum());
    renewed(&guards, 2).await;
    let (calls, renewals) = (calls().await - before.0, sum() - before.1);
    assert!(calls > 0 && renewals >= 80 && 2 * calls <= renewals, "{calls} for {renewals}");
    for guard in guards {
        assert_eq!(guard.release().await.unwrap(), Released::Released);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_of_a_slot_that_is_half_moved_are_renewed_all_the_same() {
    let cluster = Cluster::start_with(secs(60), &[]).await;
    let redlock = client(&cluster).await;
    are_renewed_half_moved(&cluster, &redlock, &[0, 2]).await;
}

/// The client library of a pool has a call for several of them wait, for longer than they last.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_renews_the_leases_of_a_slot_that_is_half_moved() {
    let cluster = Cluster::start_with(secs(60), &[]).await;
    let pool = Config::from_urls(cluster.urls()).create_pool(Some(Runtime::Tokio1)).unwrap();
    let redlock = Redlock::builder().cluster_pool(pool).build().await.unwrap();
    are_renewed_half_moved(&cluster, &redlock, &[0]).await;
}

/// Moves these keys of four, and the others later.
async fn are_renewed_half_moved(cluster: &Cluster, redlock: &Redlock, moved: &[u32]) {
    let guards = take(redlock, 4, 6).await;
    let migration = Migration::of(cluster, "lock:{s}-0").await;
    migration.begin().await;
    for n in moved {
        migration.move_key(&format!("lock:{{s}}-{n}")).await;
    }
    // No call may have keys of both masters.
    let both = ["EVAL", "return 1", "2", "lock:{s}-0", "lock:{s}-1"];
    let error = migration.from.try_cmd(&both).await.unwrap_err();
    // Servers before Redis 7.0 send such a call to the other master, which refuses it.
    assert!(matches!(error.code(), Some("TRYAGAIN" | "ASK")), "{error}");
    renewed(&guards, 3).await;

    for n in 0..4 {
        migration.move_key(&format!("lock:{{s}}-{n}")).await;
    }
    migration.move_key(MARK).await;
    migration.finish().await;
    renewed(&guards, 2).await;
    for guard in guards {
        assert_eq!(guard.release().await.unwrap(), Released::Released);
    }
}

/// The script takes the only entry out of the queue, whose key counts as one of the other master
/// from then on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_gives_others_their_turn_while_its_slot_is_moved_has_handed_the_lock_over() {
    let cluster = Cluster::start_with(secs(60), &[]).await;
    let migration = Migration::of(&cluster, "lock:{s}-0").await;
    let text = concat!(script!("hand_over.lua"), shared!("holders.lua"), script!("rotate.lua"));
    let [lock, counter, queue] = ["lock:{s}-0", "lock:{s}-0::fence", "lock:{s}-0::queue"];
    for key in [lock, MARK, counter] {
        migration.from.cmd(&["SET", key, "1", "PX", "60000"]).await;
    }
    migration.from.cmd(&["RPUSH", queue, "10000 20000 1 - waits"]).await;
    migration.begin().await;
    let keys = ["EVAL", text, "4", lock, MARK, counter, queue];
    let args = ["1", "1", "1", "again", "10000", "20000", "1", "-"];
    let reply = migration.from.try_cmd(&[&keys[..], &args].concat()).await;
    let answer: Vec<i64> = from_redis_value(reply.unwrap()).unwrap();
    assert!(matches!(answer[..], [-1, _]), "{answer:?}");
    let holder: String = from_redis_value(migration.from.cmd(&["GET", lock]).await).unwrap();
    assert_eq!(holder, "waits");
}

/// The fencing mark in the slot of `{s}`.
const MARK: &str = "lock:{202615}:mark:fence";

/// Hands the slot of `key` from its master to another, step by step.
struct Migration<'a> {
    from: Raw,
    to: Raw,
    all: Vec<Raw>,
    slot: String,
    ids: (String, String),
    port: String,
    cluster: &'a Cluster,
}

impl<'a> Migration<'a> {
    async fn of(cluster: &'a Cluster, key: &str) -> Migration<'a> {
        let from = cluster.master_of(key).await;
        let masters = cluster.masters().await;
        let to = masters.iter().find(|master| master.port() != from.port()).unwrap();
        Migration {
            from: from.raw(),
            to: to.raw(),
            all: cluster.nodes().iter().map(Server::raw).collect(),
            slot: cluster.slot_of(key).await.to_string(),
            ids: (cluster.id_of(from).await, cluster.id_of(to).await),
            port: to.port().to_string(),
            cluster,
        }
    }

    /// From here on keys that are not there any more are answered with ASK.
    async fn begin(&self) {
        let (from, to) = (&self.ids.0, &self.ids.1);
        self.to.cmd(&["CLUSTER", "SETSLOT", &self.slot, "IMPORTING", from]).await;
        self.from.cmd(&["CLUSTER", "SETSLOT", &self.slot, "MIGRATING", to]).await;
    }

    async fn move_key(&self, key: &str) {
        let words = ["MIGRATE", "127.0.0.1", &self.port, key, "0", "5000"];
        self.from.cmd(&words).await;
    }

    /// From here on the old master answers with MOVED.
    async fn finish(&self) {
        self.to.cmd(&["CLUSTER", "SETSLOT", &self.slot, "NODE", &self.ids.1]).await;
        self.from.cmd(&["CLUSTER", "SETSLOT", &self.slot, "NODE", &self.ids.1]).await;
        for raw in &self.all {
            eventually(secs(30), || async {
                let slots = raw.try_cmd(&["CLUSTER", "SLOTS"]).await;
                let _ = raw.try_cmd(&["CLUSTER", "SETSLOT", &self.slot, "NODE", &self.ids.1]).await;
                slots.is_ok()
            })
            .await;
        }
        self.cluster.until_ready().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_moves_with_its_slot() {
    let cluster = Cluster::start_with(secs(60), &[]).await;
    let redlock = client(&cluster).await;
    let lock = |key: &'static str| redlock.lock(key).expire(secs(6)).wait(secs(60));
    let guard = lock("{s}-held").acquire().await.unwrap();
    let migration = Migration::of(&cluster, "lock:{s}-held").await;
    migration.begin().await;

    // A new lock would be made at the new master, but its keys cannot be asked for together
    // before the slot has moved as a whole: TRYAGAIN. Its caller waits.
    let waiting = tokio::spawn(lock("{s}-new").acquire());
    let renewed = |more: u32| {
        let (guard, enough) = (&guard, guard.renewals() + more);
        move || async move { guard.check().is_err() || guard.renewals() >= enough }
    };
    eventually(secs(30), renewed(1)).await;
    // The lock is gone from the old master: ASK, to the new one.
    migration.move_key("lock:{s}-held").await;
    let ask = migration.from.try_cmd(&["GET", "lock:{s}-held"]).await.unwrap_err();
    assert_eq!(ask.code(), Some("ASK"));
    eventually(secs(30), renewed(2)).await;
    guard.check().unwrap();
    assert!(!waiting.is_finished());
    migration.move_key(MARK).await;
    migration.finish().await;
    let moved = migration.from.try_cmd(&["GET", "lock:{s}-held"]).await.unwrap_err();
    assert_eq!(moved.code(), Some("MOVED"));
    let asked = waiting.await.unwrap().unwrap();
    eventually(secs(30), renewed(2)).await;

    guard.check().unwrap();
    asked.check().unwrap();
    assert!(redlock.lock("{s}-held").try_acquire().await.unwrap().is_none());
    let token = guard.fencing_token();
    assert_eq!(guard.release().await.unwrap(), Released::Released);
    assert!(lock("{s}-held").acquire().await.unwrap().fencing_token() > token);
    assert_eq!(asked.release().await.unwrap(), Released::Released);
}

/// The script deletes the key of the holders with its last member: from then on it counts as a key
/// of the other master, and so does the lock. Where others wait, all keys are still at the old
/// master, and the script would hand the lock over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_holder_of_a_shared_lock_frees_it_while_its_slot_is_moved() {
    let cluster = Cluster::start_with(secs(60), &[]).await;
    let redlock = client(&cluster).await;
    let lock = || redlock.lock("{s}-shared").expire(secs(30)).wait(secs(60));
    for (shared, others) in [
        (lock().read(), None),
        (lock().permits(1), None),
        (lock().permits(1), Some(lock().permits(1))),
        (lock().read(), Some(lock())),
    ] {
        let holder = shared.acquire().await.unwrap();
        let migration = Migration::of(&cluster, "lock:{s}-shared").await;
        let waiting = others.map(|others| tokio::spawn(others.acquire()));
        if waiting.is_some() {
            let queue = ["LLEN", "lock:{s}-shared::queue"];
            eventually(secs(20), || async { migration.from.int(&queue).await == 1 }).await;
            migration.from.cmd(&["SET", "lock:{s}-shared::fence", "1"]).await;
        }
        migration.begin().await;
        assert_eq!(holder.release().await.unwrap(), Released::Released);
        for key in [MARK, "lock:{s}-shared", "lock:{s}-shared::queue", "lock:{s}-shared::fence"] {
            migration.move_key(key).await;
        }
        migration.finish().await;
        match waiting {
            Some(waiting) => drop(waiting.await.unwrap().unwrap()),
            None => drop(lock().acquire().await.unwrap()),
        }
    }
}
