//! Transfers between accounts in both directions, by processes that are killed: no money is lost or
//! made, and no two of them wait for each other.

use std::time::Duration;

use redlock::{LockError, LostReason, Redlock};
use tokio::task::JoinSet;

use crate::busy;
use crate::support::process::{Args, Process, block_on, emit};
use crate::support::supervise::Exit;
use crate::support::{
    Raw, Server, counted, eventually, full, ms, secs, time_passes, unique_prefix,
};

const ACCOUNTS: u64 = 10;
const BALANCE: i64 = 1_000;
const TASKS: usize = 3;
/// What a killed holder costs the others.
const EXPIRE: Duration = secs(1);
/// Nobody waits for longer, unless in a circle.
const STUCK: Duration = secs(60);

/// Moves money until it is told to stop: url, prefix. Ends with a panic if a transfer fails.
pub fn work(args: &Args) {
    let (url, prefix) = (args.get(0).to_owned(), args.get(1).to_owned());
    block_on(async {
        let redlock = Redlock::builder().url(&url).prefix(&prefix).expire(EXPIRE).wait(STUCK);
        let redlock = redlock.build().await.expect("the server is there");
        let mut tasks = JoinSet::new();
        for _ in 0..TASKS {
            let (redlock, raw, prefix) = (redlock.clone(), Raw::new(&url), prefix.clone());
            tasks.spawn(async move {
                while raw.get(&format!("{prefix}stop")).await.is_none() {
                    transfer(&redlock, &raw, &prefix).await;
                }
            });
        }
        tasks.join_all().await;
        emit("done");
    });
}

async fn transfer(redlock: &Redlock, raw: &Raw, prefix: &str) {
    let from = random(ACCOUNTS);
    let to = (from + 1 + random(ACCOUNTS - 1)) % ACCOUNTS;
    let (from, to) = (format!("acct-{from}"), format!("acct-{to}"));
    let accounts = format!("{prefix}accounts");
    let balance = async |account: &str| raw.int(&["HGET", &accounts, account]).await;
    let body = async {
        let before = (balance(&from).await, balance(&to).await);
        time_passes(ms(1)).await;
        let after = ((before.0 - 7).to_string(), (before.1 + 7).to_string());
        raw.cmd(&["HSET", &accounts, &from, &after.0, &to, &after.1]).await;
        raw.cmd(&["INCR", &format!("{prefix}done")]).await;
    };
    match redlock.lock_all([&from, &to]).run(body).await {
        Ok(()) => {}
        // On a machine that stands still a lease may end, and the body is stopped then. But nobody
        // can take a lock before that.
        Err(LockError::Lost { reason, held_for, .. })
            if reason != LostReason::Stolen || held_for >= EXPIRE =>
        {
            raw.cmd(&["INCR", &format!("{prefix}stopped")]).await;
        }
        Err(error) => panic!("{from}, {to}: {error}"),
    }
}

/// Less than `below`.
fn random(below: u64) -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(below) % below
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opposite_transfers_of_processes_that_are_killed_keep_the_sum() {
    let _turn = busy::turn().await;
    let (server, prefix) = (Server::start().await, unique_prefix());
    let raw = server.raw();
    let accounts = format!("{prefix}accounts");
    for account in 0..ACCOUNTS {
        raw.cmd(&["HSET", &accounts, &format!("acct-{account}"), &BALANCE.to_string()]).await;
    }
    let spawn = || Process::spawn("transfer", &[&server.url(), &prefix]);
    let mut processes: Vec<Process> = (0..full(4, 8)).map(|_| spawn()).collect();
    let number = async |name: &str| raw.int(&["INCRBY", &format!("{prefix}{name}"), "0"]).await;
    let (kills, between) = full((12, 40), (100, 100));
    for kill in 0..kills {
        // Somewhere in a transfer: the others go on meanwhile.
        eventually(STUCK, || async { number("done").await > between * kill }).await;
        // No transfer of it has failed.
        assert_eq!(processes[0].sigkill(), Exit::Signal(9), "{}", processes[0].stderr());
        processes.rotate_left(1);
        *processes.last_mut().expect("there are some") = spawn();
    }
    eventually(STUCK, || async { number("done").await >= between * kills }).await;
    raw.cmd(&["SET", &format!("{prefix}stop"), "1"]).await;
    for process in &mut processes {
        process.event_within(STUCK, "done").await;
    }
    let mut sum = 0;
    for account in 0..ACCOUNTS {
        sum += raw.int(&["HGET", &accounts, &format!("acct-{account}")]).await;
    }
    assert_eq!(sum, BALANCE * i64::try_from(ACCOUNTS).unwrap(), "two holders at once");
    // The lease of the last that was killed may still run.
    eventually(secs(10), || async {
        let locks = raw.keys(&format!("{prefix}acct-*")).await;
        locks.is_empty()
    })
    .await;
    let (done, stopped) = (number("done").await, number("stopped").await);
    counted(&format!(
        "{done} transfers by {} processes, {kills} killed: the sum is exact, nobody waited for \
         {STUCK:?}, {stopped} bodies were stopped as the machine stood still",
        processes.len()
    ));
}
