use redlock::{LockError, redis_lock};

fn shard_of(id: u64) -> u64 {
    id % 8
}

#[redis_lock(key = "stock-<shrad_of(id)>")]
async fn deduct(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    drop(deduct(1));
}
