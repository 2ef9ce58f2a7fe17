//! The inventory: a limited stock, too many customers, several processes, a real database.
//!
//! `cargo run --example inventory` needs nothing but Rust: where there is no Redis it starts a
//! private one, and where none is installed it keeps the locks in memory. Add `-- --help`.
//!
//! `shop.rs` is the code that a user of the library writes; everything else is the stage around it:
//! `main` -> `play` (one act, and its accident) -> `fleet` (the workers) -> `worker` (one of them).

mod act;
mod database;
mod fleet;
mod options;
mod play;
mod screen;
mod server;
mod shop;
mod worker;

use std::time::{Duration, Instant};

use clap::Parser;
use options::Options;
use screen::Screen;
use serde_json::json;
use server::Server;
use tokio::signal::unix::{SignalKind, signal};

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Result<T, E = Failure> = std::result::Result<T, E>;

#[tokio::main]
async fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let ended = match args.as_slice() {
        [role, setup] if role == worker::ROLE => worker::run_process(setup).await.map(|()| 0),
        // Whatever is dropped with the demo's future ends its workers and its server.
        _ => tokio::select! {
            ended = demo(Options::parse()) => ended,
            ended = interrupted() => ended,
        },
    };
    let code = ended.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        2
    });
    // Not a return: it would wait for threads that read stdin or block in a frozen payment.
    std::process::exit(code);
}

/// The exit code: 0 if every act that must be exact was.
async fn demo(options: Options) -> Result<i32> {
    let began = Instant::now();
    let server = Server::choose(options.redis_url.clone()).await?;
    let mut screen = Screen::new(options.json);
    screen.header(&server, &options);
    let mut acts = Vec::new();
    for act in options.acts() {
        acts.push(play::play(act, &options, &server, &mut screen).await?);
    }
    screen.summary(&acts, began.elapsed());
    let passed = acts.iter().all(|act| act.passed);
    if options.json {
        let server = &server.description;
        screen::print(&json!({"passed": passed, "server": server, "acts": acts}).to_string());
    }
    if let Ok(redlock) = redlock::global() {
        redlock.shutdown(Duration::from_secs(1)).await;
    }
    Ok(i32::from(!passed))
}

/// Ctrl-C, or a polite kill. The code is what a shell reports for an interrupted program.
async fn interrupted() -> Result<i32> {
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = tokio::signal::ctrl_c() => Ok(130),
        _ = terminate.recv() => Ok(130),
    }
}
