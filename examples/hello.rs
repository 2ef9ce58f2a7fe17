//! The smallest program: a function that runs in one process at a time.
//!
//! `cargo run --example hello`, or with a server: `REDIS_URL=redis://127.0.0.1:6379 cargo run ..`
#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use redlock::{Lease, LockError, Redlock, redis_lock};

#[redis_lock(key = "hello-<name>", expire = "10s", wait = "5s", max_renew = 5)]
async fn greet(name: &str) -> Result<String, LockError> {
    let fencing_token = Lease::current().map(|lease| lease.fencing_token());
    Ok(format!("hello {name}, nobody else greets you now (fencing token {fencing_token:?})"))
}

#[tokio::main]
async fn main() -> Result<(), LockError> {
    match std::env::var("REDIS_URL") {
        Ok(url) => redlock::init(url).await?,
        Err(_) => {
            println!("REDIS_URL is not set: the locks are kept in this process");
            redlock::init(Redlock::builder().memory()).await?
        }
    };
    println!("{}", greet("world").await?);
    Ok(())
}
