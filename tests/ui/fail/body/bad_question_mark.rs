use redlock::{LockError, redis_lock};

#[redis_lock(key = "stock")]
async fn deduct(id: u64) -> Result<u64, LockError> {
    let n: u64 = "1".parse()?;
    Ok(n + id)
}

fn main() {
    drop(deduct(1));
}
