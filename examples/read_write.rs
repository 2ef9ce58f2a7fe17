//! A configuration that everybody reads and one changes: readers run beside each other, and never
//! see a change half done.
//!
//! `cargo run --example read_write`; `REDIS_URL=redis://127.0.0.1:6379` names a server.
#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redlock::{LockError, Redlock, redis_lock};

const LAST: u32 = 5;

/// Stands for two rows of a database, which belong together.
static CONFIG: Mutex<(u32, u32)> = Mutex::new((0, 0));
static READERS: AtomicUsize = AtomicUsize::new(0);
static MOST_READERS: AtomicUsize = AtomicUsize::new(0);

/// Any number of these run at the same time.
#[redis_lock(key = "config", mode = "read", expire = "10s", wait = "10s")]
async fn read() -> Result<(u32, u32), LockError> {
    MOST_READERS.fetch_max(READERS.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
    let first = config().0;
    tokio::time::sleep(Duration::from_millis(20)).await;
    let second = config().1;
    READERS.fetch_sub(1, Ordering::SeqCst);
    Ok((first, second))
}

/// Runs alone: `mode = "write"` is what a lock without `mode` is.
#[redis_lock(key = "config", mode = "write", expire = "10s", wait = "10s")]
async fn change(to: u32) -> Result<(), LockError> {
    config().0 = to;
    tokio::time::sleep(Duration::from_millis(20)).await;
    config().1 = to;
    Ok(())
}

fn config() -> std::sync::MutexGuard<'static, (u32, u32)> {
    CONFIG.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    if let Ok(url) = std::env::var("REDIS_URL") {
        redlock::init(url).await?;
    } else {
        println!("REDIS_URL is not set: the locks are kept in this process");
        redlock::init(Redlock::builder().memory()).await?;
    }
    let readers: Vec<_> = (0..8).map(|_| tokio::spawn(watch())).collect();
    for version in 1..=LAST {
        change(version).await?;
        println!("changed to version {version}");
        // Downgrade: whoever changes the configuration reads it back, and nobody else changes it
        // in between.
        let writer = redlock::global()?.lock("config").acquire().await?;
        let reader = writer.downgrade().await?;
        assert_eq!(*config(), (version, version));
        reader.release().await?;
    }
    let mut reads = 0;
    for reader in readers {
        reads += reader.await??;
    }
    let most = MOST_READERS.load(Ordering::SeqCst);
    println!("{reads} reads, up to {most} of them at the same time, none of half a change");
    Ok(())
}

/// Reads until it has seen the last version, and says how often.
async fn watch() -> Result<u32, LockError> {
    let mut reads = 0;
    loop {
        let (first, second) = read().await?;
        assert_eq!(first, second, "half a change");
        reads += 1;
        if first == LAST {
            return Ok(reads);
        }
    }
}
