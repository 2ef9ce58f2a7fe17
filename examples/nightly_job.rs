//! A job that two machines start once a tick, although their clocks differ: it runs on one of them.
//!
//! Two processes of this program play the machines. A tick is four seconds, and the clock of the
//! second one is behind by a second and a half, as half a minute would be for a job that runs every
//! few minutes: it starts the job when the first one is long done with it. `on_busy = "skip"` lets
//! it pass, and `min_hold` keeps the lock taken for longer than the clocks differ.
//! `cargo run --example nightly_job`; `REDIS_URL` names a server, otherwise one is started.
#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redlock::{LockError, redis_lock};

const TICK: Duration = Duration::from_secs(4);
const TICKS: u32 = 5;
/// By how much the clock of each machine is behind.
const MACHINES: [(&str, Duration); 2] =
    [("machine A", Duration::ZERO), ("machine B", Duration::from_millis(1500))];

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The report of one tick; `None`: it was the turn of another machine.
#[redis_lock(key = "nightly-report", wait = "0s", on_busy = "skip", min_hold = "3s")]
async fn report(tick: u32) -> std::result::Result<Option<String>, LockError> {
    tokio::time::sleep(Duration::from_millis(10)).await;
    Ok(Some(format!("report of tick {tick} is written")))
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    match (args.next(), args.next()) {
        (Some(begin), Some(behind)) => machine(begin.parse()?, behind.parse()?).await,
        _ => watch().await,
    }
}

/// One machine: a loop like that of any job scheduler. Times are in milliseconds.
async fn machine(begin: u64, behind: u64) -> Result<()> {
    redlock::init_from_env().await?;
    let by_this_clock = || Ok::<_, std::time::SystemTimeError>(now()?.saturating_sub(behind));
    for tick in 1..=TICKS {
        let due = begin + u64::try_from((TICK * tick).as_millis())?;
        tokio::time::sleep(Duration::from_millis(due.saturating_sub(by_this_clock()?))).await;
        match report(tick).await {
            Ok(Some(done)) => println!("tick {tick}: {done}"),
            Ok(None) => println!("tick {tick}: skipped, it is taken care of"),
            Err(error) => println!("tick {tick}: {error}"),
        }
    }
    Ok(())
}

/// Starts the machines, shows what they say, and counts.
async fn watch() -> Result<()> {
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
    let (lines, said) = mpsc::channel();
    let begin = now()?.to_string();
    println!("a job every {TICK:?}, on two machines whose clocks are 1.5 s apart:");
    for (name, behind) in MACHINES {
        let mut machine = Command::new(std::env::current_exe()?)
            .args([&begin, &behind.as_millis().to_string()])
            .env("REDIS_URL", &url)
            .stdout(Stdio::piped())
            .spawn()?;
        let (lines, out) = (lines.clone(), machine.stdout.take());
        std::thread::spawn(move || tell(name, machine, out.map(BufReader::new), &lines));
    }
    drop(lines);
    let said: Vec<String> = said.iter().inspect(|line| println!("  {line}")).collect();
    let runs = said.iter().filter(|line| line.ends_with("is written")).count();
    println!("{runs} runs in {TICKS} ticks");
    Ok(())
}

fn tell(name: &str, mut machine: Child, out: Option<impl BufRead>, lines: &mpsc::Sender<String>) {
    for line in out.into_iter().flat_map(BufRead::lines).map_while(std::io::Result::ok) {
        let _ = lines.send(format!("{name}: {line}"));
    }
    let _ = machine.wait();
}

fn now() -> std::result::Result<u64, std::time::SystemTimeError> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH)?;
    Ok(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
