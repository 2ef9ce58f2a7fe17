//! One process that works under locks until its time is over: the role of the child processes.

use std::future::poll_fn;
use std::path::PathBuf;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use fastrand::Rng;
use fault_kit::process::{Args, block_on, emit};
use fault_kit::{ms, secs, time_passes};
use redlock::{LockError, LockGuard, LockRequest, NodeErrorKind, Redlock, redis_lock};

use crate::lock_kind::LockKind;
use crate::log::{Event, Log, millis, now};
use crate::resource::{self, Resource};
use crate::topology::Topology;
use crate::wanted::Wanted;
use crate::watched::{Watched, release};

/// The leases that workers ask for, in milliseconds.
const EXPIRES: [u64; 4] = [300, 400, 600, 1_000];
/// The longest of them.
pub(crate) const LONGEST_MS: u64 = 1_000;

/// How long calls wait for one key, in milliseconds.
const WAITS: [u64; 4] = [0, 50, 400, LAST_WAIT];
/// The same for several keys, of which each has its queue.
const WAITS_OF_SEVERAL: [u64; 4] = [0, 400, LAST_WAIT, 1_500];
/// Nobody waits for longer than this behind the end of the time.
const LAST_WAIT: u64 = 800;

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
    topology: Topology,
    /// When to stop; in a run to a total, when to give up.
    until: u64,
    /// How many writes this worker shall have done in all; 0: as many as it can.
    goal: u64,
}

/// Arguments: name, incarnation, seed, socket, log, URLs, tasks, names of locks, until, goal,
/// restart guard, replicas, prefix, topology.
pub(crate) fn work(args: &Args) {
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
        worker.ask_in_vain().await;
        worker.redlock.shutdown(secs(2)).await;
        let locks = worker.redlock.held().len();
        worker.log.write(&worker.process, now(), Event::Kept { locks });
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
            topology,
            names: args.get(7).split(' ').map(str::to_owned).collect(),
            until: args.parse(8),
            goal: args.parse(9),
        }
    }

    /// What is left of the time, in milliseconds.
    fn left_ms(&self) -> u64 {
        self.until.saturating_sub(now()) / 1_000_000
    }

    /// Permits are refused where they would not be sound.
    async fn ask_in_vain(&self) {
        if self.topology.is_quorum() {
            let found = self.redlock.lock("refused").permits(2).try_acquire().await;
            assert!(
                matches!(found, Err(LockError::Config { .. })),
                "permits of a quorum: {found:?}"
            );
        }
    }

    async fn task(&'static self, task: u64, mut rng: Rng) {
        for n in 1.. {
            if now() >= self.until {
                return;
            }
            let call = Call::random(&mut rng, self, format!("{}.{task}/{n}", self.process));
            call.begin();
            match call.run().await {
                Ok(applied) if self.goal > 0 && applied >= self.goal => return,
                Ok(_) => {}
                Err(why) => call.wanted.log(&self.log, now(), &Event::Failed { why }),
            }
            if self.goal == 0 {
                time_passes(ms(rng.u64(0..20))).await;
            }
        }
    }
}

/// One call under a lock, as a program would make it.
#[derive(Debug)]
struct Call {
    worker: &'static Worker,
    wanted: Wanted,
    kind: LockKind,
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
    /// A writer with a guard becomes a reader in the end.
    downgrades: bool,
}

#[derive(Debug, Clone, Copy)]
enum Form {
    Guard,
    Run,
    Attribute,
}

impl Call {
    fn random(rng: &mut Rng, worker: &'static Worker, name: String) -> Call {
        let expire = rng.choice(EXPIRES).unwrap_or(LONGEST_MS);
        let keys = keys(rng, worker.names.len());
        // Some bodies need renewals, and some outlast all that they get. They are rare on the way
        // to a goal, and where they keep everybody else out.
        let is_long = rng.u16(
            0..match keys[..] {
                _ if worker.goal > 0 => 150,
                [_] => 6,
                _ => 15,
            },
        ) == 0;
        let kind = match keys[..] {
            [key] => LockKind::of_key(key, worker.topology, rng),
            _ => LockKind::Exclusive,
        };
        // The attribute takes the plain lock.
        let forms: &[Form] = match kind {
            LockKind::Exclusive => &[Form::Guard, Form::Run, Form::Attribute],
            _ => &[Form::Guard, Form::Run],
        };
        Call {
            worker,
            kind,
            expire: ms(expire),
            wait: ms(match keys[..] {
                [_] => rng.choice(WAITS).unwrap_or(0),
                _ => rng.choice(WAITS_OF_SEVERAL).unwrap_or(0).min(worker.left_ms() + LAST_WAIT),
            }),
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
            form: rng.choice(forms).copied().unwrap_or(Form::Run),
            downgrades: keys.len() == 1 && keys[0] > 0 && rng.bool(),
            wanted: Wanted::new(name, keys.into_iter().map(|key| worker.names[key].clone())),
        }
    }

    fn begin(&self) {
        let (wait, expire) = (millis(self.wait), millis(self.expire));
        self.wanted.begin(&self.worker.log, self.kind, wait, expire);
    }

    /// How many writes of this worker the resource had accepted at the end, or what failed.
    async fn run(&self) -> Result<u64, String> {
        let patience = self.patience.unwrap_or(Duration::MAX);
        match tokio::time::timeout(patience, self.locked()).await {
            Ok(outcome) => outcome.map_err(|error| word(&error)),
            Err(_) => Err("Dropped".to_owned()),
        }
    }

    async fn locked(&self) -> Result<u64, LockError> {
        match self.form {
            Form::Run => self.request(self.kind).run(self.watched()).await,
            Form::Attribute if self.wanted.are_several() => all_by_attribute(self).await,
            Form::Attribute => by_attribute(self).await,
            Form::Guard => {
                let guard = self.stalled(self.request(self.kind).acquire()).await?;
                let applied = guard.protect(self.watched()).await?;
                if self.downgrades && self.kind == LockKind::Exclusive {
                    self.downgraded(guard).await?;
                } else {
                    release(guard, &self.worker.log, &self.wanted).await;
                }
                Ok(applied)
            }
        }
    }

    fn request(&self, kind: LockKind) -> LockRequest {
        let redlock = &self.worker.redlock;
        let request = if self.wanted.are_several() {
            redlock.lock_all(self.wanted.keys())
        } else {
            redlock.lock(self.wanted.first())
        };
        let request = request.expire(self.expire).wait(self.wait);
        kind.ask(request.max_renew(self.max_renew.unwrap_or(u32::MAX)))
    }

    /// Goes on as a reader, which is an attempt of its own in the log, and lets go.
    async fn downgraded(&self, guard: LockGuard) -> Result<(), LockError> {
        let (log, from) = (&self.worker.log, self.wanted.call().to_owned());
        let reader = self.wanted.then();
        reader.log(log, now(), &Event::Downgrade { from });
        let guard = guard.downgrade().await?;
        guard.protect(Watched::new(log, &reader, self.expire, self.look(&reader))).await?;
        release(guard, log, &reader).await;
        Ok(())
    }

    /// Polls once and, where that is not enough, not again before a stall is over.
    async fn stalled<T>(&self, call: impl Future<Output = T>) -> T {
        let mut call = pin!(call);
        if let Some(stall) = self.stall.filter(|_| self.worker.goal == 0) {
            let first = poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx))).await;
            if let Poll::Ready(output) = first {
                return output;
            }
            self.wanted.log(&self.worker.log, now(), &Event::Stalled);
            time_passes(stall).await;
            self.wanted.log(&self.worker.log, now(), &Event::Resumed);
        }
        call.await
    }

    fn watched(&self) -> Watched<'_, impl Future<Output = u64>> {
        Watched::new(&self.worker.log, &self.wanted, self.expire, self.body())
    }

    /// What the kind of its lock allows: whoever is not alone only reads.
    async fn body(&self) -> u64 {
        if self.kind == LockKind::Exclusive {
            return self.write().await;
        }
        self.look(&self.wanted).await;
        0
    }

    async fn open(&self, key: &str) -> Resource {
        let lease = redlock::Lease::current().expect("a body runs under a lease");
        let fencing = lease.fencing_token().into();
        Resource::open(&self.worker.socket, key, fencing, &self.worker.name).await
    }

    /// Reads twice what writers write in two steps: nothing may have changed.
    async fn look(&self, wanted: &Wanted) {
        let mut resource = self.open(wanted.first()).await;
        let first = resource.look().await;
        self.rest().await;
        let second = resource.look().await;
        let wrong = resource.judge(first, second);
        wanted.log(&self.worker.log, now(), &Event::View { wrong });
    }

    /// Asks the servers, by way of the parent, whether each key is there.
    async fn look_for_keys(&self) {
        let Worker { socket, process, log, .. } = self.worker;
        for part in self.wanted.parts() {
            let wrong = resource::look_for(socket, process, &part.key).await;
            log.write(&part.attempt, now(), Event::Found { wrong });
        }
    }

    /// Adds one to both counters of each key, with some time between reading and writing.
    async fn write(&self) -> u64 {
        if self.wanted.are_several() {
            self.look_for_keys().await;
        }
        let goal = self.worker.goal;
        let mut additions = Vec::new();
        for key in self.wanted.keys() {
            let addition = self.open(key).await.begin_addition().await;
            if let Some(applied) = addition.applied().filter(|done| goal > 0 && *done >= goal) {
                return applied;
            }
            additions.push(addition);
        }
        self.rest().await;
        let mut applied = 0;
        for addition in additions {
            applied = addition.finish().await.max(applied);
        }
        applied
    }

    async fn rest(&self) {
        for _ in 0..self.pauses {
            time_passes(self.pause).await;
            // Frozen in the pause, it would like to take many steps before anybody can stop it.
            for _ in 0..4 {
                tokio::task::yield_now().await;
            }
        }
    }
}

/// The keys of a call, by their numbers: one, of the first three most often, or now and then two or
/// three in any order.
fn keys(rng: &mut Rng, count: usize) -> Vec<usize> {
    if count == 1 || rng.u8(0..4) > 0 {
        return vec![rng.usize(0..count + count.min(3)) % count];
    }
    let mut keys: Vec<usize> = (0..count).collect();
    rng.shuffle(&mut keys);
    keys.truncate(rng.usize(2..4));
    keys
}

#[redis_lock(
    key = call.wanted.first(),
    client = &call.worker.redlock,
    expire = call.expire,
    wait = call.wait,
    max_renew = 3
)]
async fn by_attribute(call: &Call) -> Result<u64, LockError> {
    Ok(call.watched().await)
}

#[redis_lock(
    keys = call.wanted.keys(),
    client = &call.worker.redlock,
    expire = call.expire,
    wait = call.wait,
    max_renew = 3
)]
async fn all_by_attribute(call: &Call) -> Result<u64, LockError> {
    Ok(call.watched().await)
}

/// What kind of an error it is.
pub(crate) fn word(error: &LockError) -> String {
    let word = match error {
        LockError::Timeout { .. } => "Timeout",
        LockError::Unavailable { nodes, .. }
            if nodes.iter().all(|node| node.kind() == NodeErrorKind::Refused) =>
        {
            "Split"
        }
        LockError::Unavailable { .. } => "Unavailable",
        LockError::Lost { .. } => "Lost",
        LockError::ExpireTooShort { .. } => "ExpireTooShort",
        LockError::Config { .. } => "Config",
        _ => "Other",
    };
    word.to_owned()
}
