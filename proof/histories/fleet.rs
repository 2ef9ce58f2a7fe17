//! The worker processes of a history: frozen, killed and replaced.

use std::path::{Path, PathBuf};

use fault_kit::{Process, ms, secs, time_passes};
use tokio::sync::Mutex;

use crate::kind::Kind;
use crate::log::{Event, Line, Log, Moment, now, read_all};
use crate::names::Names;
use crate::plan::Fault;
use crate::topology::Topology;

/// What the workers are told.
#[derive(Debug)]
pub(crate) struct Orders {
    pub seed: u64,
    /// Where the socket of the resources and the logs are.
    pub dir: PathBuf,
    pub urls: Vec<String>,
    pub tasks: usize,
    pub names: Names,
    pub topology: Topology,
    pub until: Moment,
    pub goal: u64,
    pub is_guarded: bool,
    pub min_replicas: u32,
}

#[derive(Debug)]
pub(crate) struct Fleet {
    orders: Orders,
    log: Log,
    workers: Vec<Mutex<Worker>>,
}

#[derive(Debug)]
struct Worker {
    process: Process,
    incarnation: usize,
}

impl Fleet {
    pub(crate) fn start(orders: Orders, count: usize) -> Fleet {
        let workers = (0..count).map(|n| Worker { process: orders.spawn(n, 0), incarnation: 0 });
        let workers = workers.map(Mutex::new).collect();
        let log = Log::open(&orders.dir.join("parent.log"));
        Fleet { orders, log, workers }
    }

    /// Carries a fault out unless it is too late for it.
    pub(crate) async fn suffer(&self, fault: &Fault, until: Moment) -> bool {
        let n = fault.target % self.workers.len();
        let mut worker = self.workers[n].lock().await;
        if now() > until {
            return false;
        }
        if fault.kind == Kind::ClientStop {
            let name = format!("w{n}.{}", worker.incarnation);
            self.log.write(&name, now(), Event::Frozen);
            worker.process.sigstop();
            time_passes(ms(fault.lasts_ms)).await;
            worker.process.sigcont();
            self.log.write(&name, now(), Event::Thawed);
        } else {
            worker.process.sigkill();
            worker.incarnation += 1;
            worker.process = self.orders.spawn(n, worker.incarnation);
        }
        true
    }

    /// Waits until all have done their work and given back what they held.
    pub(crate) async fn idle(&self) {
        for worker in &self.workers {
            worker.lock().await.process.event_within(secs(60), "idle").await;
        }
    }

    /// Ends all processes and reads what they wrote.
    pub(crate) async fn logs(self) -> Vec<Line> {
        for worker in &self.workers {
            worker.lock().await.process.sigkill();
        }
        read_all(&self.orders.dir)
    }
}

impl Orders {
    pub(crate) fn socket(dir: &Path) -> PathBuf {
        dir.join("store")
    }

    fn spawn(&self, n: usize, incarnation: usize) -> Process {
        let text = |path: PathBuf| path.to_str().expect("a temp directory is text").to_owned();
        let log = self.dir.join(format!("w{n}.{incarnation}.log"));
        let topology = Topology::ALL.iter().position(|one| *one == self.topology);
        let args = [
            format!("w{n}"),
            incarnation.to_string(),
            (self.seed * 100 + n as u64).to_string(),
            text(Orders::socket(&self.dir)),
            text(log),
            self.urls.join(","),
            self.tasks.to_string(),
            self.names.names.join(" "),
            self.until.to_string(),
            self.goal.to_string(),
            self.is_guarded.to_string(),
            self.min_replicas.to_string(),
            self.names.prefix.to_owned(),
            topology.unwrap_or(0).to_string(),
        ];
        Process::spawn_program("worker", &args.each_ref().map(String::as_str))
    }
}
