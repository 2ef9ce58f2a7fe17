//! What started it all: three workers count to 30,000 together, with a counter that each reads,
//! increments and writes in three separate steps. One lost update would show.

use deadpool_redis::redis::{self, AsyncConnectionConfig, Client, aio::MultiplexedConnection};
use redlock::{LockError, Redlock, redis_lock};

use crate::busy;
use crate::clients::client;
use crate::fault_kit::NOISE;
use crate::support::process::{Args, Process, block_on, emit};
use crate::support::{Server, secs, unique_prefix};

const WORKERS: usize = 3;
const EACH: u32 = 10_000;

/// Where the counter stands, and the connection it is read and written with.
struct Counter {
    connection: MultiplexedConnection,
    key: String,
}

impl Counter {
    async fn connect(url: &str, key: &str) -> Counter {
        let client = Client::open(url).unwrap();
        // By default it gives up after half a second, which a busy machine may need.
        let settings = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(NOISE))
            .set_response_timeout(Some(NOISE));
        let connection = client.get_multiplexed_async_connection_with_config(&settings);
        let connection = connection.await.unwrap();
        Counter { connection, key: key.to_owned() }
    }

    async fn get(&mut self) -> u32 {
        let value: Option<u32> =
            redis::cmd("GET").arg(&self.key).query_async(&mut self.connection).await.unwrap();
        value.unwrap_or(0)
    }

    async fn set(&mut self, value: u32) {
        let set = redis::cmd("SET").arg(&self.key).arg(value).to_owned();
        set.query_async::<()>(&mut self.connection).await.unwrap();
    }
}

#[redis_lock(key = "counter", expire = "10s", wait = "forever", client = redlock)]
async fn increment(redlock: &Redlock, counter: &mut Counter) -> Result<(), LockError> {
    let value = counter.get().await;
    counter.set(value + 1).await;
    Ok(())
}

/// Takes the lock and never comes back.
#[redis_lock(key = "counter", expire = "10s", wait = "forever", client = redlock)]
async fn hang(redlock: &Redlock) -> Result<(), LockError> {
    emit("holds");
    std::future::pending().await
}

#[tokio::test]
async fn three_tasks_count_to_thirty_thousand() {
    let _turn = busy::turn().await;
    let url = Server::shared().await.url();
    let (redlock, key) = (client().await, unique_prefix() + "counter");
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..WORKERS {
        let (redlock, mut counter) = (redlock.clone(), Counter::connect(&url, &key).await);
        workers.spawn(async move {
            for _ in 0..EACH {
                increment(&redlock, &mut counter).await.unwrap();
            }
        });
    }
    while let Some(done) = workers.join_next().await {
        done.unwrap();
    }
    let count = Counter::connect(&url, &key).await.get().await;
    assert_eq!(count, 30_000, "two holders at once");
}

#[tokio::test]
async fn three_processes_count_to_thirty_thousand() {
    let _turn = busy::turn().await;
    let race = Race::new().await;
    let workers: Vec<_> = (0..WORKERS).map(|_| race.worker(EACH, false)).collect();
    race.finish(workers).await;
    race.assert_counted(30_000).await;
}

/// One waits in the queue of the server for all of its tasks, so that the lock changes hands within
/// and between them.
#[tokio::test]
async fn three_processes_of_eight_tasks_count_to_thirty_thousand() {
    let _turn = busy::turn().await;
    let race = Race::new().await;
    let workers: Vec<_> = (0..WORKERS).map(|_| race.crowd(8, EACH / 8)).collect();
    race.finish(workers).await;
    race.assert_counted(30_000).await;
}

#[tokio::test]
async fn twenty_tasks_of_one_process_count_to_twenty_thousand() {
    let _turn = busy::turn().await;
    let race = Race::new().await;
    race.finish(vec![race.crowd(20, 1_000)]).await;
    race.assert_counted(20_000).await;
}

/// The others wait for the end of its lease, and count on.
#[tokio::test]
async fn a_worker_killed_before_its_first_increment_is_missed_exactly() {
    let _turn = busy::turn().await;
    let race = Race::new().await;
    let mut killed = race.worker(0, true);
    killed.event("holds").await;
    let others: Vec<_> = (1..WORKERS).map(|_| race.worker(EACH, false)).collect();
    killed.sigkill();
    race.finish(others).await;
    race.assert_counted(20_000).await;
}

/// Killed in the middle of its work, while it holds and the others wait.
#[tokio::test]
async fn what_a_killed_worker_had_done_is_counted_once() {
    let _turn = busy::turn().await;
    let race = Race::new().await;
    let others: Vec<_> = (1..WORKERS).map(|_| race.worker(1_000, false)).collect();
    let mut killed = race.worker(123, true);
    killed.event_within(secs(600), "holds").await;
    killed.sigkill();
    race.finish(others).await;
    race.assert_counted(2_123).await;
}

/// Processes that count together.
struct Race {
    url: String,
    prefix: String,
}

impl Race {
    async fn new() -> Race {
        Race { url: Server::shared().await.url(), prefix: unique_prefix() }
    }

    fn worker(&self, increments: u32, hangs: bool) -> Process {
        let (increments, hangs) = (increments.to_string(), hangs.to_string());
        Process::spawn("count", &[&self.url, &self.prefix, &increments, &hangs])
    }

    /// Tasks of one process.
    fn crowd(&self, tasks: u32, increments: u32) -> Process {
        let (tasks, increments) = (tasks.to_string(), increments.to_string());
        Process::spawn("count-in-tasks", &[&self.url, &self.prefix, &increments, &tasks])
    }

    async fn finish(&self, workers: Vec<Process>) {
        for mut worker in workers {
            worker.event_within(secs(600), "done").await;
            assert!(worker.wait(secs(20)).await.success());
        }
    }

    async fn assert_counted(&self, exactly: u32) {
        let mut counter = Counter::connect(&self.url, &format!("{}value", self.prefix)).await;
        assert_eq!(counter.get().await, exactly, "two holders at once");
    }
}

/// The role of a worker process.
pub fn count(args: &Args) {
    block_on(async {
        let (url, prefix) = (args.get(0), args.get(1));
        let redlock = Redlock::builder().url(url).prefix(prefix).build().await.unwrap();
        let mut counter = Counter::connect(url, &format!("{prefix}value")).await;
        for _ in 0..args.parse::<u32>(2) {
            increment(&redlock, &mut counter).await.unwrap();
        }
        if args.parse(3) {
            hang(&redlock).await.unwrap();
        }
        emit("done");
    });
}

/// The same with several tasks, each with a connection of its own for the counter.
pub fn count_in_tasks(args: &Args) {
    block_on(async {
        let (url, prefix) = (args.get(0), args.get(1));
        let redlock = Redlock::builder().url(url).prefix(prefix).build().await.unwrap();
        let increments = args.parse::<u32>(2);
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..args.parse::<u32>(3) {
            let redlock = redlock.clone();
            let mut counter = Counter::connect(url, &format!("{prefix}value")).await;
            tasks.spawn(async move {
                for _ in 0..increments {
                    increment(&redlock, &mut counter).await.unwrap();
                }
            });
        }
        tasks.join_all().await;
        emit("done");
    });
}
