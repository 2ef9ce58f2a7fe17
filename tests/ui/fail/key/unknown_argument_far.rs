use redlock::{LockError, redis_lock};

#[redis_lock(key = "stock-<order.id>")]
async fn deduct(id: u64, count: u32) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    drop(deduct(1, 2));
}
