//! Work that takes longer than its lease: it is renewed while it goes on, and stopped when it goes
//! on for too long.
//!
//! `expire` is short, so that a crash blocks others only briefly; `max_renew` bounds the longest
//! hold: `max_renew * 2/3 * expire + 0.94 * expire`, here 2.27 s.
//! `cargo run --example long_job`; `REDIS_URL` names a server.
#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use std::time::{Duration, Instant};

use redlock::{Lease, LockError, LostReason, Redlock, redis_lock};

/// Runs under a lease of one second that is renewed twice at most.
#[redis_lock(key = "import-<name>", expire = "1s", wait = "5s", max_renew = 2)]
async fn import(name: &str, chunks: u32) -> Result<u32, LockError> {
    let _cleanup = Cleanup(name);
    for chunk in 0..chunks {
        // Each `.await` is a place where the job can be stopped.
        tokio::time::sleep(Duration::from_millis(300)).await;
        if let Some(lease) = Lease::current() {
            let (renewals, left) = (lease.renewals(), lease.remaining());
            println!("  {name}: chunk {chunk}, renewed {renewals} times, {left:.1?} left");
        }
    }
    Ok(chunks)
}

/// Dropped when the job ends, in whatever way, while the lock is still held.
struct Cleanup<'a>(&'a str);

impl Drop for Cleanup<'_> {
    fn drop(&mut self) {
        println!("  {}: temporary files removed", self.0);
    }
}

#[tokio::main]
async fn main() -> Result<(), LockError> {
    init().await?;

    println!("1.5 s of work under a lease of 1 s:");
    println!("done: {} chunks", import("orders", 5).await?);

    println!("3.6 s of work, more than two renewals allow:");
    let began = Instant::now();
    match import("customers", 12).await {
        Err(LockError::Lost { reason: LostReason::RenewalLimit, held_for, renewals, .. }) => {
            println!("stopped after {held_for:.2?} and {renewals} renewals");
        }
        Err(error) => return Err(error),
        Ok(chunks) => println!("unexpected: {chunks} chunks in {:.2?}", began.elapsed()),
    }

    // The lock was released as the job was stopped: nobody waits for its lease.
    let began = Instant::now();
    import("customers", 0).await?;
    println!("the next one got the lock after {:.1?}", began.elapsed());
    Ok(())
}

async fn init() -> Result<Redlock, LockError> {
    if let Ok(url) = std::env::var("REDIS_URL") {
        return redlock::init(url).await;
    }
    println!("REDIS_URL is not set: the locks are kept in this process");
    redlock::init(Redlock::builder().memory()).await
}
