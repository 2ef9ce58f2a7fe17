//! The smallest program: a function that runs in one process at a time.
//!
//! `cargo run --example hello`; `REDIS_URL=redis://127.0.0.1:6379` names a server.
#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use redlock::{LockError, Redlock, redis_lock};

#[redis_lock(key = "hello-<name>", expire = "10s", wait = "5s", max_renew = 5)]
async fn greet(name: &str) -> Result<String, LockError> {
    Ok(format!("hello {name}, in all processes together nobody else greets you now"))
}

#[tokio::main]
async fn main() -> Result<(), LockError> {
    if let Ok(url) = std::env::var("REDIS_URL") {
        redlock::init(url).await?;
    } else {
        println!("REDIS_URL is not set: the locks are kept in this process");
        redlock::init(Redlock::builder().memory()).await?;
    }
    println!("{}", greet("world").await?);
    Ok(())
}
