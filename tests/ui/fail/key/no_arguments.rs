use redlock::{LockError, redis_lock};

#[redis_lock(key = "stock-<id>")]
async fn deduct() -> Result<u64, LockError> {
    Ok(1)
}

fn main() {
    drop(deduct());
}
