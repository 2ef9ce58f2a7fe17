use redlock::{LockError, redis_lock};

#[redis_lock(key = "stock-<_id>")]
async fn deduct(_: u64) -> Result<u64, LockError> {
    Ok(1)
}

fn main() {
    drop(deduct(1));
}
