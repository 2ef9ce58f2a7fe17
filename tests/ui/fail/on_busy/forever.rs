use redlock::{LockError, redis_lock};

#[redis_lock(key = "stock-<id>", wait = "forever", on_busy = "skip")]
async fn deduct(id: u64) -> Result<(), LockError> {
    Ok(())
}

fn main() {
    drop(deduct(1));
}
