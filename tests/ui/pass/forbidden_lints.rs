//! A crate that forbids many lints.

// The expansion allows nothing of these, which a crate may forbid.
#![forbid(warnings, unused, nonstandard_style, future_incompatible, clippy::all, clippy::pedantic)]
// Without an `allow`, the expansion would be told this.
#![deny(clippy::shadow_reuse)]

use redlock::{LockError, redis_lock};

#[redis_lock(key = "stock-<id>-<name>", expire = "10s", wait = "5s", max_renew = 5)]
async fn deduct(id: u64, name: &str) -> Result<u64, LockError> {
    Ok(id + name.len() as u64)
}

#[redis_lock(key = "stock", on_error = panic)]
async fn unit() {}

fn main() {
    drop(deduct(1, "a"));
    drop(unit());
}
