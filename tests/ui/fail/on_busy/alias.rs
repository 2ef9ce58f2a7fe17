use redlock::{LockError, redis_lock};

type Stock = Result<u64, LockError>;

#[redis_lock(key = "stock-<id>", on_busy = "skip")]
async fn deduct(id: u64) -> Stock {
    Ok(id)
}

fn main() {
    drop(deduct(1));
}
