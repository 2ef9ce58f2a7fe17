use redlock::{LockError, redis_lock};

#[redis_lock(key = "stock-<id>")]
async fn deduct(_: u64, (_, _): (u8, u8)) -> Result<u64, LockError> {
    Ok(1)
}

fn main() {
    drop(deduct(1, (2, 3)));
}
