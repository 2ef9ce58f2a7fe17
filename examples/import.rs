//! An import that may run three times at once: six processes want to run it, three at a time do,
//! the others wait for their turn.
//!
//! `cargo run --example import`; `REDIS_URL` names a server, otherwise one is started.
#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use std::error::Error;
use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fault_kit::Raw;
use redlock::{LockError, redis_lock};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::task::JoinSet;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const PROCESSES: usize = 6;
const AT_ONCE: u32 = 3;

/// At most three of these run at the same time, in all processes together.
#[redis_lock(key = "import", permits = AT_ONCE, expire = "10s", wait = "60s")]
async fn import(database: &Raw, counter: &str) -> std::result::Result<(), LockError> {
    let running = database.int(&["INCR", counter]).await;
    database.int(&["EXPIRE", counter, "60"]).await;
    println!("imports, as one of {running}");
    tokio::time::sleep(Duration::from_secs(1)).await;
    database.int(&["DECR", counter]).await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    if let Some(counter) = std::env::args().nth(1) {
        redlock::init_from_env().await?;
        return Ok(import(&Raw::new(&std::env::var("REDIS_URL")?), &counter).await?);
    }
    let named = std::env::var("REDIS_URL").ok();
    let private = match named {
        Some(_) => None,
        None if !fault_kit::has_server() => {
            println!("this needs a redis-server: install one, or set REDIS_URL");
            return Ok(());
        }
        None => Some(fault_kit::Server::builder().start().await),
    };
    let url = named.or_else(|| private.as_ref().map(fault_kit::Server::url)).unwrap_or_default();
    // Of this run alone: another one may have been ended while it counted.
    let counter = format!("imports:{}", SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros());
    let mut processes = JoinSet::new();
    for number in 1..=PROCESSES {
        processes.spawn(process(number, url.clone(), counter.clone()));
    }
    while let Some(ended) = processes.join_next().await {
        ended??;
    }
    println!("{PROCESSES} imports, never more than {AT_ONCE} at the same time");
    Ok(())
}

/// Runs one process, shows what it says, and checks it.
async fn process(number: usize, url: String, counter: String) -> Result<()> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg(counter)
        .env("REDIS_URL", url)
        .stdout(Stdio::piped())
        .spawn()?;
    let out = child.stdout.take().ok_or("a pipe was asked for")?;
    let mut lines = BufReader::new(out).lines();
    while let Some(line) = lines.next_line().await? {
        println!("process {number}: {line}");
        let running = line.rsplit(' ').next().unwrap_or_default();
        assert!(running.parse::<u32>()? <= AT_ONCE, "too many imports");
    }
    if !child.wait().await?.success() {
        return Err(format!("process {number} has failed").into());
    }
    Ok(())
}
