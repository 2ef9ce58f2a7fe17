use redlock::{LockError, redis_lock};

#[redis_lock(key = "stock")]
async fn deduct(id: u64) -> Result<u64, LockError> {
    id += 1;
    Ok(id)
}

fn main() {
    drop(deduct(1));
}
