use std::time::Duration;

use redlock::{LockError, redis_lock};

macro_rules! ensure {
    ($condition:expr) => {
        if !$condition {
            return Ok(0);
        }
    };
}

#[redis_lock(key = "stock-<id>", wait = { ensure!(id > 0); Duration::ZERO })]
async fn deduct(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    drop(deduct(1));
}
