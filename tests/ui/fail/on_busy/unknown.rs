use redlock::{LockError, redis_lock};

#[redis_lock(key = "stock-<id>", on_busy = "ignore")]
async fn deduct(id: u64) -> Result<(), LockError> {
    drop(id);
    Ok(())
}

fn main() {
    drop(deduct(1));
}
