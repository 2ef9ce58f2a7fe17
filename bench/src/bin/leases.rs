//! What it costs to hold many leases: memory, processor time of both sides, lateness of renewals.
//!
//! ```sh
//! redis-server --port 6400 --save "" &
//! cargo run --release --manifest-path bench/Cargo.toml --bin leases -- \
//!     100000 180 30 --url redis://127.0.0.1:6400
//! ```
//!
//! Takes that many locks, holds them for so many seconds with leases of so many seconds, and exits
//! with 1 when one of them was lost. The server should be idle otherwise: its time is read from
//! `INFO`.

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redlock::{LockGuard, Redlock};
use tokio::task::JoinSet;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Tasks that take locks at the same time.
const TAKERS: u32 = 64;
/// How often all leases are looked at.
const LOOK: Duration = Duration::from_secs(10);
/// How long one lock may take, on a machine that does other work as well.
const PATIENCE: Duration = Duration::from_secs(50);
/// How long the releases may take.
const RELEASE: Duration = Duration::from_secs(100);
/// How often another client asks the server for a sign of life.
const PING: Duration = Duration::from_millis(20);

struct Args {
    count: u32,
    held: Duration,
    expire: Duration,
    url: String,
}

#[tokio::main]
async fn main() -> Outcome<ExitCode> {
    let args = Args::parse()?;
    let redlock = Redlock::connect(args.url.as_str()).await?;
    let mut server = Server::connect(&args.url)?;
    // What a client costs before its first lease is not the leases'.
    drop(take_all(&redlock, 2_000, args.expire).await?);
    redlock.shutdown(Duration::from_secs(10)).await;
    let redlock = Redlock::connect(args.url.as_str()).await?;

    let (rss, memory) = (own_rss()?, server.info("used_memory")?);
    let started = Instant::now();
    let guards = take_all(&redlock, args.count, args.expire).await?;
    println!("leases             {}, of {:?}", guards.len(), args.expire);
    println!("taken in           {:.1} s", started.elapsed().as_secs_f64());
    let each = |bytes: f64| bytes / f64::from(args.count);
    println!("client memory      {:.0} bytes a lease", each(own_rss()? - rss));
    println!("server memory      {:.0} bytes a lease", each(server.info("used_memory")? - memory));

    let pings = Pings::start(&args.url)?;
    let (client, background, redis) = (own_time("")?, own_time("redlock-bg")?, server.time()?);
    let calls = server.info("total_commands_processed")?;
    let started = Instant::now();
    let held = watch(&guards, args.held).await;
    let elapsed = started.elapsed().as_secs_f64();
    let share = |seconds: f64| 100.0 * seconds / elapsed;
    println!("held for           {elapsed:.1} s, {} renewals", held.renewals);
    println!("lost               {}", held.lost);
    println!("client             {:.2} % of a core", share(own_time("")? - client));
    println!("  its background   {:.2} %", share(own_time("redlock-bg")? - background));
    println!("server             {:.2} % of a core", share(server.time()? - redis));
    let calls = server.info("total_commands_processed")? - calls;
    println!("commands           {:.0} a second, those in scripts included", calls / elapsed);
    println!("oldest lease       {:.2} of its length, due at 0.67", held.oldest(args.expire));
    println!("another's PING     {}", pings.end());

    let started = Instant::now();
    drop(guards);
    redlock.shutdown(RELEASE).await;
    println!("released in        {:.1} s", started.elapsed().as_secs_f64());
    Ok(ExitCode::from(u8::from(held.lost > 0)))
}

impl Args {
    fn parse() -> Outcome<Self> {
        let mut words: Vec<String> = std::env::args().skip(1).collect();
        let mut url = "redis://127.0.0.1:6379".to_owned();
        if let Some(at) = words.iter().position(|word| word == "--url") {
            url = words.drain(at..).nth(1).ok_or("--url needs a URL")?;
        }
        let [count, held, expire] = words.as_slice() else {
            return Err("<count> <seconds to hold> <seconds of a lease> [--url <url>]".into());
        };
        Ok(Self {
            count: count.parse()?,
            held: Duration::from_secs_f64(held.parse()?),
            expire: Duration::from_secs_f64(expire.parse()?),
            url,
        })
    }
}

async fn take_all(redlock: &Redlock, count: u32, expire: Duration) -> Outcome<Vec<LockGuard>> {
    let guards = Arc::new(Mutex::new(Vec::with_capacity(count as usize)));
    let mut takers = JoinSet::new();
    for taker in 0..TAKERS {
        let (redlock, guards) = (redlock.clone(), Arc::clone(&guards));
        takers.spawn(async move {
            for n in (taker..count).step_by(TAKERS as usize) {
                let lock = redlock.lock(format!("lease-{n}")).expire(expire).wait(PATIENCE);
                let guard = lock.acquire().await?;
                guards.lock().unwrap().push(guard);
            }
            Outcome::Ok(())
        });
    }
    while let Some(taken) = takers.join_next().await {
        taken??;
    }
    Ok(std::mem::take(&mut guards.lock().unwrap()))
}

struct Held {
    lost: usize,
    renewals: u64,
    least: Duration,
}

impl Held {
    /// The age of the oldest lease that was seen, as a share of its length.
    fn oldest(&self, expire: Duration) -> f64 {
        // A body is stopped when 0.94 of the lease are over, but for 2 ms.
        0.94 - (self.least.as_secs_f64() + 0.002) / expire.as_secs_f64()
    }
}

async fn watch(guards: &[LockGuard], time: Duration) -> Held {
    let renewed = || guards.iter().map(|guard| u64::from(guard.renewals())).sum::<u64>();
    let before = renewed();
    let end = Instant::now() + time;
    let mut least = Duration::MAX;
    while Instant::now() < end {
        tokio::time::sleep(LOOK.min(end - Instant::now())).await;
        least = guards.iter().map(|guard| guard.remaining()).min().unwrap_or_default().min(least);
    }
    let lost = guards.iter().filter(|guard| guard.check().is_err()).count();
    Held { lost, renewals: renewed() - before, least }
}

/// Kilobytes of memory, as the operating system counts them.
fn own_rss() -> Outcome<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(1024.0 * line.trim_end_matches("kB").trim().parse::<f64>()?)
}

/// Seconds of processor time of our threads with this name; of all when it is empty.
fn own_time(name: &str) -> Outcome<f64> {
    let mut ticks = 0.0;
    for task in std::fs::read_dir("/proc/self/task")? {
        let stat = std::fs::read_to_string(task?.path().join("stat"))?;
        let (head, rest) = stat.rsplit_once(')').ok_or("an odd stat")?;
        if !name.is_empty() && !head.ends_with(name) {
            continue;
        }
        // utime and stime, the fields 14 and 15; what is behind the name begins with field 3.
        for field in rest.split_whitespace().skip(11).take(2) {
            ticks += field.parse::<f64>()?;
        }
    }
    Ok(ticks / 100.0)
}

/// A plain connection to the server.
struct Server {
    stream: BufReader<TcpStream>,
}

impl Server {
    fn connect(url: &str) -> Outcome<Self> {
        let address = url.trim_start_matches("redis://").trim_end_matches('/');
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    fn ask(&mut self, command: &str) -> Outcome<String> {
        self.stream.get_mut().write_all(format!("{command}\r\n").as_bytes())?;
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        let Some(length) = line.strip_prefix('$') else { return Ok(line) };
        let mut text = vec![0; length.trim().parse::<usize>()? + 2];
        self.stream.read_exact(&mut text)?;
        Ok(String::from_utf8(text)?)
    }

    fn info(&mut self, field: &str) -> Outcome<f64> {
        let info = self.ask("INFO")?;
        let value = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        Ok(value.ok_or("no such field of INFO")?.parse()?)
    }

    fn time(&mut self) -> Outcome<f64> {
        Ok(self.info("used_cpu_user")? + self.info("used_cpu_sys")?)
    }
}

/// What another client notices.
struct Pings {
    is_over: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<Vec<Duration>>,
}

impl Pings {
    fn start(url: &str) -> Outcome<Self> {
        let mut server = Server::connect(url)?;
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            let mut took = Vec::new();
            while !ends.load(Ordering::Relaxed) {
                std::thread::park_timeout(PING);
                let sent = Instant::now();
                if server.ask("PING").is_ok() {
                    took.push(sent.elapsed());
                }
            }
            took
        });
        Ok(Self { is_over, thread })
    }

    fn end(self) -> String {
        self.is_over.store(true, Ordering::Relaxed);
        let mut took = self.thread.join().unwrap_or_default();
        took.sort_unstable();
        let Some(longest) = took.last() else { return "never answered".to_owned() };
        let at = |percent: usize| took[took.len() * percent / 100];
        format!("p50 {:?}, p99 {:?}, longest {longest:?}", at(50), at(99))
    }
}
