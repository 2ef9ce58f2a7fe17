use redlock::{LockError, redis_lock};

#[redis_lock(key = "stock-<id>", client = locks)]
async fn deduct(id: u64, locks: redlock::Redlock) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    drop(deduct(1, redlock::global().unwrap()));
}
