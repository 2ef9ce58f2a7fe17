use redlock::{LockError, redis_lock};

mod shards {
    pub(crate) const ABLE: u32 = 1;
}

#[redis_lock(key = "stock-<shards::ABEL>-<id>")]
async fn deduct(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    drop(deduct(1));
}
