//! Which cores the servers run on, and which the clients.
//!
//! A thread that is woken on the core that woke it answers in a third of the time that another,
//! idle core needs. Left to the scheduler, one subject has its server on its own core, the next one
//! does not, and the same commands take 40 us or 230. Servers have cores of their own, therefore,
//! as they have machines of their own elsewhere.

use std::fmt;
use std::thread::available_parallelism;

#[derive(Debug, Clone)]
pub struct Cores {
    /// How many there are.
    pub count: usize,
    /// Empty: the scheduler puts servers and clients where it likes.
    servers: Vec<usize>,
    clients: Vec<usize>,
}

impl Cores {
    /// Half of the cores for servers, the others for this thread and the workers that it starts.
    pub fn split() -> Cores {
        let count = available_parallelism().map_or(0, usize::from);
        let all = affinity::get();
        let (servers, clients) = all.split_at(all.len() / 2);
        let cores = Cores { count, servers: servers.to_vec(), clients: clients.to_vec() };
        cores.stay_on(&cores.clients);
        cores
    }

    /// What `start` begins are servers: processes stay where the thread was that started them.
    pub async fn of_servers<T>(&self, start: impl Future<Output = T>) -> T {
        self.stay_on(&self.servers);
        let started = start.await;
        self.stay_on(&self.clients);
        started
    }

    fn stay_on(&self, cores: &[usize]) {
        if !self.servers.is_empty() {
            affinity::set(cores);
        }
    }
}

impl fmt::Display for Cores {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.servers.is_empty() {
            return out.write_str("which servers and clients share");
        }
        write!(out, "{} for servers, {} for clients", self.servers.len(), self.clients.len())
    }
}

/// The cores of this thread.
#[cfg(target_os = "linux")]
mod affinity {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    pub fn get() -> Vec<usize> {
        let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
        (0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect()
    }

    pub fn set(cores: &[usize]) {
        let mut set = CpuSet::new();
        cores.iter().for_each(|&core| set.set(core));
        sched_setaffinity(None, &set).expect("these are cores that this thread has had");
    }
}

#[cfg(not(target_os = "linux"))]
mod affinity {
    pub fn get() -> Vec<usize> {
        Vec::new()
    }

    pub fn set(_: &[usize]) {}
}
