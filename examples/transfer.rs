//! Transfers between two accounts in both directions at once: each locks both accounts together, so
//! that no two of them wait for each other, and the money stays the same.
//!
//! `cargo run --example transfer`; `REDIS_URL` names a server.
#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use redlock::{Lease, LockError, Redlock, redis_lock};
use tokio::sync::Mutex;
use tokio::task::JoinSet;

const ACCOUNTS: usize = 4;
const TRANSFERS: usize = 100;

/// The balances. A real bank has a database in this place, which knows nothing of our locks.
type Balances = Arc<Mutex<Vec<i64>>>;

/// Both accounts are locked, whichever of them is named first, and both are free again after it.
#[redis_lock(keys = ["acct-<from>", "acct-<to>"], expire = "10s", wait = "30s")]
async fn transfer(balances: &Balances, from: usize, to: usize, sum: i64) -> Result<(), LockError> {
    let (old_from, old_to) = {
        let balances = balances.lock().await;
        (balances[from], balances[to])
    };
    // Anybody who came in between would be overwritten.
    tokio::time::sleep(Duration::from_millis(1)).await;
    // One lease of both: lost with either of them, and one fencing token for what is written.
    if let Some(lease) = Lease::current() {
        lease.check()?;
    }
    let mut balances = balances.lock().await;
    balances[from] = old_from - sum;
    balances[to] = old_to + sum;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    connect().await?.install()?;
    let balances = Balances::new(Mutex::new(vec![1_000; ACCOUNTS]));
    let mut transfers = JoinSet::new();
    for number in 0..TRANSFERS {
        let (from, distance) = (number % ACCOUNTS, 1 + number / ACCOUNTS % (ACCOUNTS - 1));
        let (balances, to) = (Arc::clone(&balances), (from + distance) % ACCOUNTS);
        let sum = [3, 5, 11][number % 3];
        transfers.spawn(async move { transfer(&balances, from, to, sum).await });
    }
    while let Some(done) = transfers.join_next().await {
        done??;
    }
    let balances = balances.lock().await;
    let sum: i64 = balances.iter().sum();
    println!("{TRANSFERS} transfers between {ACCOUNTS} accounts: {balances:?}, {sum} in all");
    assert_eq!(sum, 4_000);

    // The same without the attribute: one guard for all keys.
    let redlock = redlock::global()?;
    let guard = redlock.lock_all(["acct-3", "acct-1", "acct-2"]).acquire().await?;
    println!("{} with fencing token {}", guard.keys().join(", "), guard.fencing_token());
    guard.release().await?;
    Ok(())
}

async fn connect() -> Result<Redlock, LockError> {
    if let Ok(url) = std::env::var("REDIS_URL") {
        return Redlock::connect(url).await;
    }
    println!("REDIS_URL is not set: the locks are kept in this process");
    Redlock::builder().memory().build().await
}
