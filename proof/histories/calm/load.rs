//! One process of a history without faults: the role of its child processes.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use fault_kit::process::{Args, block_on, emit};
use fault_kit::{secs, time_passes};
use redlock::deadpool_redis::{Config, Runtime};
use redlock::{Redlock, RedlockBuilder};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::caller::{Caller, Terms, rest};
use super::{Calm, Door, Scene, log_uniform};
use crate::log::{Event, Log, Moment, now};
use crate::topology::Topology;

/// What all callers of one process share.
#[derive(Debug)]
pub(crate) struct Load {
    pub calm: Calm,
    pub clients: Vec<Redlock>,
    pub log: Log,
    pub process: String,
    pub until: Moment,
}

/// Arguments: seed, topology, number of the process, log, URLs, until.
pub(crate) fn work(args: &Args) {
    block_on(async {
        let load = Load::connect(args).await;
        let load: &'static Load = Box::leak(Box::new(load));
        let seed = load.calm.seed * 100 + args.parse::<u64>(2);
        load.work(&mut Rng::with_seed(seed)).await;
        for client in &load.clients {
            client.shutdown(secs(2)).await;
            let locks = client.held().len();
            load.log.write(&load.process, now(), Event::Kept { locks });
        }
        emit("idle");
        // It lives on, so that a renewal that was not ended would show.
        time_passes(secs(600)).await;
    });
}

impl Load {
    async fn connect(args: &Args) -> Load {
        let topology = Topology::ALL[args.parse::<usize>(1)];
        let calm = Calm::of(args.parse(0), Some(topology));
        let number = args.parse::<usize>(2);
        let process = format!("w{number}.0");
        let urls: Vec<&str> = args.get(4).split(',').collect();
        let mut clients = Vec::new();
        for door in &calm.processes[number] {
            let builder = match door {
                Door::Url => topology.builder(urls.iter().copied()),
                Door::Pool => pools(topology, &urls),
            };
            let client = builder.client_name(&process).build().await;
            clients.push(client.expect("the options are good"));
        }
        let log = Log::open(args.get(3).as_ref());
        Load { calm, clients, log, process, until: args.parse(5) }
    }

    /// All work of the process. Nothing begins after the end of its time.
    async fn work(&'static self, rng: &mut Rng) {
        let mut special = JoinSet::new();
        let first = self.process == "w0.0";
        let caller = |task, rng: &mut Rng| Caller::new(self, task, rng.fork());
        let odd = caller(0, rng);
        match self.calm.scene {
            Scene::Stalls if first => drop(special.spawn_blocking(|| alone(odd.stall()))),
            Scene::Losses if first => drop(special.spawn(odd.outstay())),
            Scene::Deletions if first => drop(special.spawn(odd.keep())),
            _ => {}
        }
        match self.calm.scene {
            Scene::Arrivals => self.arrivals(rng).await,
            Scene::Bursts => self.bursts(rng).await,
            _ => {
                let callers = (1..=self.calm.callers).map(|task| caller(task, rng).work());
                callers.collect::<JoinSet<_>>().join_all().await;
            }
        }
        special.join_all().await;
    }

    /// Calls that begin at random moments of their own, each in a task of its own.
    async fn arrivals(&'static self, rng: &mut Rng) {
        let hold = &self.calm.hold_us;
        let mean_hold_us = u32::try_from(hold.start.midpoint(hold.end)).unwrap_or(u32::MAX);
        let processes = u32::try_from(self.calm.processes.len()).unwrap_or(u32::MAX);
        let percent = u32::try_from(self.calm.percent).unwrap_or(100);
        let gap_us = f64::from(mean_hold_us) * f64::from(processes) * 100.0 / f64::from(percent);
        let most = usize::try_from(self.calm.callers).unwrap_or(usize::MAX);
        let places = Arc::new(Semaphore::new(most));
        let mut calls = JoinSet::new();
        for task in 1.. {
            // The gaps between random arrivals are exponential.
            let gap = Duration::from_secs_f64(gap_us * -rng.f64().max(1e-9).ln() / 1e6);
            rest(gap).await;
            if now() >= self.until {
                break;
            }
            // More callers than these are not admitted, or an overload would have no end.
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
            let mut caller = Caller::new(self, task, rng.fork());
            calls.spawn(async move {
                caller.call(Terms::random).await;
                drop(place);
            });
        }
        calls.join_all().await;
    }

    async fn bursts(&'static self, rng: &mut Rng) {
        let mut task = 0;
        while now() < self.until {
            let mut calls = JoinSet::new();
            for _ in 0..self.calm.callers {
                task += 1;
                let mut caller = Caller::new(self, task, rng.fork());
                calls.spawn(async move { caller.call(Terms::random).await });
            }
            calls.join_all().await;
            let pause = Duration::from_micros(log_uniform(rng, self.calm.pause_us.clone()).into());
            rest(pause).await;
        }
    }
}

/// Runs a future on a runtime that has no other thread and no other task.
fn alone<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(future)
}

/// A client of pools, where there are pools for these servers that it can rely on.
fn pools(topology: Topology, urls: &[&str]) -> RedlockBuilder {
    let pool = |url: &&str| {
        let pool = Config::from_url(*url).create_pool(Some(Runtime::Tokio1));
        pool.expect("the URL is good")
    };
    match topology {
        Topology::Sentinel | Topology::Cluster => topology.builder(urls.iter().copied()),
        _ => Redlock::builder().pools(urls.iter().map(pool)),
    }
}
