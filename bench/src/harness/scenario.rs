//! What is measured.

use super::subjects::Role;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Keys that nobody else takes.
    Uncontended,
    /// One key for all workers.
    Hot,
    /// So many increments of each worker on a hot key, however long they take.
    Exact(u64),
    /// One key: the first worker writes, with pauses, and all others read without any.
    Readers,
    /// One key: readers that come while a writer has it, all at once.
    Batch,
    /// A lock that is held all the time, and workers that wait for it.
    Idle,
    /// A round trip.
    Ping,
    ReEntry,
    Leases,
    Compile,
    /// Arrivals by chance, at so many percent of the rate that a perfect lock could serve.
    Open(u32),
}

#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    pub name: &'static str,
    pub kind: Kind,
    pub processes: u32,
    /// In each process.
    pub tasks: u32,
    /// Each worker has a client of its own, as if it were a process.
    pub client_each: bool,
    pub body_ms: f64,
    pub seconds: f64,
    /// Each way, between the workers and the server.
    pub delay_ms: f64,
    /// Measured once, not in every round.
    pub is_once: bool,
    /// Who takes part.
    pub roles: &'static [Role],
    /// The peers among them; empty: all.
    pub peers: &'static [&'static str],
    /// Of all of these roles only these; empty: all.
    pub names: &'static [&'static str],
}

const ONE: Scenario = Scenario {
    name: "",
    kind: Kind::Uncontended,
    processes: 1,
    tasks: 1,
    client_each: false,
    body_ms: 0.0,
    seconds: 1.0,
    delay_ms: 0.0,
    is_once: false,
    roles: &[Role::Raw, Role::Ours, Role::Variant, Role::Peer],
    peers: &[],
    names: &[],
};

const UNCONTENDED: Scenario =
    Scenario { roles: &[Role::Raw, Role::Ours, Role::Variant, Role::Valkey, Role::Peer], ..ONE };

/// A round trip, a call and a hand-over behind a delay.
const fn behind(delay_ms: f64, scenario: Scenario) -> Scenario {
    Scenario { delay_ms, seconds: 2.0, ..scenario }
}

const FAR_PING: Scenario = Scenario { kind: Kind::Ping, roles: &[Role::Ping], ..ONE };
const FAR_HAND_OVER: Scenario = Scenario { processes: 2, body_ms: 1.0, ..HOT };

/// Other kinds of locks beside the plain ones of the same libraries.
const KINDS: Scenario = Scenario {
    roles: &[Role::Variant, Role::Kind, Role::Peer, Role::KindPeer],
    peers: &["redisson"],
    ..ONE
};

/// Of three processes the first has the writer.
const READERS: Scenario = Scenario {
    processes: 3,
    tasks: 3,
    body_ms: 5.0,
    seconds: 4.0,
    roles: &[Role::Kind, Role::KindPeer],
    names: &["redlock-read", "distkit-read", "redisson-read"],
    ..ONE
};

const HOT: Scenario =
    Scenario { kind: Kind::Hot, seconds: 2.0, roles: &[Role::Ours, Role::Peer], ..ONE };

const EXACT: Scenario = Scenario { seconds: 60.0, roles: &[Role::Ours], ..HOT };

/// All take part at half the load with a body.
const OPEN: Scenario = Scenario {
    kind: Kind::Open(50),
    body_ms: 1.0,
    seconds: 2.5,
    roles: &[Role::Perfect, Role::Ours, Role::Topology, Role::Memory, Role::Peer],
    ..HOT
};

/// Each client is one as a process has it, or 24 of them would be no others than three.
const OPEN_CROWD: Scenario = Scenario {
    processes: 3,
    tasks: 8,
    client_each: true,
    roles: &[Role::Perfect, Role::Ours, Role::Peer],
    ..OPEN
};

/// At other loads and without a body: ours, and the peers with the best waits of `open-50-1ms-3x8`.
const OPEN_FEW: Scenario = Scenario {
    roles: &[Role::Perfect, Role::Ours, Role::Memory, Role::Peer],
    peers: &["distributed-lock-redis", "rslock"],
    ..OPEN
};

/// One of [`OPEN_FEW`] for each part of the load. Without a body there are many more arrivals, at
/// a small load few.
const fn few(name: &'static str, percent: u32, body_ms: f64) -> Scenario {
    let seconds = match percent {
        _ if body_ms == 0.0 => 1.2,
        10 => 3.0,
        _ => OPEN.seconds,
    };
    Scenario { name, kind: Kind::Open(percent), body_ms, seconds, ..OPEN_FEW }
}

const fn in_three(scenario: Scenario) -> Scenario {
    Scenario { processes: 3, roles: OPEN_CROWD.roles, ..scenario }
}

const fn in_crowd(scenario: Scenario) -> Scenario {
    Scenario { tasks: OPEN_CROWD.tasks, client_each: true, ..in_three(scenario) }
}

/// In the order in which they are measured and shown.
pub const SCENARIOS: &[Scenario] = &[
    Scenario { name: "ping", kind: Kind::Ping, roles: &[Role::Ping], ..ONE },
    Scenario { name: "ping-1ms", kind: Kind::Ping, body_ms: 1.0, roles: &[Role::Ping], ..ONE },
    Scenario { name: "uncontended-1", ..UNCONTENDED },
    Scenario { name: "uncontended-64", tasks: 64, ..UNCONTENDED },
    Scenario { name: "uncontended-1024", tasks: 1_024, ..UNCONTENDED },
    Scenario { name: "kinds-1", ..KINDS },
    Scenario { name: "kinds-64", tasks: 64, ..KINDS },
    Scenario { name: "readers", kind: Kind::Readers, ..READERS },
    Scenario { name: "batch", kind: Kind::Batch, tasks: 9, body_ms: 20.0, seconds: 5.0, ..READERS },
    Scenario { name: "hot-3-tasks", tasks: 3, ..HOT },
    Scenario { name: "hot-3-processes", processes: 3, ..HOT },
    Scenario { name: "hot-3x8", processes: 3, tasks: 8, ..HOT },
    Scenario { name: "hand-over", processes: 2, body_ms: 1.0, seconds: 1.0, ..HOT },
    Scenario { name: "crowd", tasks: 100, client_each: true, roles: &[Role::Ours], ..HOT },
    Scenario { name: "exact-3-tasks", kind: Kind::Exact(10_000), tasks: 3, ..EXACT },
    Scenario { name: "exact-3-processes", kind: Kind::Exact(10_000), processes: 3, ..EXACT },
    Scenario { name: "exact-3x8", kind: Kind::Exact(1_250), processes: 3, tasks: 8, ..EXACT },
    Scenario { name: "idle", kind: Kind::Idle, processes: 3, tasks: 33, is_once: true, ..HOT },
    Scenario { name: "far-ping-0.5ms", ..behind(0.5, FAR_PING) },
    Scenario { name: "far-1-0.5ms", ..behind(0.5, ONE) },
    Scenario { name: "far-hand-over-0.5ms", ..behind(0.5, FAR_HAND_OVER) },
    Scenario { name: "far-ping-2ms", ..behind(2.0, FAR_PING) },
    Scenario { name: "far-1-2ms", ..behind(2.0, ONE) },
    Scenario { name: "far-hand-over-2ms", ..behind(2.0, FAR_HAND_OVER) },
    few("open-10-1ms-1", 10, 1.0),
    Scenario { name: "open-50-1ms-1", ..OPEN },
    few("open-80-1ms-1", 80, 1.0),
    in_three(few("open-10-1ms-3", 10, 1.0)),
    Scenario {
        name: "open-50-1ms-3",
        processes: 3,
        roles: &[Role::Perfect, Role::Ours, Role::Topology, Role::Peer],
        ..OPEN
    },
    in_three(few("open-80-1ms-3", 80, 1.0)),
    in_crowd(few("open-10-1ms-3x8", 10, 1.0)),
    Scenario { name: "open-50-1ms-3x8", ..OPEN_CROWD },
    in_crowd(few("open-80-1ms-3x8", 80, 1.0)),
    few("open-10-0ms-1", 10, 0.0),
    few("open-50-0ms-1", 50, 0.0),
    few("open-80-0ms-1", 80, 0.0),
    in_three(few("open-10-0ms-3", 10, 0.0)),
    in_three(few("open-50-0ms-3", 50, 0.0)),
    in_three(few("open-80-0ms-3", 80, 0.0)),
    in_crowd(few("open-10-0ms-3x8", 10, 0.0)),
    in_crowd(few("open-50-0ms-3x8", 50, 0.0)),
    in_crowd(few("open-80-0ms-3x8", 80, 0.0)),
    Scenario { name: "re-entry", kind: Kind::ReEntry, roles: &[Role::ReEntry], ..ONE },
    Scenario { name: "compile", kind: Kind::Compile, roles: &[Role::Compile], ..ONE },
    Scenario { name: "leases", kind: Kind::Leases, is_once: true, roles: &[Role::Leases], ..ONE },
];
