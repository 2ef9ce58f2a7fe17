//! What a worker process is told, and what it answers: one JSON object each.
//!
//! A worker process runs `tasks` workers. Each repeats acquire, body, release until `seconds` are
//! over (or until it did `limit` cycles). A worker that still waits then goes on until it has the
//! lock once, so that its wait is counted in full.
//!
//! Life of a worker process: the plan is its argument; it connects and warms up on keys of its
//! own; prints `ready`; reads one line; works; prints an [`Answer`]; ends.
//!
//! In an open loop nobody repeats anything: each worker gets a list of arrivals with the line that
//! starts it (a [`Start`]), and begins a task for each when its time has come, whatever became of
//! those before it. The wait counts from the scheduled time.
//!
//! On a hot key the body is an unprotected read and write of a shared cell, so that a lock that
//! excludes nobody shows as a wrong sum. The cell is three little-endian u64: the counter, the
//! last worker plus 1, and the moment at which the last body ended (`CLOCK_MONOTONIC`, ns).

use serde::{Deserialize, Serialize};

use crate::histogram::Histogram;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    /// Of the lock library under test, see `worker/mod.rs`.
    pub subject: String,
    pub url: String,
    /// The hot key, or the beginning of each worker's own.
    pub key: String,
    /// Each worker has a key of its own, and there is no cell.
    pub is_distinct: bool,
    pub tasks: u32,
    /// The number of this process' first worker.
    pub first_worker: u32,
    /// To tell the processes of workers apart.
    pub tasks_per_process: u32,
    /// Each worker is a client of its own, as if it were a process.
    pub client_each: bool,
    pub warm_up_s: f64,
    pub seconds: f64,
    /// Cycles of each worker, 0: as many as fit.
    pub limit: u64,
    /// How long the body sleeps.
    pub body_ms: f64,
    /// The first worker of all takes the write lock, and all others only read.
    pub has_writer: bool,
    /// How long that one pauses between its cycles.
    pub pause_ms: f64,
    /// An open loop: the line that starts the process is a [`Start`], `seconds` is when whoever
    /// has not been served gives up, and a body that sleeps does so precisely.
    pub is_open: bool,
    /// How many arrivals of this process may be under way in an open loop.
    pub outstanding: usize,
    /// The file of the cell; without one it is in the memory of the process.
    pub cell: Option<String>,
}

/// The line that starts an open loop.
#[derive(Debug, Serialize, Deserialize)]
pub struct Start {
    /// `CLOCK_MONOTONIC`, ns: the same moment for all processes, shortly after the line.
    pub begin: u64,
    /// Of each worker, ns after `begin`, in order.
    pub arrivals: Vec<Vec<u64>>,
}

/// What became of one arrival: when it was scheduled, when acquire was called, when the body
/// began and when it ended, ns after [`Start::begin`]. 0 is what did not happen: an arrival
/// without a call was dropped, as too many others were under way.
pub type Arrival = [u64; 4];

/// From when until when, `CLOCK_MONOTONIC`, ns.
pub type Span = [u64; 2];

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Answer {
    pub workers: Vec<Tally>,
    /// From the call of acquire to the first line of the body, ns.
    pub wait: Histogram,
    /// From the call of acquire to the answer of release, ns.
    pub cycle: Histogram,
    /// From the end of another one's body to the beginning of ours, ns; between processes where
    /// there are several.
    pub passed: Histogram,
    /// Where one writes among readers: the waits of the writer, which are not in `wait`.
    #[serde(default)]
    pub write_waits: Vec<Span>,
    /// There, the holds of the readers, from the first line of the body to the answer of release.
    #[serde(default)]
    pub read_holds: Vec<Span>,
    /// Of an open loop.
    #[serde(default)]
    pub arrivals: Vec<Arrival>,
    /// Figures of subjects that measure something else.
    #[serde(default)]
    pub extra: std::collections::BTreeMap<String, f64>,
    /// The counter of a cell in memory at the end.
    #[serde(default)]
    pub counter: u64,
}

/// What one worker did.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct Tally {
    /// Bodies that began in time.
    pub holds: u64,
    /// Of these, how many came after one of another worker.
    pub hand_overs: u64,
    /// Bodies that began after the end.
    pub late: u64,
    pub errors: u64,
    /// Bodies of readers in which the writer's counter moved.
    #[serde(default)]
    pub overlaps: u64,
    #[serde(default)]
    pub first_error: Option<String>,
}
