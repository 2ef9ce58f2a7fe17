use redlock::{LockError, redis_lock};

#[redis_lock(keys = ["stock-<id>"_old, "shop-<id>"])]
async fn deduct(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    drop(deduct(1));
}
