use redlock::{LockError, redis_lock};

#[redis_lock(key = "stock-<order.id>")]
async fn deduct(id: u64, count: u64) -> Result<u64, LockError> {
    Ok(id + count)
}

fn main() {
    drop(deduct(1, 2));
}
