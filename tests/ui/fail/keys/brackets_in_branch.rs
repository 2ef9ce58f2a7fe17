use redlock::{LockError, redis_lock};

#[redis_lock(keys = [if id > 3 { "big-<id>" } else { "small" }])]
async fn deduct(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    drop(deduct(1));
}
