use redlock::{LockError, redis_lock};

#[redis_lock(key = "stock-<order:#?>")]
async fn deduct(order: (u64, u64)) -> Result<(u64, u64), LockError> {
    Ok(order)
}

fn main() {
    drop(deduct((1, 2)));
}
