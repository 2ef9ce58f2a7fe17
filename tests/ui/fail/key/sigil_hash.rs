use redlock::{LockError, redis_lock};

#[redis_lock(key = "<shop>-#id")]
async fn deduct(shop: u64, id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    drop(deduct(1, 1));
}
