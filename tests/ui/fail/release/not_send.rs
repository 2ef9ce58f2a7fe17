use std::error::Error;

use redlock::{LockError, redis_lock};

#[redis_lock(key = "stock-<id>", release = "await")]
async fn deduct(id: u64) -> Result<u64, Box<dyn Error>> {
    Ok(id)
}

#[redis_lock(key = "stock-<id>", release = "await")]
async fn generic<T: From<u64>>(id: u64) -> Result<T, LockError> {
    Ok(T::from(id))
}

fn main() {
    drop(deduct(1));
    drop(generic::<u64>(1));
}
