use redlock::{LockError, redis_lock};

#[redis_lock(key = ids)]
async fn deduct(ids: &[u64]) -> Result<usize, LockError> {
    Ok(ids.len())
}

fn main() {
    drop(deduct(&[1]));
}
