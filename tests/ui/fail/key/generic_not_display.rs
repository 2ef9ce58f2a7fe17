use redlock::{LockError, redis_lock};

#[redis_lock(key = "stock-<item>")]
async fn deduct<T>(item: T) -> Result<T, LockError> {
    Ok(item)
}

fn main() {
    drop(deduct(1));
}
