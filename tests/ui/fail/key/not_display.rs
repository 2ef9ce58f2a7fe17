use redlock::{LockError, redis_lock};

#[redis_lock(key = "stock-<id>")]
async fn deduct(id: Option<u64>) -> Result<u64, LockError> {
    Ok(id.unwrap_or(0))
}

fn main() {
    drop(deduct(None));
}
