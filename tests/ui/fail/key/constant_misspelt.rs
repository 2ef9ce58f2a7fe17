use redlock::{LockError, redis_lock};

const SHARD: u32 = 1;

#[redis_lock(key = "stock-<SHRAD>-<id>")]
async fn deduct(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    drop(deduct(1));
}
