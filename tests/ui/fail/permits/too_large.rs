use redlock::{LockError, redis_lock};

#[redis_lock(key = "feed-<id>", permits = 5_000_000_000)]
async fn import(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    drop(import(1));
}
