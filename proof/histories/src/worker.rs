//! One process that works under locks until its time is over: the role of the child processes.

use std::future::poll_fn;
use std::path::PathBuf;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use fastrand::Rng;
use fault_kit::process::{Args, block_on, emit};
use fault_kit::{ms, secs, time_passes};
use redlock::{LockError, Redlock, redis_lock};

use crate::log::{Event, Log, now};
use crate::resource::Resource;
use crate::topology::Topology;
use crate::watched::Watched;

/// The leases that workers ask for, in milliseconds.
const EXPIRES: [u64; 4] = [300, 400, 600, 1_000];
/// The longest of them.
pub const LONGEST_MS: u64 = 1_000;

/// What all tasks of one process share.
#[derive(Debug)]
struct Worker {
    redlock: Redlock,
    log: Log,
    socket: PathBuf,
    /// The same for all incarnations of a worker.
    name: String,
    /// `<name>.<incarnation>`
    process: String,
    names: Vec<String>,
    /// When to stop; in a run to a total, when to give up.
    until: u64,
    /// How many writes this worker shall have done in all; 0: as many as it can.
    goal: u64,
}

/// Arguments: name, incarnation, seed, socket, log, URLs, tasks, names of locks, until, goal,
/// restart guard, replicas, prefix, topology.
pub fn work(args: &Args) {
    block_on(async {
        let worker = Worker::connect(args).await;
        let worker: &'static Worker = Box::leak(Box::new(worker));
        let mut tasks = Vec::new();
        for task in 0..args.parse(6) {
            let seed = args.parse::<u64>(2) * 1_000 + args.parse::<u64>(1) * 100 + task;
            tasks.push(tokio::spawn(worker.task(task, Rng::with_seed(seed))));
        }
        for task in tasks {
            task.await.expect("a task ends by itself");
        }
        worker.redlock.shutdown(secs(2)).await;
        let held = worker.redlock.held().len();
        assert_eq!(held, 0, "locks are held though all work is done");
        emit("idle");
        // It lives on, so that a renewal that was not ended would show.
        time_passes(secs(600)).await;
    });
}

impl Worker {
    async fn connect(args: &Args) -> Worker {
        let (name, process) = (args.get(0), format!("{}.{}", args.get(0), args.get(1)));
        let topology = Topology::ALL[args.parse::<usize>(13)];
        let builder = topology.builder(args.get(5).split(',')).prefix(args.get(12));
        let builder = builder.client_name(&process).reply_timeout(ms(200)).lazy();
        let builder = builder.restart_guard(args.parse(10)).longest_expire(ms(LONGEST_MS));
        let builder = match args.parse(11) {
            0 => builder,
            replicas => builder.min_replicas(replicas, ms(50)),
        };
        Worker {
            redlock: builder.build().await.expect("the options are good"),
            log: Log::open(args.get(4).as_ref()),
            socket: args.get(3).into(),
            name: name.to_owned(),
            process,
            names: args.get(7).split(' ').map(str::to_owned).collect(),
            until: args.parse(8),
            goal: args.parse(9),
        }
    }

    async fn task(&'static self, task: u64, mut rng: Rng) {
        for n in 1.. {
            if now() >= self.until {
                return;
            }
            let attempt = format!("{}.{task}/{n}", self.process);
            let call = Call::random(&mut rng, self, &attempt);
            self.log.write(&attempt, now(), Event::Begin { key: call.key.clone() });
            match call.run().await {
                Ok(applied) if self.goal > 0 && applied >= self.goal => return,
                Ok(_) => {}
                Err(error) => self.log.write(&attempt, now(), Event::Failed { why: word(&error) }),
            }
            if self.goal == 0 {
                time_passes(ms(rng.u64(0..20))).await;
            }
        }
    }
}

/// One call under a lock, as a program would make it.
#[derive(Debug)]
struct Call<'a> {
    worker: &'static Worker,
    attempt: &'a str,
    key: String,
    expire: Duration,
    wait: Duration,
    /// `None`: renewed as often as it takes.
    max_renew: Option<u32>,
    /// The body pauses so often, and each time for so long.
    pauses: u64,
    pause: Duration,
    /// The call is dropped after this time.
    patience: Option<Duration>,
    /// Once it waits, nobody polls the call for this time.
    stall: Option<Duration>,
    form: Form,
}

#[derive(Debug, Clone, Copy)]
enum Form {
    Guard,
    Run,
    Attribute,
}

impl<'a> Call<'a> {
    fn random(rng: &mut Rng, worker: &'static Worker, attempt: &'a str) -> Call<'a> {
        let expire = rng.choice(EXPIRES).unwrap_or(LONGEST_MS);
        // Some bodies need renewals, and some outlast all that they get. On the way to a goal they
        // are rare.
        let is_long = rng.u16(0..if worker.goal > 0 { 150 } else { 6 }) == 0;
        Call {
            worker,
            attempt,
            key: rng.choice(&worker.names).cloned().unwrap_or_default(),
            expire: ms(expire),
            wait: ms(rng.choice([0, 50, 400, 800]).unwrap_or(0)),
            max_renew: rng.choice([None, Some(0), Some(2)]).unwrap_or(None),
            pauses: rng.u64(1..6),
            pause: ms(rng.u64(
                0..match (is_long, worker.goal) {
                    (true, _) => expire / 2,
                    (false, 0) => 10,
                    (false, _) => 2,
                },
            )),
            patience: (rng.u8(0..10) == 0).then(|| ms(rng.u64(1..600))),
            stall: (rng.u8(0..20) == 0).then(|| ms(rng.u64(10..1_500))),
            form: rng.choice([Form::Guard, Form::Run, Form::Attribute]).unwrap_or(Form::Run),
        }
    }

    /// How many writes of this worker the resource had accepted at the end.
    async fn run(&self) -> Result<u64, LockError> {
        let Some(patience) = self.patience else { return self.locked().await };
        tokio::time::timeout(patience, self.locked()).await.unwrap_or(Ok(0))
    }

    async fn locked(&self) -> Result<u64, LockError> {
        let request = self.worker.redlock.lock(&self.key).expire(self.expire).wait(self.wait);
        let request = request.max_renew(self.max_renew.unwrap_or(u32::MAX));
        match self.form {
            Form::Run => request.run(self.watched()).await,
            Form::Attribute => by_attribute(self).await,
            Form::Guard => {
                let guard = self.stalled(request.acquire()).await?;
                let applied = guard.protect(self.watched()).await?;
                // What it finds is told by the history.
                let _ = guard.release().await;
                Ok(applied)
            }
        }
    }

    /// Polls once and, where that is not enough, not again before a stall is over.
    async fn stalled<T>(&self, call: impl Future<Output = T>) -> T {
        let mut call = pin!(call);
        if let Some(stall) = self.stall.filter(|_| self.worker.goal == 0) {
            let first = poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx))).await;
            if let Poll::Ready(output) = first {
                return output;
            }
            time_passes(stall).await;
        }
        call.await
    }

    fn watched(&self) -> Watched<'_, impl Future<Output = u64>> {
        Watched::new(&self.worker.log, self.attempt, self.expire, self.body())
    }

    /// Adds one to both counters, with some time between reading and writing.
    async fn body(&self) -> u64 {
        let worker = self.worker;
        let lease = redlock::Lease::current().expect("a body runs under a lease");
        let fencing = lease.fencing_token().into();
        let open = Resource::open(&worker.socket, &self.key, fencing, &worker.name);
        let mut resource = open.await;
        let claimed = resource.claim().await;
        if let Some(claimed) =
            claimed.filter(|claimed| worker.goal > 0 && claimed.applied >= worker.goal)
        {
            return claimed.applied;
        }
        let plain = resource.read_plain().await;
        for _ in 0..self.pauses {
            time_passes(self.pause).await;
            // Frozen in the pause, it would like to take many steps before anybody can stop it.
            for _ in 0..4 {
                tokio::task::yield_now().await;
            }
        }
        // A program without a fence goes on where the other one has to stop.
        resource.set_plain(plain + 1).await;
        let Some(claimed) = claimed else { return 0 };
        let written = resource.write(claimed.value + 1).await;
        claimed.applied + u64::from(written)
    }
}

#[redis_lock(
    key = &call.key,
    client = &call.worker.redlock,
    expire = call.expire,
    wait = call.wait,
    max_renew = 3
)]
async fn by_attribute(call: &Call<'_>) -> Result<u64, LockError> {
    Ok(call.watched().await)
}

/// What kind of an error it is.
pub fn word(error: &LockError) -> String {
    let word = match error {
        LockError::Timeout { .. } => "Timeout",
        LockError::Unavailable { .. } => "Unavailable",
        LockError::Lost { .. } => "Lost",
        LockError::ExpireTooShort { .. } => "ExpireTooShort",
        _ => "Other",
    };
    word.to_owned()
}
