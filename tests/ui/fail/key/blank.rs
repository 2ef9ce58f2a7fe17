use redlock::{LockError, redis_lock};

#[redis_lock(key = "<shop>-<_>-<_.max(1)>")]
async fn deduct(shop: u64, _: u64) -> Result<u64, LockError> {
    Ok(shop)
}

fn main() {
    drop(deduct(1, 2));
}
