//! Leader election: of three processes exactly one runs a background loop. The leader is killed,
//! frozen and asked to stop in turn, and another one takes over each time.
//!
//! `cargo run --example leader` starts a `redis-server` of its own; `REDIS_URL` names another one.
#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use std::error::Error;
use std::process::Stdio;
use std::time::{Duration, Instant};

use redlock::{Lease, Redlock};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// How long a dead leader keeps the lock. It is renewed while the leader lives.
const EXPIRE: Duration = Duration::from_secs(2);
const NAMES: [&str; 3] = ["anna", "ben", "cleo"];
/// The whole play; it takes some ten seconds.
const BOUND: Duration = Duration::from_secs(90);

/// What every process of a service would run: a candidate, and the loop of the leader.
async fn candidate(name: &str) -> Result<()> {
    let url = std::env::var("REDIS_URL")?;
    let prefix = std::env::var("REDLOCK_PREFIX")?;
    let redlock = Redlock::builder().url(url).prefix(prefix).client_name(name).build().await?;
    let leads = redlock.lock("billing").expire(EXPIRE).lead(bill);
    tokio::select! {
        // `bill` never ends by itself, so this is an error that time does not mend.
        ended = leads => ended?,
        // Dropping the candidate resigns: another one leads at once.
        () = told_to_stop() => println!("resigned"),
    }
    redlock.shutdown(EXPIRE).await;
    Ok(())
}

/// Runs while this process leads. It is stopped at an `.await` when the lease is lost, and called
/// again when this process is elected again.
async fn bill(lease: Lease) {
    // Whatever the loop writes to carries this number, so that a database can refuse a leader
    // that comes too late.
    let token = lease.fencing_token();
    println!("elected {token}");
    let _stopped = Stopped;
    for invoice in 1.. {
        println!("invoice {token} {invoice}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Says that the loop has ended.
struct Stopped;

impl Drop for Stopped {
    fn drop(&mut self) {
        println!("stopped");
    }
}

/// A real service would wait for SIGTERM. These processes also end with the one that started them.
async fn told_to_stop() {
    let _ = tokio::io::stdin().read_u8().await;
}

#[tokio::main]
async fn main() -> Result<()> {
    if let Some(name) = std::env::args().nth(1) {
        return candidate(&name).await;
    }
    // Ends with this value.
    let mut private = None;
    let url = match std::env::var("REDIS_URL") {
        Ok(url) => url,
        Err(_) if !fault_kit::has_server() => {
            println!("this needs a redis-server: install one, or set REDIS_URL");
            return Ok(());
        }
        Err(_) => private.insert(fault_kit::Server::start().await).url(),
    };
    tokio::time::timeout(BOUND, play(&url)).await?
}

async fn play(url: &str) -> Result<()> {
    let mut cast = Cast::start(url)?;
    let leader = cast.next_leader(None).await?;
    cast.watch(Duration::from_secs(1)).await;

    println!("-- {leader} is killed: the others wait until its lease ends");
    cast.signal(&leader, Signal::KILL)?;
    let leader = cast.next_leader(Some(&leader)).await?;
    cast.watch(Duration::from_secs(1)).await;

    println!("-- {leader} is frozen, as by a debugger or a pause of its machine");
    cast.signal(&leader, Signal::STOP)?;
    let frozen = leader;
    let leader = cast.next_leader(Some(&frozen)).await?;
    println!("-- {frozen} goes on: it finds out that it has lost before it takes another step");
    cast.signal(&frozen, Signal::CONT)?;
    cast.watch(Duration::from_secs(1)).await;

    println!("-- {leader} is asked to stop: it resigns, and nobody waits for a lease");
    cast.ask_to_stop(&leader);
    cast.next_leader(Some(&leader)).await?;
    cast.watch(Duration::from_secs(1)).await;

    println!("{} invoices, each by the leader of its time", cast.invoices);
    if cast.errors == 0 { Ok(()) } else { Err("an invoice was written out of turn".into()) }
}

/// The processes, and what is known of them.
struct Cast {
    children: Vec<(Child, Option<ChildStdin>)>,
    lines: UnboundedReceiver<(usize, String)>,
    start: Instant,
    /// The fencing token of the newest leader, and its place in `NAMES`.
    newest: (u64, usize),
    invoices: u32,
    errors: u32,
}

impl Cast {
    fn start(url: &str) -> Result<Self> {
        let (sender, lines) = unbounded_channel();
        let start = Instant::now();
        let mut cast =
            Self { children: Vec::new(), lines, start, newest: (0, 0), invoices: 0, errors: 0 };
        for (n, name) in NAMES.iter().enumerate() {
            let mut child = Command::new(std::env::current_exe()?)
                .arg(name)
                .env("REDIS_URL", url)
                .env("REDLOCK_PREFIX", format!("leader-{}:", std::process::id()))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .kill_on_drop(true)
                .spawn()?;
            let stdout = child.stdout.take().ok_or("no stdout")?;
            tokio::spawn(hear(n, BufReader::new(stdout), sender.clone()));
            let stdin = child.stdin.take();
            cast.children.push((child, stdin));
        }
        Ok(cast)
    }

    /// Waits for the next election, and says how long it took.
    async fn next_leader(&mut self, before: Option<&str>) -> Result<String> {
        let fault = Instant::now();
        loop {
            let (n, line) = self.lines.recv().await.ok_or("all candidates have ended")?;
            let is_elected = self.hear(n, &line);
            if is_elected && before != Some(NAMES[n]) {
                println!("   .. {} leads after {:.2?}", NAMES[n], fault.elapsed());
                return Ok(NAMES[n].to_owned());
            }
        }
    }

    /// Listens for a while.
    async fn watch(&mut self, time: Duration) {
        let listen = async {
            while let Some((n, line)) = self.lines.recv().await {
                self.hear(n, &line);
            }
        };
        let _ = tokio::time::timeout(time, listen).await;
    }

    /// Checks one line of a candidate. Returns whether it was elected.
    fn hear(&mut self, n: usize, line: &str) -> bool {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let number = |text: &str| text.split(' ').next().and_then(|first| first.parse().ok());
        let (token, seconds) = (number(rest).unwrap_or(0), self.start.elapsed().as_secs_f64());
        match word {
            "elected" => {
                println!("{seconds:5.1} s  {:<5} elected, fencing token {token}", NAMES[n]);
                self.errors += u32::from(token <= self.newest.0);
                self.newest = (token, n);
            }
            // A line that was written before the newest leader was elected may come late.
            "invoice" => {
                self.invoices += 1;
                self.errors += u32::from(token == self.newest.0 && n != self.newest.1);
            }
            _ => println!("{seconds:5.1} s  {:<5} {line}", NAMES[n]),
        }
        word == "elected"
    }

    fn signal(&self, name: &str, signal: Signal) -> Result<()> {
        let (child, _) = &self.children[place(name)];
        let pid = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        Ok(kill_process(pid.ok_or("it has ended")?, signal)?)
    }

    fn ask_to_stop(&mut self, name: &str) {
        drop(self.children[place(name)].1.take());
    }
}

fn place(name: &str) -> usize {
    NAMES.iter().position(|known| *known == name).unwrap_or(0)
}

async fn hear(
    n: usize,
    stdout: BufReader<tokio::process::ChildStdout>,
    sender: UnboundedSender<(usize, String)>,
) {
    let mut lines = stdout.lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let _ = sender.send((n, line));
    }
}
