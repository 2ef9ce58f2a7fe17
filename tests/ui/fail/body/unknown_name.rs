use redlock::{LockError, redis_lock};

#[redis_lock(key = "stock")]
async fn deduct(id: u64) -> Result<u64, LockError> {
    Ok(idd)
}

fn main() {
    drop(deduct(1));
}
