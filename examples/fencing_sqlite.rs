//! Fencing tokens: how a database refuses a holder that comes too late.
//!
//! A holder can be frozen (a pause of its machine, a debugger, a long system call) until its lease
//! is over. When it goes on, its write may be on the way already: no lock can call it back. The
//! database can refuse it. The order matters: **claim** with the token, then read, then write.
//!
//! `cargo run --example fencing_sqlite`; `REDIS_URL` names a server.
#![allow(clippy::print_stdout, reason = "an example talks to its reader")]

use std::error::Error;
use std::time::Duration;

use redlock::{LockGuard, Redlock};
use rusqlite::{Connection, params};

const SCHEMA: &str = "
    CREATE TABLE stock (id INTEGER PRIMARY KEY, qty INTEGER NOT NULL, fence INTEGER NOT NULL);
    INSERT INTO stock VALUES (42, 10, 0);
";
/// Before the read. No row: a newer holder was here. The same token may come again: a call that
/// re-enters the lock has that of the outer call.
const CLAIM: &str = "UPDATE stock SET fence = ?2 WHERE id = ?1 AND fence <= ?2";
const READ: &str = "SELECT qty FROM stock WHERE id = ?1";
/// Exactly our own claim. No row: a newer holder came in between.
const WRITE: &str = "UPDATE stock SET qty = ?3 WHERE id = ?1 AND fence = ?2";

const ID: i64 = 42;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let redlock = connect().await?;
    let database = Connection::open_in_memory()?;
    database.execute_batch(SCHEMA)?;

    let zombie = take(&redlock).await?;
    let late_token: i64 = zombie.fencing_token().into();
    let late_read = claim_and_read(&database, late_token)?;
    println!("holder 1 (token {late_token}) reads {late_read} and is frozen before its write");

    // Its lease is never renewed and runs out, as if its whole process had stopped.
    tokio::time::sleep(Duration::from_millis(600)).await;
    println!("  the library knows, if it is asked: {}", describe(zombie.check()));

    let next = take(&redlock).await?;
    let token: i64 = next.fencing_token().into();
    let qty = claim_and_read(&database, token)?;
    write(&database, token, qty - 1)?;
    println!("holder 2 (token {token}) reads {qty}, writes {}", qty - 1);
    next.release().await?;

    println!("holder 1 wakes up and sends the write that it had prepared long ago");
    match write(&database, late_token, late_read - 1) {
        Err(FencedOut { fence }) => println!("  refused: {late_token} < {fence}"),
        Ok(()) => return Err("a late write was accepted".into()),
    }
    match claim_and_read(&database, late_token) {
        Err(error) => println!("  and it cannot begin anew with its old token: {error}"),
        Ok(_) => return Err("a late claim was accepted".into()),
    }

    let left: i64 = database.query_row(READ, [ID], |row| row.get(0))?;
    println!("10 in stock, 1 sold, {left} left");
    if left == 9 { Ok(()) } else { Err("a unit was sold twice".into()) }
}

/// Steps 1 and 2.
fn claim_and_read(database: &Connection, token: i64) -> Result<i64, Box<dyn Error>> {
    if database.execute(CLAIM, params![ID, token])? == 0 {
        return Err(FencedOut { fence: fence(database) }.into());
    }
    Ok(database.query_row(READ, [ID], |row| row.get(0))?)
}

/// Step 3.
fn write(database: &Connection, token: i64, qty: i64) -> Result<(), FencedOut> {
    match database.execute(WRITE, params![ID, token, qty]) {
        Ok(1) => Ok(()),
        _ => Err(FencedOut { fence: fence(database) }),
    }
}

fn fence(database: &Connection) -> i64 {
    database.query_row("SELECT fence FROM stock WHERE id = ?1", [ID], |row| row.get(0)).unwrap_or(0)
}

/// A newer holder has claimed the row.
#[derive(Debug)]
struct FencedOut {
    fence: i64,
}

impl std::fmt::Display for FencedOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the row was claimed with token {}", self.fence)
    }
}

impl Error for FencedOut {}

/// A lease of half a second that nobody renews: its holder counts as frozen from the start.
async fn take(redlock: &Redlock) -> Result<LockGuard, redlock::LockError> {
    redlock.lock("stock-42").expire(Duration::from_millis(500)).max_renew(0).acquire().await
}

fn describe(check: Result<(), redlock::LockError>) -> String {
    check.err().map_or_else(|| "still held".to_owned(), |error| error.to_string())
}

async fn connect() -> Result<Redlock, redlock::LockError> {
    if let Ok(url) = std::env::var("REDIS_URL") {
        return Redlock::connect(url).await;
    }
    println!("REDIS_URL is not set: the locks are kept in this process");
    Redlock::builder().memory().build().await
}
