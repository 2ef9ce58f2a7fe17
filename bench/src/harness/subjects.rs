//! Who is measured: the raw limit, ours, and the peers with the options that they recommend.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Bare commands.
    Raw,
    Ping,
    Ours,
    /// Ours in another form.
    Variant,
    /// Ours of another kind.
    Kind,
    /// Ours on several servers.
    Topology,
    /// On Valkey, beside what the others have.
    Valkey,
    /// Ours without a server: for one process.
    Memory,
    Peer,
    /// A peer of [`Role::Kind`].
    KindPeer,
    /// What no lock can be better than, by arithmetic.
    Perfect,
    ReEntry,
    Leases,
    Compile,
}

impl Role {
    /// Is it this library that takes the locks?
    pub fn is_ours(self) -> bool {
        use Role::{Kind, Memory, Ours, Topology, Valkey, Variant};
        matches!(self, Ours | Variant | Kind | Topology | Valkey | Memory)
    }
}

/// How a worker process of a subject is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// This program.
    Own,
    /// The directory in `bench/peers`, which is also the name of the toolchain.
    Peer(&'static str),
}

#[derive(Debug, Clone, Copy)]
pub struct Subject {
    pub name: &'static str,
    pub role: Role,
    pub program: Program,
    /// What it is and how it is set, for the reader.
    pub about: &'static str,
    /// A file below `bench`, and what stands before the version in it.
    pub version: Option<(&'static str, &'static str)>,
    /// Longer for what is compiled while it runs.
    pub warm_up_s: f64,
}

const OWN: Subject = Subject {
    name: "",
    role: Role::Peer,
    program: Program::Own,
    about: "",
    version: None,
    warm_up_s: 0.2,
};

const REDISSON_KIND: Subject = Subject {
    role: Role::KindPeer,
    program: Program::Peer("java"),
    version: Some(("peers/java/pom.xml", "<redisson.version>")),
    warm_up_s: 2.0,
    ..OWN
};

pub const SUBJECTS: &[Subject] = &[
    Subject {
        name: "perfect",
        role: Role::Perfect,
        about: "a lock that serves in the order of arrival and takes the body and one round trip \
                for each hold (two without a body): arithmetic",
        ..OWN
    },
    Subject { name: "raw-ping", role: Role::Ping, about: "`PING` on one bare connection", ..OWN },
    Subject {
        name: "raw-set",
        role: Role::Raw,
        about: "`SET NX PX` and a compare-and-delete script on one bare `MultiplexedConnection`",
        ..OWN
    },
    Subject {
        name: "raw-scripts",
        role: Role::Raw,
        about: "the commands of redlock's own cycle on one bare `MultiplexedConnection`",
        ..OWN
    },
    Subject {
        name: "raw-pipelined",
        role: Role::Raw,
        about: "the same commands in four pipelines on one connection, each all acquires, then all \
                releases of its keys: the ceiling",
        ..OWN
    },
    Subject {
        name: "redlock",
        role: Role::Ours,
        about: "`#[redis_lock]` with its defaults",
        version: Some(("Cargo.lock", "name = \"redlock-runtime\"\nversion = \"")),
        ..OWN
    },
    Subject {
        name: "redlock-pool",
        role: Role::Ours,
        about: "the same on a `deadpool_redis::Pool`",
        ..OWN
    },
    Subject {
        name: "redlock-await",
        role: Role::Variant,
        about: "`#[redis_lock(release = \"await\")]`",
        ..OWN
    },
    Subject {
        name: "redlock-guard",
        role: Role::Variant,
        about: "`lock(..).acquire()`, `guard.release()`",
        ..OWN
    },
    Subject { name: "redlock-read", role: Role::Kind, about: "`lock(..).read()`", ..OWN },
    Subject { name: "redlock-permits", role: Role::Kind, about: "`lock(..).permits(3)`", ..OWN },
    Subject {
        name: "redlock-2-keys",
        role: Role::Kind,
        about: "`lock_all` of two keys of one slot",
        ..OWN
    },
    Subject {
        name: "redlock-memory",
        role: Role::Memory,
        about: "`#[redis_lock]` without a server",
        ..OWN
    },
    Subject {
        name: "redlock-valkey",
        role: Role::Valkey,
        about: "`#[redis_lock]` with its defaults, on Valkey",
        ..OWN
    },
    Subject { name: "raw-set-valkey", role: Role::Valkey, about: "`raw-set` on Valkey", ..OWN },
    Subject {
        name: "redlock-cluster",
        role: Role::Topology,
        about: "`#[redis_lock]` on a Redis Cluster of three masters, each with a replica",
        ..OWN
    },
    Subject {
        name: "redlock-min-replicas",
        role: Role::Topology,
        about: "`#[redis_lock]` with `min_replicas(1, ..)` on a master with one replica",
        ..OWN
    },
    Subject {
        name: "redlock-3-masters",
        role: Role::Topology,
        about: "`#[redis_lock]` on three independent masters",
        ..OWN
    },
    Subject { name: "redlock-leases", role: Role::Leases, about: "guards that are held", ..OWN },
    Subject { name: "redlock-reentry", role: Role::ReEntry, about: "a call within a call", ..OWN },
    Subject { name: "compile", role: Role::Compile, about: "500 annotated functions", ..OWN },
    Subject {
        name: "rslock",
        about: "Rust; `acquire`, 3 tries with pauses of up to 200 ms, repeated",
        version: Some(("Cargo.lock", "name = \"rslock\"\nversion = \"")),
        ..OWN
    },
    Subject {
        name: "redis-lock",
        about: "Rust; `lock_across` on a connection in a mutex, a try every 100 ms",
        version: Some(("Cargo.lock", "name = \"redis-lock\"\nversion = \"")),
        ..OWN
    },
    Subject {
        name: "distributed-lock-redis",
        about: "Rust, on fred; defaults. Its `acquire` fails at the first refusal and is \
                called again at once",
        version: Some(("Cargo.lock", "name = \"distributed-lock-redis\"\nversion = \"")),
        ..OWN
    },
    Subject {
        name: "async-redis-lock",
        about: "Rust; defaults: a try every 100 ms, lease 3 s",
        version: Some(("Cargo.lock", "name = \"async-redis-lock\"\nversion = \"")),
        ..OWN
    },
    Subject {
        name: "redisson",
        program: Program::Peer("java"),
        about: "Java; `RLock`, watchdog on, defaults: pub/sub wake-up",
        version: Some(("peers/java/pom.xml", "<redisson.version>")),
        warm_up_s: 2.0,
        ..OWN
    },
    Subject {
        name: "distkit-read",
        role: Role::KindPeer,
        about: "Rust; `RwLock`, `read`, defaults: a try every 50 ms",
        version: Some(("Cargo.lock", "name = \"distkit\"\nversion = \"")),
        ..OWN
    },
    Subject {
        name: "redisson-read",
        about: "Java; `RReadWriteLock`, `readLock`, watchdog on",
        ..REDISSON_KIND
    },
    Subject {
        name: "redisson-permits",
        about: "Java; `RPermitExpirableSemaphore` of 3 permits, lease 30 s (it has no watchdog)",
        ..REDISSON_KIND
    },
    Subject {
        name: "redisson-2-keys",
        about: "Java; `RedissonMultiLock` of two keys of one slot, watchdog on",
        ..REDISSON_KIND
    },
    Subject {
        name: "redsync",
        program: Program::Peer("go"),
        about: "Go on go-redis; defaults: tries with pauses of 50-250 ms",
        version: Some(("peers/go/go.mod", "redsync/v4 v")),
        ..OWN
    },
    Subject {
        name: "rueidislock",
        program: Program::Peer("go"),
        about: "Go; `KeyMajority` 1, client side caching wakes waiters; a wait is \
                begun anew after 2 s, as \
                wake-ups get lost",
        version: Some(("peers/go/go.mod", "redis/rueidis v")),
        ..OWN
    },
    Subject {
        name: "redis-py",
        program: Program::Peer("python"),
        about: "Python; `Lock`, a try every 100 ms; workers are threads",
        version: Some(("peers/python/requirements.txt", "redis==")),
        warm_up_s: 0.5,
        ..OWN
    },
    Subject {
        name: "node-redlock",
        program: Program::Peer("node"),
        about: "Node.js on ioredis; a try every 200 ms with jitter of 200 ms",
        version: Some(("peers/node/package.json", "\"redlock\": \"")),
        warm_up_s: 0.5,
        ..OWN
    },
];
