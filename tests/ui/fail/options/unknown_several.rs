use redlock::{LockError, redis_lock};

#[redis_lock(key = "stock-<id>", ttl_ms = 500, renew = 3, colour = "red", size)]
async fn deduct(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    drop(deduct(1));
}
