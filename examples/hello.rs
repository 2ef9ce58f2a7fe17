//! The smallest program: one lock, one guard.
//!
//! `cargo run --example hello` (needs a server; `REDIS_URL` names it)

use redlock::LockError;

#[tokio::main]
async fn main() -> Result<(), LockError> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".to_owned());
    let redlock = redlock::init(url).await?;
    let guard = redlock.lock("hello").acquire().await?;
    println!("{} is ours, fencing token {}", guard.key(), guard.fencing_token());
    guard.release().await?;
    Ok(())
}
