use redlock::{LockError, redis_lock};

macro_rules! ensure {
    ($condition:expr) => {
        if !$condition {
            return Ok(0);
        }
    };
}

#[redis_lock(key = "stock-<id>", client = { ensure!(id > 0); client })]
async fn deduct(client: &redlock::Redlock, id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    drop(|client: &redlock::Redlock| drop(deduct(client, 1)));
}
