use redlock::{LockError, redis_lock};

#[redis_lock(key = "feed-<id>", permits = 3, min_hold = "5s")]
async fn import(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    drop(import(1));
}
