//! The inventory: a limited stock, too many customers, several processes, a real database.
//!
//! `cargo run --example inventory` needs nothing but Rust: where there is no Redis it starts a
//! private one, and where none is installed it keeps the locks in memory. Add `-- --help`.
//!
//! `shop.rs` is the code that a user of the library writes; everything else is the stage around it:
//! `main` -> `play` (one act) -> `plot` (when to cause which accident), `fleet` (the workers),
//! `worker` (one of them); `screen`, `json` and `report` show the `outcome`.

mod act;
mod database;
mod event;
mod fleet;
mod json;
mod options;
mod outcome;
mod play;
mod plot;
mod report;
mod screen;
mod server;
mod shop;
mod worker;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use redlock::Redlock;

use fleet::Access;
use options::Options;
use outcome::Outcome;
use screen::Screen;
use server::Server;

type Failure = Box<dyn std::error::Error>;

const FAILED: u8 = 1;
const NOT_RUN: u8 = 2;
/// What a shell reports for a program that was interrupted.
const INTERRUPTED: u8 = 130;

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Some(setup) = worker::Setup::from_args(&args) {
        return match worker::run_process(setup).await {
            // Not a return: it would wait for the thread that reads stdin.
            Ok(()) => std::process::exit(0),
            Err(error) => not_run(error.as_ref()),
        };
    }
    let options = Options::parse();
    // Whatever is dropped with the demo's future ends its workers and its server.
    tokio::select! {
        ended = demo(&options) => match ended {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => FAILED.into(),
            Err(error) => not_run(error.as_ref()),
        },
        () = interrupted() => INTERRUPTED.into(),
    }
}

/// `Ok(true)`: every act that must be exact was.
async fn demo(options: &Options) -> Result<bool, Failure> {
    options.check()?;
    let began = Instant::now();
    if let Some(directory) = options.report.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let server = Server::choose(options.redis_url.as_deref()).await?;
    if server.url().is_none() {
        redlock::init(Redlock::builder().memory()).await?;
    }
    let mut screen = Screen::new(options.json);
    screen.header(&server, options);
    let mut outcomes = Vec::new();
    for act in options.acts() {
        let access = server.url().map(|url| access(url, act));
        outcomes.push(play::play(act, options, access.as_ref(), &mut screen).await?);
    }
    std::fs::write(&options.report, report::page(&server, options, &outcomes))?;
    screen.summary(&outcomes);
    screen.farewell(&outcomes, &options.report.to_string_lossy(), began.elapsed());
    if options.json {
        print_result(&json::result(&server, options, &outcomes));
    }
    if let Ok(redlock) = redlock::global() {
        redlock.shutdown(Duration::from_secs(1)).await;
    }
    Ok(outcomes.iter().all(Outcome::is_passed))
}

/// Every run and act has keys of its own: on a server of yours nothing is in the way.
fn access(url: &str, act: act::Act) -> Access {
    let prefix = format!("inventory-demo:{:x}:{}:", event::now(), act.name());
    Access { url: url.to_owned(), prefix }
}

/// Ctrl-C, or a polite kill.
async fn interrupted() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
            return;
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}

#[allow(clippy::print_stdout, reason = "the result of the program")]
fn print_result(json: &str) {
    println!("{json}");
}

fn not_run(error: &dyn std::error::Error) -> ExitCode {
    eprintln!("error: {error}");
    NOT_RUN.into()
}
