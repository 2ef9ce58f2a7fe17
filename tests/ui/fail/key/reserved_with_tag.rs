use redlock::{LockError, redis_lock};

#[redis_lock(key = "{stock}-<id>:queue")]
async fn deduct(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

#[redis_lock(key = "{stock}-<id>:holders")]
async fn restock(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    drop((deduct(1), restock(1)));
}
